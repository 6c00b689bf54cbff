package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// freeAddress is an address that nobody has.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestPageStops stops the demo from its page in mid-drive, while others look at
// all that happens, ask for everything there is, and keep connections open.
func TestPageStops(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	at := freeAddress(t)
	r := start(t, dir, "demo", "--dir", dir, "--page.listen="+at)
	r.until("start", 10*time.Second, func() bool { return strings.Contains(r.out.String(), "\nedit ") })
	if !strings.Contains(r.out.String(), "\npage     http://"+at+"/?token=") {
		t.Errorf("the demo doesn't say where its page is:\n%s", r.out)
	}
	var page struct{ URL, Token string }
	if err := json.Unmarshal([]byte(r.must("page", "--json")), &page); err != nil {
		t.Fatal(err)
	}
	do := func(ctx context.Context, method, path, body string) (string, error) {
		q, err := http.NewRequestWithContext(ctx, method, page.URL+path, strings.NewReader(body))
		if err != nil {
			return "", err
		}
		q.Header.Set("Authorization", "Bearer "+page.Token)
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			return "", err
		}
		defer a.Body.Close()
		b, err := io.ReadAll(a.Body)
		if err == nil && a.StatusCode != http.StatusOK {
			err = fmt.Errorf("%d: %s", a.StatusCode, b)
		}
		return string(b), err
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer http.DefaultClient.CloseIdleConnections()
	defer cancel()
	for range 8 {
		go func() { _, _ = do(ctx, "GET", "/api/v1/events", "") }() // until the end
	}
	for _, path := range []string{"/api/v1/status", "/api/v1/trace", "/metrics", "/"} {
		go func() {
			for ctx.Err() == nil {
				_, _ = do(ctx, "GET", path, "") // whatever comes
			}
		}()
	}
	for range 50 {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	for i := range 3 {
		if _, err := do(ctx, "POST", "/api/v1/events", fmt.Sprintf(`{"topic": "home/goto", "payload": {"room": %q}}`, []string{"kitchen", "bedroom"}[i%2])); err != nil {
			t.Fatal(err)
		}
		r.until("driving", 10*time.Second, func() bool { _, _, v := r.pose(); return v > 0.1 })
		var stopped struct {
			MS    float64
			Error string
		}
		began := time.Now()
		out, err := do(ctx, "POST", "/api/v1/stop", `{"reason": "a cat"}`)
		took := time.Since(began)
		if err == nil {
			err = json.Unmarshal([]byte(out), &stopped)
		}
		if err != nil || stopped.Error != "" {
			t.Fatal(err, stopped.Error)
		}
		t.Logf("all actuators at rest after %.1f ms, the answer after %v", stopped.MS, took.Round(100*time.Microsecond))
		if stopped.MS > 50 {
			t.Errorf("at rest after %.1f ms, want 50 at most", stopped.MS)
		}
		r.until("standing still", 5*time.Second, func() bool {
			out, err := do(ctx, "GET", "/api/v1/map", "")
			return err == nil && strings.Contains(out, `"v":0,`)
		})
		if s := r.must("status"); !strings.Contains(s, "by page at ") || !strings.Contains(s, ": a cat;") {
			t.Errorf("the record of the stop: %s", s)
		}
		if _, err := do(ctx, "POST", "/api/v1/resume", ""); err != nil {
			t.Fatal(err)
		}
	}
}
