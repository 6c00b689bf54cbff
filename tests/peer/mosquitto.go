package peer

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A Mosquitto is a real broker on a free loopback port. It ends with the test.
type Mosquitto struct {
	Port string
	Dir  string // of its files

	t     testing.TB
	path  string
	extra string
	log   *Output

	mu     sync.Mutex // guards the rest
	cmd    *exec.Cmd
	exited chan struct{}
}

// NewMosquitto prepares a broker with lines of configuration; %PORT% and %DIR%
// are replaced. Without any it listens to everybody on loopback.
func NewMosquitto(t testing.TB, extra string) *Mosquitto {
	t.Helper()
	m := &Mosquitto{t: t, path: Tool(t, "mosquitto"), Dir: t.TempDir(), Port: FreePort(t), extra: extra}
	_ = os.Chmod(m.Dir, 0o755)
	if extra == "" {
		m.extra = "listener %PORT% 127.0.0.1\nallow_anonymous true\n"
	}
	t.Cleanup(func() { m.Stop(syscall.SIGKILL) })
	return m
}

// URL is where it listens.
func (m *Mosquitto) URL() string { return "tcp://127.0.0.1:" + m.Port }

// Start runs it and returns when it listens.
func (m *Mosquitto) Start() {
	m.t.Helper()
	who := "root"
	if u := os.Getenv("USER"); os.Getuid() != 0 && u != "" {
		who = u
	}
	conf := "user " + who + "\npersistence true\npersistence_location " + m.Dir + "/\nautosave_interval 1\n" +
		"max_queued_messages 0\nset_tcp_nodelay true\n" + m.extra
	conf = strings.NewReplacer("%PORT%", m.Port, "%DIR%", m.Dir).Replace(conf)
	file := filepath.Join(m.Dir, "mosquitto.conf")
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
func (m *Mosquitto) run(file string) (up bool) {
	m.t.Helper()
	m.log = &Output{}
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
	Eventually(m.t, 10*time.Second, "mosquitto listens", func() bool {
		select {
		case <-exited:
			return true
		default:
		}
		if !strings.Contains(m.log.String(), "running") && !strings.Contains(m.log.String(), "listen socket") {
			return false
		}
		c, err := net.Dial("tcp", "127.0.0.1:"+m.Port)
		if err == nil {
			c.Close()
			up = true
		}
		return up
	})
	return up
}

// Stop ends it. SIGTERM lets it save its sessions.
func (m *Mosquitto) Stop(sig syscall.Signal) {
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

// Reload has it read its files again.
func (m *Mosquitto) Reload() {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = m.cmd.Process.Signal(syscall.SIGHUP)
}

// Tool gives the path of one of mosquitto's programs, or of what they are run
// with.
func Tool(t testing.TB, name string) string {
	t.Helper()
	debian := "mosquitto-clients"
	switch name {
	case "mosquitto", "mosquitto_passwd":
		debian = "mosquitto"
	case "stdbuf", "timeout":
		debian = "coreutils"
	}
	return Need(t, name, debian)
}

// Pub publishes with mosquitto's own client, at a port of loopback.
func Pub(t testing.TB, port string, args ...string) {
	t.Helper()
	// It would try again for ever if it isn't let in.
	if out, err := exec.Command(Tool(t, "timeout"), append([]string{"30", Tool(t, "mosquitto_pub"), "-h", "127.0.0.1", "-p", port}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("mosquitto_pub %v: %v: %s", args, err, out)
	}
}

// Sub listens with mosquitto's own client, which writes to out what comes and
// what it does, a line each. It returns when the subscription stands. wait waits
// for the end of the program, which the end of the test is for one that has
// none of its own.
func Sub(t testing.TB, out *Output, port string, args ...string) (wait func()) {
	t.Helper()
	args = append([]string{"-oL", Tool(t, "mosquitto_sub"), "-h", "127.0.0.1", "-p", port, "-d"}, args...)
	cmd := exec.Command(Tool(t, "stdbuf"), args...) // it prints to a pipe in blocks otherwise
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	wait = sync.OnceFunc(func() { _ = cmd.Wait() })
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		wait()
	})
	Eventually(t, 10*time.Second, "mosquitto_sub subscribed", func() bool { return strings.Contains(out.String(), "Subscribed (mid") })
	return wait
}
