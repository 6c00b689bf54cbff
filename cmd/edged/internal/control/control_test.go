package control

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve answers on a socket until the test ends.
func serve(t *testing.T, path string, handlers map[string]Handler) {
	t.Helper()
	s, err := Listen(path, handlers)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func dialed(t *testing.T, path string) *Client {
	t.Helper()
	c, err := Dial(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

var handlers = map[string]Handler{
	"echo": func(_ context.Context, with json.RawMessage, send func(any) error) error { return send(with) },
	"two": func(_ context.Context, _ json.RawMessage, send func(any) error) error {
		return errors.Join(send(1), send(2))
	},
	"fail":  func(context.Context, json.RawMessage, func(any) error) error { return errors.New("no motor") },
	"usage": func(context.Context, json.RawMessage, func(any) error) error { return Usagef("no key %q", "x") },
	"panic": func(context.Context, json.RawMessage, func(any) error) error { panic("oh") },
}

func TestCalls(t *testing.T) {
	path := filepath.Join(t.TempDir(), "edged.sock")
	serve(t, path, handlers)
	c := dialed(t, path)
	var got string
	if err := c.Call(t.Context(), "echo", "hello", &got); err != nil || got != "hello" {
		t.Errorf("echo gave %q, %v", got, err)
	}
	var list []string
	err := c.Stream(t.Context(), "two", nil, func(b json.RawMessage) error {
		list = append(list, string(b))
		return nil
	})
	if err != nil || strings.Join(list, " ") != "1 2" {
		t.Errorf("stream gave %v, %v; want 1 2", list, err)
	}
	for _, x := range []struct {
		do, want string
		usage    bool
	}{
		{"fail", "no motor", false},
		{"usage", `no key "x"`, true},
		{"panic", "control: internal fault: oh", false},
		{"ehco", `unknown request "ehco"; did you mean "echo"?`, true},
	} {
		err := c.Call(t.Context(), x.do, nil, nil)
		var e *Error
		if !errors.As(err, &e) || e.Msg != x.want || e.Usage != x.usage {
			t.Errorf("%s gave %v; want %q, usage %v", x.do, err, x.want, x.usage)
		}
	}
	if err := c.Call(t.Context(), "echo", "still there", &got); err != nil {
		t.Errorf("after errors: %v", err)
	}
}

func TestOnlyTheOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "edged.sock")
	serve(t, path, handlers)
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("socket is %v, %v; want 0600", st.Mode(), err)
	}
}

// A path longer than a socket address takes is reached all the same.
func TestLongPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("x", 120), "edged.sock")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	serve(t, path, handlers)
	if err := dialed(t, path).Call(t.Context(), "echo", 1, nil); err != nil {
		t.Error(err)
	}
}

func TestSecondRobotInAFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "edged.sock")
	serve(t, path, handlers)
	if _, err := Listen(path, handlers); err == nil || !strings.Contains(err.Error(), "another edged runs this folder") {
		t.Errorf("a second one: %v", err)
	}
}

// What a killed process left behind is no hindrance.
func TestStaleSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "edged.sock")
	s, err := Listen(path, handlers)
	if err != nil {
		t.Fatal(err)
	}
	s.ln.Close() // the file stays
	serve(t, path, handlers)
	if err := dialed(t, path).Call(t.Context(), "echo", 1, nil); err != nil {
		t.Error(err)
	}
}

// A client that hangs up ends what it asked for.
func TestHangUpEndsTheHandler(t *testing.T) {
	path := filepath.Join(t.TempDir(), "edged.sock")
	began, ended := make(chan struct{}), make(chan struct{})
	serve(t, path, map[string]Handler{
		"wait": func(ctx context.Context, _ json.RawMessage, _ func(any) error) error {
			close(began)
			<-ctx.Done()
			close(ended)
			return nil
		},
		"echo": handlers["echo"],
	})
	ctx, cancel := context.WithCancel(t.Context())
	c := dialed(t, path)
	done := make(chan error, 1)
	go func() { done <- c.Stream(ctx, "wait", nil, func(json.RawMessage) error { return nil }) }()
	<-began
	if err := dialed(t, path).Call(t.Context(), "echo", 1, nil); err != nil {
		t.Errorf("beside a request that takes its time: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("the client ended it: %v", err)
	}
	<-ended
}

func TestGarbageIsAnswered(t *testing.T) {
	path := filepath.Join(t.TempDir(), "edged.sock")
	serve(t, path, handlers)
	c := dialed(t, path)
	if _, err := c.c.Write([]byte("hello?\n")); err != nil {
		t.Fatal(err)
	}
	if !c.lines.Scan() || !strings.Contains(c.lines.Text(), "not a request") {
		t.Errorf("answer %q", c.lines.Text())
	}
}

func TestFind(t *testing.T) {
	t.Setenv("EDGED_RUNTIME_DIR", filepath.Join(t.TempDir(), "run"))
	if _, err := Find("", ""); !errors.Is(err, ErrNone) {
		t.Errorf("nobody runs: %v", err)
	}
	announce := func(name string, pid int) string {
		dir := t.TempDir()
		path := filepath.Join(dir, "edged.sock")
		serve(t, path, handlers)
		forget, err := Announce(Instance{Name: name, Dir: dir, Socket: path, PID: pid})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(forget)
		return path
	}
	scout := announce("scout", os.Getpid())
	if got, err := Find("", ""); got != scout {
		t.Errorf("the only one: %q, %v; want %q", got, err, scout)
	}
	rover := announce("rover", os.Getppid())
	_, err := Find("", "")
	if err == nil || !strings.Contains(err.Error(), "2 robots are running") || !strings.Contains(err.Error(), scout) || !strings.Contains(err.Error(), "rover") {
		t.Errorf("two: %v", err)
	}
	if got, err := Find("", filepath.Dir(rover)); got != rover {
		t.Errorf("that of the folder: %q, %v", got, err)
	}
	if got, _ := Find("named.sock", filepath.Dir(rover)); got != "named.sock" {
		t.Errorf("the named one: %q", got)
	}
}

// Names that killed robots left are cleared away.
func TestDeadNamesGo(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("EDGED_RUNTIME_DIR", dir)
	const nobody = 1 << 30
	if _, err := Announce(Instance{Name: "gone", Socket: "/nowhere", PID: nobody}); err != nil {
		t.Fatal(err)
	}
	if list := Running(); len(list) != 0 {
		t.Errorf("running: %v", list)
	}
	if _, err := os.Stat(filepath.Join(dir, strconv.Itoa(nobody)+".json")); !os.IsNotExist(err) {
		t.Errorf("its name is still there: %v", err)
	}
}

// A folder that others can write names into is not believed.
func TestSharedRuntimeFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("EDGED_RUNTIME_DIR", dir)
	if _, err := Announce(Instance{Name: "x", PID: 1}); err == nil || !strings.Contains(err.Error(), "others may write") {
		t.Errorf("a folder that is open to all: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("EDGED_RUNTIME_DIR", file)
	if _, err := Announce(Instance{Name: "x", PID: 1}); err == nil {
		t.Error("a file was taken for a folder")
	}
}
