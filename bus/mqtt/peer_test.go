package mqtt_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"edged/bus"
	"edged/bus/mqtt"
	peers "edged/tests/peer"
)

func TestMain(m *testing.M) {
	if os.Getenv("EDGED_MQTT_CHILD") != "" {
		child()
		return
	}
	goleak.VerifyTestMain(m)
}

// mosquitto is a real broker on a free loopback port.
type mosquitto struct {
	t      testing.TB
	path   string
	dir    string
	port   string
	extra  string
	cmd    *exec.Cmd
	exited chan struct{}
	log    *watched
	mu     sync.Mutex
}

// peer finds a program that the test talks to.
func peer(t testing.TB, name string) string {
	t.Helper()
	debian := "mosquitto-clients"
	switch name {
	case "mosquitto", "mosquitto_passwd":
		debian = "mosquitto"
	case "stdbuf", "timeout":
		debian = "coreutils"
	}
	return peers.Need(t, name, debian)
}

// freePort finds a port below those that the kernel gives to clients, so that
// it is still free when a broker comes back to it.
func freePort(t testing.TB) string {
	t.Helper()
	for range 100 {
		port := fmt.Sprint(20_000 + rand.IntN(12_000))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return ""
}

// newMosquitto prepares a broker with extra lines of configuration; %PORT% and
// %DIR% are replaced.
func newMosquitto(t testing.TB, extra string) *mosquitto {
	t.Helper()
	m := &mosquitto{t: t, path: peer(t, "mosquitto"), dir: t.TempDir(), port: freePort(t), extra: extra}
	_ = os.Chmod(m.dir, 0o755)
	if extra == "" {
		m.extra = "listener %PORT% 127.0.0.1\nallow_anonymous true\n"
	}
	t.Cleanup(func() { m.stop(syscall.SIGKILL) })
	return m
}

func startMosquitto(t testing.TB, extra string) *mosquitto {
	t.Helper()
	m := newMosquitto(t, extra)
	m.start()
	return m
}

func (m *mosquitto) start() {
	m.t.Helper()
	who := "root"
	if u := os.Getenv("USER"); os.Getuid() != 0 && u != "" {
		who = u
	}
	conf := "user " + who + "\npersistence true\npersistence_location " + m.dir + "/\nautosave_interval 1\n" +
		"max_queued_messages 0\nset_tcp_nodelay true\n" + m.extra
	conf = strings.NewReplacer("%PORT%", m.port, "%DIR%", m.dir).Replace(conf)
	file := filepath.Join(m.dir, "mosquitto.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		m.t.Fatal(err)
	}
	for range 100 {
		if m.run(file) {
			return
		}
		if !strings.Contains(m.log.String(), "Address already in use") { // a fork may hold the old socket for a moment
			break
		}
	}
	m.t.Fatalf("mosquitto did not start: %s", m.log.String())
}

// run starts the program and reports whether it listens.
func (m *mosquitto) run(file string) bool {
	m.t.Helper()
	m.log = &watched{}
	cmd := exec.Command(m.path, "-c", file)
	cmd.Stdout, cmd.Stderr = m.log, m.log
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { _ = cmd.Wait(); close(exited) }()
	m.mu.Lock()
	m.cmd, m.exited = cmd, exited
	m.mu.Unlock()
	up := false
	eventually(m.t, 10*time.Second, "mosquitto listens", func() bool {
		select {
		case <-exited:
			return true
		default:
		}
		if !strings.Contains(m.log.String(), "running") && !strings.Contains(m.log.String(), "listen socket") {
			return false
		}
		c, err := net.Dial("tcp", "127.0.0.1:"+m.port)
		if err == nil {
			c.Close()
			up = true
		}
		return up
	})
	return up
}

// stop ends the broker. SIGTERM lets it save its sessions.
func (m *mosquitto) stop(sig syscall.Signal) {
	m.mu.Lock()
	cmd, exited := m.cmd, m.exited
	m.cmd = nil
	m.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Signal(sig)
	<-exited
	if m.t.Failed() {
		m.t.Logf("mosquitto: %s", m.log.String())
	}
}

func (m *mosquitto) url() string { return "tcp://127.0.0.1:" + m.port }

// pub publishes with mosquitto's own client.
func pub(t testing.TB, port string, args ...string) {
	t.Helper()
	if out, err := exec.Command(peer(t, "mosquitto_pub"), append([]string{"-h", "127.0.0.1", "-p", port}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("mosquitto_pub %v: %v: %s", args, err, out)
	}
}

// sub reads n messages with mosquitto's own client, as "topic payload" lines;
// it returns when the subscription stands.
func sub(t testing.TB, port string, n int, args ...string) func() []string {
	t.Helper()
	args = append([]string{"-h", "127.0.0.1", "-p", port, "-C", fmt.Sprint(n), "-W", "15", "-d", "-F", "%t %p %r %q"}, args...)
	// stdbuf: it prints to a pipe in blocks otherwise
	cmd := exec.Command(peer(t, "stdbuf"), append([]string{"-oL", peer(t, "mosquitto_sub")}, args...)...)
	out := &watched{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	eventually(t, 10*time.Second, "mosquitto_sub subscribed", func() bool { return strings.Contains(out.String(), "Subscribed (mid") })
	return func() []string {
		t.Helper()
		_ = cmd.Wait()
		var lines []string
		for _, l := range strings.Split(out.String(), "\n") {
			if l != "" && !strings.HasPrefix(l, "Client ") && !strings.HasPrefix(l, "Subscribed") {
				lines = append(lines, l)
			}
		}
		return lines
	}
}

type watched struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// eventually waits for a condition of the world outside.
func eventually(t testing.TB, d time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * d); ; { // five times what an idle machine needs at most
		if ok() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v: not so: %s", d, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// robot is a bus with a bridge that is being served.
type robot struct {
	*bus.Bus
	br   *mqtt.Bridge
	stop func()
}

func newRobot(t testing.TB, o mqtt.Options) *robot {
	t.Helper()
	b := bus.New(bus.Options{})
	br, err := mqtt.New(b, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- br.Serve(ctx) }()
	var once sync.Once
	r := &robot{Bus: b, br: br}
	r.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Serve: got %v, want nil", err)
			}
			br.Close()
			_ = b.Close(context.Background())
		})
	}
	t.Cleanup(r.stop)
	return r
}

func (r *robot) connected(t testing.TB) *robot {
	t.Helper()
	eventually(t, 20*time.Second, "connected: "+r.br.Stats().Reason, r.br.Connected)
	return r
}

// heard collects the events of a filter.
type heard struct {
	mu   sync.Mutex
	list []bus.Event
}

func (r *robot) hear(t testing.TB, filter string) *heard {
	t.Helper()
	h := &heard{}
	if _, err := r.Tap(filter, func(e bus.Event) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.list = append(h.list, e)
	}); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *heard) events() []bus.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]bus.Event(nil), h.list...)
}

func (h *heard) wait(t testing.TB, n int) []bus.Event {
	t.Helper()
	eventually(t, 10*time.Second, fmt.Sprintf("%d events", n), func() bool { return len(h.events()) >= n })
	return h.events()
}

func (r *robot) say(t testing.TB, topic string, v any) {
	t.Helper()
	if _, err := r.Publish(context.Background(), "test", topic, v); err != nil {
		t.Fatal(err)
	}
}
