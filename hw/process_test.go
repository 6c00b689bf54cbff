//go:build unix

package hw

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"edged/bus"
)

// The test binary plays three parts: the tests, a guard, and a daemon with a
// guard that is going to be killed.
func TestMain(m *testing.M) {
	switch os.Getenv("HW_TEST_PART") {
	case "guard":
		if err := RunGuard(os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case "daemon":
		daemon()
	}
	os.Exit(m.Run())
}

func guardFor(actions ...SafeAction) Guard {
	return Guard{Argv: []string{"/usr/bin/env", "HW_TEST_PART=guard", os.Args[0]}, Actions: actions}
}

// daemon serves a guard until its standard input ends or it is killed.
func daemon() {
	var actions []SafeAction
	if err := json.Unmarshal([]byte(os.Getenv("HW_TEST_ACTIONS")), &actions); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		fmt.Println("ready")
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		cancel()
	}()
	if err := guardFor(actions...).Serve(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	os.Exit(0)
}

func startDaemon(t *testing.T, actions ...SafeAction) (cmd *exec.Cmd, end func() error) {
	t.Helper()
	j, err := json.Marshal(actions)
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "HW_TEST_PART=daemon", "HW_TEST_ACTIONS="+string(j))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("daemon: %q %v", line, err)
	}
	return cmd, func() error {
		_ = in.Close()
		return cmd.Wait()
	}
}

// wait looks for a file's text until the limit.
func waitFor(path, text string, limit time.Duration) (time.Duration, bool) {
	began := time.Now()
	for time.Since(began) < limit {
		if b, err := os.ReadFile(path); err == nil && string(b) == text {
			return time.Since(began), true
		}
		<-time.After(2 * time.Millisecond)
	}
	return limit, false
}

