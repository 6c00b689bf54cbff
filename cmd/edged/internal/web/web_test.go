package web

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"edged/bus"
	"edged/cmd/edged/internal/control"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "abcdefghijklmnopqrstuvwxyz"

// deadline is when a test that waits for an answer fails; none comes near it.
const deadline = 15 * time.Second

// opened is a server that answers until the test ends.
type opened struct {
	*Server
	t      *testing.T
	bus    *bus.Bus
	at     string // its address
	client *http.Client
	did    []string // what POST /api/v1/do was asked
}

func open(t *testing.T, change func(*Options)) *opened {
	t.Helper()
	s := &opened{t: t, bus: bus.New(bus.Options{}), client: &http.Client{
		Transport:     &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	o := Options{Listen: "127.0.0.1:0", Token: secret, Name: "rover", Run: "run", Bus: s.bus, Routes: map[string]Route{
		"GET /api/v1/echo": {Do: func(_ context.Context, with json.RawMessage, send func(any) error) error { return send(with) }, With: func(q *Query) (any, error) { return q.Get("x"), nil }},
		"POST /api/v1/do": {Do: func(ctx context.Context, with json.RawMessage, send func(any) error) error {
			s.did = append(s.did, control.Who(ctx)+" "+string(with))
			return send(map[string]bool{"done": true})
		}},
		"GET /api/v1/none":   {Do: func(context.Context, json.RawMessage, func(any) error) error { return errors.New("no such thing") }},
		"GET /api/v1/usage":  {Do: func(context.Context, json.RawMessage, func(any) error) error { return control.Usagef("what?") }},
		"GET /api/v1/panic":  {Do: func(context.Context, json.RawMessage, func(any) error) error { panic("oh") }},
		"POST /api/v1/again": {Do: func(context.Context, json.RawMessage, func(any) error) error { return errors.New("too late") }},
	}}
	if change != nil {
		change(&o)
	}
	var err error
	if s.Server, err = Listen(o); err != nil {
		t.Fatal(err)
	}
	s.at = "http://" + s.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := s.bus.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// do sends a request with headers, as "Name: value".
func (s *opened) do(method, path, body string, headers ...string) (*http.Response, string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), deadline)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.at+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, h := range headers {
		k, v, _ := strings.Cut(h, ": ")
		if r.Header.Set(k, v); k == "Host" {
			r.Host = v
		}
	}
	a, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return a, strings.TrimSpace(string(b))
}

// Who may do what, row by row.
func TestAccess(t *testing.T) {
	s := open(t, func(o *Options) { o.Names = []string{"rover.local"} })
	host := s.Addr().String()
	cookie := "Cookie: " + cookieOf(secret) + "=" + secret
	for _, x := range []struct {
		name    string
		method  string
		path    string
		headers []string
		want    int
		says    string
	}{
		{"reading needs no token", "GET", "/api/v1/echo?x=1", nil, 200, `"1"`},
		{"changing does", "POST", "/api/v1/do", nil, 403, "without the token"},
		{"in the header", "POST", "/api/v1/do", []string{bearer}, 200, "done"},
		{"in the cookie", "POST", "/api/v1/do", []string{cookie}, 200, "done"},
		{"a wrong one", "POST", "/api/v1/do", []string{"Authorization: Bearer x"}, 403, "without the token"},
		{"a wrong one beside the right cookie", "POST", "/api/v1/do", []string{"Authorization: Bearer x", cookie}, 403, "without the token"},
		{"an empty one", "POST", "/api/v1/do", []string{"Authorization: Bearer "}, 403, "without the token"},
		{"the cookie of another robot", "POST", "/api/v1/do", []string{"Cookie: edged_00000000=" + secret}, 403, "without the token"},
		{"in the address of an action", "POST", "/api/v1/do?token=" + secret, nil, 403, "without the token"},
		{"no change by GET", "GET", "/api/v1/do", []string{bearer}, 405, "takes POST, not GET"},
		{"no reading by POST", "POST", "/api/v1/echo", []string{bearer}, 405, "takes GET, not POST"},
		{"no other method", "DELETE", "/api/v1/do", []string{bearer}, 405, "DELETE is not answered"},
		{"nor asking what another page may", "OPTIONS", "/api/v1/do", []string{bearer}, 405, "OPTIONS is not answered"},
		{"a name that somebody's DNS gave", "GET", "/api/v1/echo", []string{"Host: evil.example"}, 403, "page.names"},
		{"the same with the token", "POST", "/api/v1/do", []string{"Host: evil.example", bearer}, 403, "page.names"},
		{"one that looks like ours", "GET", "/api/v1/echo", []string{"Host: localhost.evil.example"}, 403, "page.names"},
		{"an address that is not ours", "GET", "/api/v1/echo", []string{"Host: 10.0.0.9:7878"}, 403, "page.names"},
		{"localhost through a tunnel", "GET", "/api/v1/echo?x=1", []string{"Host: localhost:9999"}, 200, `"1"`},
		{"no name at all", "GET", "/api/v1/echo", []string{"Host: ."}, 403, `\".\" is not a name`},
		{"a name as long as is told", "GET", "/api/v1/echo", []string{"Host: " + strings.Repeat("x", 80)}, 403, `"` + strings.Repeat("x", 80) + `\" is not`},
		{"a longer one", "GET", "/api/v1/echo", []string{"Host: " + strings.Repeat("x", 81)}, 403, `"` + strings.Repeat("x", 80) + `…\" is not`},
		{"the token in the address of something else", "GET", "/api/v1/echo?x=1&token=" + secret, nil, 200, `"1"`},
		{"a wrong one there", "GET", "/api/v1/echo?x=1&token=x", nil, 200, `"1"`},
		{"in the address of the page, to change something", "POST", "/?token=" + secret, nil, 403, "without the token"},
		{"IPv6", "GET", "/api/v1/echo?x=1", []string{"Host: [::1]:9999"}, 200, `"1"`},
		{"a name of the settings", "GET", "/api/v1/echo?x=1", []string{"Host: Rover.local.:7878"}, 200, `"1"`},
		{"from the page itself", "POST", "/api/v1/do", []string{cookie, "Origin: http://" + host, "Sec-Fetch-Site: same-origin"}, 200, "done"},
		{"from another page", "POST", "/api/v1/do", []string{cookie, "Origin: http://evil.example"}, 403, "another page"},
		{"from another port", "POST", "/api/v1/do", []string{cookie, "Origin: http://127.0.0.1:1"}, 403, "another page"},
		{"from a sandbox", "POST", "/api/v1/do", []string{cookie, "Origin: null"}, 403, "another page"},
		{"a browser says so", "POST", "/api/v1/do", []string{cookie, "Sec-Fetch-Site: cross-site"}, 403, "another page"},
		{"of the same site", "POST", "/api/v1/do", []string{cookie, "Sec-Fetch-Site: same-site"}, 403, "another page"},
		{"another page doesn't even read", "GET", "/api/v1/echo", []string{"Sec-Fetch-Site: cross-site"}, 403, "another page"},
		{"but may lead here", "GET", "/", []string{"Sec-Fetch-Site: cross-site"}, 200, "rover"},
		{"health is for all", "GET", "/healthz", nil, 200, `"ok":true`},
		{"what there is not", "GET", "/api/v1/nothing", nil, 404, "nothing is at"},
		{"what goes wrong, reading", "GET", "/api/v1/none", nil, 404, "no such thing"},
		{"what goes wrong, changing", "POST", "/api/v1/again", []string{bearer}, 409, "too late"},
		{"what is asked wrongly", "GET", "/api/v1/usage", nil, 400, "what?"},
		{"what breaks", "GET", "/api/v1/panic", nil, 500, "internal fault: oh"},
	} {
		a, body := s.do(x.method, x.path, "", x.headers...)
		if a.StatusCode != x.want || !strings.Contains(body, x.says) {
			t.Errorf("%s: got %d %s, want %d %s", x.name, a.StatusCode, body, x.want, x.says)
		}
		if strings.Contains(body, secret) {
			t.Errorf("%s: the answer has the token: %s", x.name, body)
		}
		for h, want := range map[string]string{
			"Content-Security-Policy": "frame-ancestors 'none'", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
			"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin", "Cache-Control": "no-store",
			"Referrer-Policy": "same-origin", // browsers send Origin: null with a form where it is no-referrer
		} {
			if got := a.Header.Get(h); !strings.Contains(got, want) {
				t.Errorf("%s: %s is %q, want %q", x.name, h, got, want)
			}
		}
		if got := a.Header.Get("WWW-Authenticate"); (got == "Bearer") != strings.Contains(x.says, "without the token") {
			t.Errorf("%s: it asks for %q", x.name, got)
		}
		if strings.Contains(x.says, "is not answered") && a.Header.Get("Allow") != "GET, HEAD, POST" {
			t.Errorf("%s: it allows %q", x.name, a.Header.Get("Allow"))
		}
	}
	if want := 3; len(s.did) != want {
		t.Errorf("done %d times, want %d: %v", len(s.did), want, s.did)
	}
}

// The token in the address becomes a cookie, and is gone from the address.
func TestEnter(t *testing.T) {
	s := open(t, nil)
	a, _ := s.do("GET", "/?token="+secret, "")
	if a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/" {
		t.Errorf("got %d to %q", a.StatusCode, a.Header.Get("Location"))
	}
	c := a.Cookies()
	if len(c) != 1 || !c[0].HttpOnly || c[0].SameSite != http.SameSiteStrictMode || c[0].Secure || c[0].Path != "/" || c[0].MaxAge != 30*24*3600 {
		t.Fatalf("cookies %v", c)
	}
	if _, body := s.do("GET", "/", "", "Cookie: "+c[0].Name+"="+c[0].Value); !strings.Contains(body, `data-may="yes"`) {
		t.Errorf("the page doesn't know who may: %s", body)
	}
	if _, body := s.do("GET", "/", ""); !strings.Contains(body, `data-may="no"`) {
		t.Errorf("the page lets everybody: %s", body)
	}
	if c[0].Name != "edged_71c480df" { // a browser that was let in stays so when edged is replaced by a newer one
		t.Errorf("the cookie is called %s", c[0].Name)
	}
	a, body := s.do("GET", "/?token="+secret, "", "Sec-Fetch-Site: cross-site")
	if a.StatusCode != http.StatusOK || a.Header.Get("Refresh") != "0; url=/" || len(a.Cookies()) != 1 || !strings.Contains(body, "one moment") {
		t.Errorf("led here by a link: %d %s, refresh %q", a.StatusCode, body, a.Header.Get("Refresh"))
	}
	if got := a.Header.Get("Referrer-Policy"); got != "no-referrer" {
		t.Errorf("the address with the token is told to the next page: %q", got)
	}
	if a, body := s.do("GET", "/?token=wrong", "", "Accept: text/html"); a.StatusCode != http.StatusForbidden || !strings.Contains(body, "edged page") {
		t.Errorf("a wrong token: %d %s", a.StatusCode, body)
	}
}