func TestGuardActsWhenTheDaemonIsKilled(t *testing.T) {
	dir := t.TempDir()
	value, touched := filepath.Join(dir, "value"), filepath.Join(dir, "touched")
	if err := os.WriteFile(value, []byte("255"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, end := startDaemon(t,
		SafeAction{Path: value, Data: []byte("0")},
		SafeAction{Command: []string{"sh", "-c", "echo done > " + touched}},
		SafeAction{Command: []string{"sleep", "60"}}, // a hung one delays nobody
		SafeAction{Path: filepath.Join(dir, "no", "such", "folder")},
	)
	// The guard may still be starting when its daemon dies: it has its orders
	// in the pipe by then, or acts on none. Ask that it has them.
	guard := childOf(t, cmd.Process.Pid)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		if err := syscall.Kill(guard, sig); err != nil { // it outlives what stops a group
			t.Fatal(err)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_ = end()
	for path, text := range map[string]string{value: "0", touched: "done\n"} {
		took, ok := waitFor(path, text, 5*time.Second)
		if !ok {
			t.Fatalf("%s was not written", path)
		}
		t.Logf("%s after %v", filepath.Base(path), took)
	}
	if d := time.Since(began); d > time.Second {
		t.Errorf("safe after %v, want 1 s", d)
	}
}

// TestGuardActsOnTheWatchdog: systemd aborts all processes of a service whose
// main one stands still. The guard doesn't wait for the end of that.
func TestGuardActsOnTheWatchdog(t *testing.T) {
	value := filepath.Join(t.TempDir(), "value")
	cmd, _ := startDaemon(t, SafeAction{Path: value, Data: []byte("0")})
	guard := childOf(t, cmd.Process.Pid)
	acted := false
	for range 200 { // it may not have its orders yet
		if err := syscall.Kill(guard, syscall.SIGABRT); err != nil {
			t.Fatal(err)
		}
		if _, acted = waitFor(value, "0", 25*time.Millisecond); acted {
			break
		}
	}
	if !acted {
		t.Error("the guard did not act")
	}
	if err := os.WriteFile(value, []byte("255"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGABRT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its dump goes to standard error
	if _, ok := waitFor(value, "0", 5*time.Second); !ok {
		t.Error("it did not outlive the signal")
	}
}

// childOf finds the one child of a process and waits until it ignores signals.
func childOf(t *testing.T, pid int) int {
	t.Helper()
	for range 2000 {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		var child int
		if _, scan := fmt.Sscan(string(b), &child); err != nil || scan != nil {
			child = childByStat(pid)
		}
		if child != 0 {
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", child))
			if _, ign, ok := strings.Cut(string(status), "SigIgn:\t"); ok {
				var mask uint64
				if _, err := fmt.Sscanf(ign, "%x", &mask); err == nil && mask&(1<<(syscall.SIGTERM-1)) != 0 {
					return child
				}
			}
		}
		<-time.After(time.Millisecond)
	}
	t.Fatal("no guard")
	return 0
}

func childByStat(parent int) int {
	list, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, f := range list {
		b, _ := os.ReadFile(f)
		i := strings.LastIndexByte(string(b), ')')
		var state string
		var ppid, pid int
		if i < 0 {
			continue
		}
		if _, err := fmt.Sscan(string(b[i+1:]), &state, &ppid); err == nil && ppid == parent {
			if _, err := fmt.Sscan(string(b), &pid); err == nil {
				return pid
			}
		}
	}
	return 0
}

func TestGuardKeepsStillAfterGoodbye(t *testing.T) {
	value := filepath.Join(t.TempDir(), "value")
	cmd, end := startDaemon(t, SafeAction{Path: value, Data: []byte("0")})
	guard := childOf(t, cmd.Process.Pid)
	if err := end(); err != nil {
		t.Errorf("daemon: %v", err)
	}
	if _, err := os.Stat(value); err == nil {
		t.Error("it acted")
	}
	if syscall.Kill(guard, 0) == nil {
		t.Error("it is still there")
	}
}

func TestGuardThatDiesIsAnError(t *testing.T) {
	for _, g := range []Guard{{}, {Argv: []string{"/no/such/binary"}}, {Argv: []string{"/bin/false"}}, {Argv: []string{"/bin/true"}}} {
		if err := g.Serve(t.Context()); err == nil {
			t.Errorf("%v: no error", g.Argv)
		} else {
			t.Log(err)
		}
	}
}

func TestGuardReadsOrders(t *testing.T) {
	value := filepath.Join(t.TempDir(), "value")
	order := func(data string) string {
		j, _ := json.Marshal(guardOrder{Actions: []SafeAction{{Path: value, Data: []byte(data)}}})
		return string(j) + "\n"
	}
	for in, want := range map[string]string{
		"":                                       "",
		order("1") + order("2"):                  "2",
		order("3") + `{"actions`:                 "3", // killed in the middle of a word
		order("4") + `{"word":"goodbye"}` + "\n": "",
	} {
		_ = os.Remove(value)
		if err := RunGuard(strings.NewReader(in)); err != nil {
			t.Error(err)
		}
		got, _ := os.ReadFile(value)
		if string(got) != want {
			t.Errorf("%q: wrote %q, want %q", in, got, want)
		}
	}
}

// A real socket, as systemd makes it.
func TestHeartbeat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	b := bus.New(bus.Options{})
	r, err := NewRig(b, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var stuck atomic.Bool
	h := HeartbeatFrom(func(k string) string {
		return map[string]string{"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "100000", "WATCHDOG_PID": fmt.Sprint(os.Getpid())}[k]
	}, map[string]Probe{"actuators": r.Probe, "bus": BusProbe(b), "tree": func(context.Context) error {
		if stuck.Load() {
			return errors.New("no move")
		}
		return nil
	}})
	if h.Every != 50*time.Millisecond {
		t.Errorf("every %v", h.Every)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		if err := h.Serve(ctx); err != nil {
			t.Error(err)
		}
	})
	until := func(want string) (before int) {
		t.Helper()
		buf := make([]byte, 1024)
		for {
			if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			n, err := conn.Read(buf)
			if err != nil {
				t.Fatalf("waiting for %q: %v", want, err)
			}
			if string(buf[:n]) == want {
				return before
			}
			before++
		}
	}
	until("READY=1")
	until("WATCHDOG=1")
	until("WATCHDOG=1")
	stuck.Store(true)
	until("STATUS=stuck: tree")
	stuck.Store(false)
	until("WATCHDOG=1")
	resume := b.Pause() // the bus hangs
	until("STATUS=stuck: bus")
	resume()
	until("WATCHDOG=1")
	cancel()
	until("STOPPING=1")
	all.Wait()
	if err := b.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestHeartbeatWithoutSystemd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := HeartbeatFrom(func(string) string { return "" }, nil).Serve(ctx); err != nil {
			t.Error(err)
		}
	})
	if h := HeartbeatFrom(func(k string) string { return map[string]string{"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}[k] }, nil); h.Every != 0 {
		t.Errorf("another process's watchdog: %v", h.Every)
	}
	if err := (Heartbeat{Socket: "/no/such/socket"}).Serve(t.Context()); err == nil {
		t.Error("no error")
	}
}

// A heartbeat that nobody hears is an error, not a beat.
func TestHeartbeatToNobody(t *testing.T) {
	for name, fails := range map[string]error{"well": nil, "stuck": errors.New("no move")} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "notify")
			conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
			if err != nil {
				t.Fatal(err)
			}
			h := Heartbeat{Socket: path, Every: 50 * time.Millisecond, Probes: map[string]Probe{"tree": func(context.Context) error { return fails }}}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // Serve without an error ends by it
			defer cancel()
			served := make(chan error, 1)
			go func() { served <- h.Serve(ctx) }()
			buf := make([]byte, 64)
			if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if n, err := conn.Read(buf); err != nil || string(buf[:n]) != "READY=1" {
				t.Errorf("got %q %v", buf[:n], err)
			}
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
			err = <-served
			if err == nil || ctx.Err() != nil {
				t.Errorf("got %v, ended by its context: %v; want an error of the socket", err, ctx.Err())
			}
		})
	}
}