// watcher reads a stream of events.
type watcher struct {
	t    *testing.T
	in   *bufio.Scanner
	body io.Closer
}

func (s *opened) watch(path, last string) *watcher {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), deadline)
	s.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, "GET", s.at+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	a, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { a.Body.Close() })
	in := bufio.NewScanner(a.Body)
	in.Buffer(nil, 4<<20)
	return &watcher{s.t, in, a.Body}
}

// next gives the next event of the stream.
func (w *watcher) next() (event, id, data string) {
	w.t.Helper()
	for w.in.Scan() {
		k, v, _ := strings.Cut(w.in.Text(), ": ")
		switch k {
		case "event":
			event = v
		case "id":
			id = v
		case "data":
			data = v
		case "":
			if event != "" {
				return event, id, data
			}
		}
	}
	w.t.Fatalf("the stream ended: %v", w.in.Err())
	return "", "", ""
}

func (w *watcher) want(event, data string) (id string) {
	w.t.Helper()
	e, id, d := w.next()
	if e != event || !strings.Contains(d, data) {
		w.t.Fatalf("got %s %s, want %s with %s", e, d, event, data)
	}
	return id
}

// Events come with their numbers; who comes back gets what it missed.
func TestEvents(t *testing.T) {
	s := open(t, nil)
	say := func(topic string, v any) {
		if _, err := s.bus.Publish(t.Context(), "test", topic, v); err != nil {
			t.Fatal(err)
		}
	}
	w := s.watch("/api/v1/events?filter=a/%2B", "")
	w.want("hello", `"run":"run"`)
	say("b/x", 1)
	say("a/x", 2)
	id := w.want("events", `"topic":"a/x","payload":2`)
	w.body.Close()
	for i := range 5 {
		say("a/y", i)
	}
	w = s.watch("/api/v1/events?filter=a/%2B", id)
	w.want("hello", "")
	_, _, data := w.next()
	for data == "" || strings.Count(data, "a/y") < 5 {
		_, _, more := w.next()
		data += more
	}
	if strings.Contains(data, "a/x") {
		t.Errorf("what was seen comes again: %s", data)
	}
	w = s.watch("/api/v1/events", "other:3")
	w.want("hello", "")
	w.want("gap", "restarted")
	if a, body := s.do("GET", "/api/v1/events?filter=a/%23/b", ""); a.StatusCode != 400 {
		t.Errorf("a wrong filter: %d %s", a.StatusCode, body)
	}
}
