// Package e2e runs the real binary as a person would: the demo is driven over
// MQTT, stopped, edited, killed.
package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"edged/tests/peer"
)

func TestMain(m *testing.M) {
	code := m.Run()
	peer.Clean()
	os.Exit(code)
}

// robot is a running edged.
type robot struct {
	t       *testing.T
	bin     string
	env     []string
	cmd     *exec.Cmd
	out     *output
	started time.Time
	socket  string
	dir     string
	port    string
}

// output keeps what a process prints.
type output struct{ peer.Output }

// start runs edged with a broker on a free port and a data folder in dir.
func start(t *testing.T, dir string, args ...string) *robot {
	t.Helper()
	bin := peer.Edged(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(addr)
	r := &robot{t: t, bin: bin, dir: dir, port: port, out: &output{}, socket: filepath.Join(dir, ".edged", "edged.sock")}
	r.env = append(os.Environ(), "EDGED_RUNTIME_DIR="+t.TempDir(), "EDGED_MQTT_LISTEN="+addr, "EDGED_PAGE_LISTEN=off")
	r.cmd = exec.Command(bin, args...)
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = r.env, r.out, r.out
	r.started = time.Now()
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() && r.cmd.ProcessState == nil {
			out, _ := r.edged("trace", "-n", "40")
			t.Logf("what happened last:\n%s", out)
		}
		r.end(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("the robot said:\n%s", r.out)
		}
	})
	return r
}

func (r *robot) end(s os.Signal) {
	if r.cmd.ProcessState == nil {
		_ = r.cmd.Process.Signal(s)
		_ = r.cmd.Wait()
	}
}

// edged runs a verb against the robot.
func (r *robot) edged(args ...string) (string, error) {
	cmd := exec.Command(r.bin, append([]string{"--socket", r.socket}, args...)...)
	cmd.Env = r.env
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (r *robot) must(args ...string) string {
	r.t.Helper()
	out, err := r.edged(args...)
	if err != nil {
		r.t.Fatalf("edged %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// event waits for one event and gives its payload.
func (r *robot) event(filter string, within time.Duration) any {
	r.t.Helper()
	v, err := r.tryEvent(filter, within)
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

func (r *robot) tryEvent(filter string, within time.Duration) (any, error) {
	out, err := r.edged("sub", "--json", "-n", "1", "--wait", within.String(), filter)
	if err != nil {
		return nil, fmt.Errorf("edged sub %s: %w\n%s", filter, err, out)
	}
	var e struct{ Payload any }
	if err := json.Unmarshal([]byte(out), &e); err != nil {
		return nil, fmt.Errorf("%w in %q", err, out)
	}
	return e.Payload, nil
}

// hears returns once somebody listens, and gives what waits for the event.
func (r *robot) hears(filter string) func() any {
	r.t.Helper()
	was := r.listeners(filter)
	heard := beside(r.t, func() (any, error) { return r.tryEvent(filter, 10*time.Second) })
	r.until("a listener to "+filter, 10*time.Second, func() bool { return r.listeners(filter) > was })
	return heard
}

func (r *robot) listeners(filter string) int {
	r.t.Helper()
	return strings.Count(r.must("status", "--json"), strconv.Quote(filter))
}

// beside does something beside the test. Since t.Fatal would end no more than
// its goroutine, and leave the test waiting, do gives its error, and what is
// returned here, which waits for the end, is fatal.
func beside[T any](t *testing.T, do func() (T, error)) (wait func() T) {
	var v T
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		v, err = do()
	}()
	return func() T {
		t.Helper()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Fatal("what goes on beside the test does not end")
		}
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (r *robot) until(what string, within time.Duration, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
	}
	r.t.Fatalf("%s did not happen within %v", what, within)
}

// ready waits until the robot answers.
func (r *robot) ready() {
	r.t.Helper()
	r.until("an answer on the socket", 10*time.Second, func() bool { _, err := r.edged("bb", "keys"); return err == nil })
}

func (r *robot) mqtt(t *testing.T, topic, payload string) {
	t.Helper()
	pub := peer.Need(t, "mosquitto_pub", "mosquitto-clients")
	if out, err := exec.Command(pub, "-p", r.port, "-q", "1", "-t", topic, "-m", payload).CombinedOutput(); err != nil {
		t.Fatalf("mosquitto_pub: %v\n%s", err, out)
	}
}

func (r *robot) pose() (x, y, v float64) {
	r.t.Helper()
	p := r.event("hw/pose", 5*time.Second).(map[string]any)["value"].(map[string]any)
	return p["x"].(float64), p["y"].(float64), p["v"].(float64)
}

func TestDemo(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir, "demo", "--dir", dir)
	r.ready()
	r.until("the first motion", 10*time.Second, func() bool { _, _, v := r.pose(); return v > 0 })
	motion := r.firstMotion().Sub(r.started)
	t.Logf("first motion %v after the process start", motion.Round(time.Millisecond))
	if motion > 2*time.Second {
		t.Errorf("first motion after %v, want 2 s at most", motion)
	}

	// Somebody drives it with any MQTT tool; the answer is an event.
	arrived := make(chan string, 1)
	go func() { out, _ := r.edged("sub", "-n", "1", "--wait", "60s", "home/arrived"); arrived <- out }()
	r.must("sub", "-n", "1", "--wait", "5s", "hw/pose") // the listener above is there by now
	r.mqtt(t, "home/goto", `{"room":"hall"}`)
	if out := <-arrived; !strings.Contains(out, `"room":"hall"`) {
		t.Fatalf("home/arrived: %s", out)
	}

	// Stop in mid-drive: told at once, and nothing moves before resume.
	r.mqtt(t, "home/goto", `{"room":"kitchen"}`)
	r.until("driving on", 5*time.Second, func() bool { _, _, v := r.pose(); return v > 0.1 })
	var stopped struct{ MS float64 }
	if err := json.Unmarshal([]byte(r.must("stop", "--json")), &stopped); err != nil {
		t.Fatal(err)
	}
	t.Logf("edged stop: all actuators at rest after %.1f ms", stopped.MS)
	if stopped.MS > 50 {
		t.Errorf("at rest after %.1f ms, want 50 at most", stopped.MS)
	}
	r.until("standing still", 2*time.Second, func() bool {
		_, err := r.edged("sub", "-n", "1", "--wait", "200ms", "hw/pose")
		return err != nil // no pose is told while nothing moves
	})
	r.stoodStill()
	r.mqtt(t, "home/goto", `{"room":"bedroom"}`)
	if out, err := r.edged("sub", "-n", "1", "--wait", "500ms", "hw/base/set"); err == nil && !strings.Contains(out, `"v":0`) {
		t.Errorf("a stopped robot was commanded: %s", out)
	}
	if out := r.must("resume"); !strings.Contains(out, "cli") {
		t.Errorf("resume says %q, want who stopped it", out)
	}

	// The same over MQTT.
	r.mqtt(t, "home/goto", `{"room":"kitchen"}`)
	r.until("driving again", 5*time.Second, func() bool { _, _, v := r.pose(); return v > 0.1 })
	r.mqtt(t, "edged/safety/stop", `{"reason":"a button somewhere"}`)
	r.until("the stop over MQTT", 2*time.Second, func() bool {
		out, err := r.edged("status", "--json")
		return err == nil && strings.Contains(out, "a button somewhere")
	})
	r.end(syscall.SIGTERM)
	if code := r.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit status %d after SIGTERM, want 0", code)
	}
}

// folder writes a robot.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestEdits(t *testing.T) {
	const good = "def on_ask(ev):\n    bus.publish(\"bot/answer\", %d)\n\non(\"bot/ask\", on_ask)\n"
	dir := folder(t, map[string]string{"main.star": fmt.Sprintf(good, 1), "edged.toml": "name = \"bot\"\n"})
	main := filepath.Join(dir, "main.star")
	r := start(t, dir, "run", dir)
	r.ready()
	answer := func() string {
		got := make(chan string, 1)
		go func() { out, _ := r.edged("sub", "--json", "-n", "1", "--wait", "2s", "bot/answer"); got <- out }()
		for {
			r.must("pub", "bot/ask")
			select {
			case out := <-got:
				return out
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	if out := answer(); !strings.Contains(out, `"payload":1`) {
		t.Fatalf("the first version answers %s", out)
	}
	saved := time.Now()
	if err := os.WriteFile(main, []byte(fmt.Sprintf(good, 2)), 0o644); err != nil {
		t.Fatal(err)
	}
	r.until("the edit", 5*time.Second, func() bool { return strings.Contains(r.out.String(), "reloaded bot") })
	took := time.Since(saved)
	t.Logf("a saved edit was live after %v", took.Round(time.Millisecond))
	if took > 200*time.Millisecond {
		t.Errorf("an edit was live after %v, want 200 ms at most", took)
	}
	if out := answer(); !strings.Contains(out, `"payload":2`) {
		t.Errorf("the second version answers %s", out)
	}
	if err := os.WriteFile(main, []byte("on(\"bot/ask\", on_aks)\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.until("the error of the wrong edit", 5*time.Second, func() bool { return strings.Contains(r.out.String(), "the old version goes on") })
	if said := r.out.String(); !strings.Contains(said, "main.star:1:15: undefined: on_aks") {
		t.Errorf("the wrong edit is explained by %s", said)
	}
	if out := answer(); !strings.Contains(out, `"payload":2`) {
		t.Errorf("after a wrong edit the old version answers %s", out)
	}
}

// TestKill: what was acknowledged is there after kill -9, the latch of a
// software stop is not, and the guard has made the output safe.
func TestKill(t *testing.T) {
	led := filepath.Join(t.TempDir(), "brightness")
	if err := os.WriteFile(led, []byte("0"), 0o644); err != nil {
		t.Fatal(err)
	}
	dir := folder(t, map[string]string{
		"main.star": "bb.declare(\"bot/*\", mode = \"sync\")\n\ndef on_light(ev):\n    hw.device(\"led\").do(value = ev.payload)\n\non(\"bot/light\", on_light)\n",
		"edged.toml": "name = \"bot\"\n\n[allow]\nhw.write = [\"led\"]\n\n[devices.led]\ndriver = \"sysfs.output\"\nfile = " + fmt.Sprintf("%q", led) +
			"\nmax = 255\nhold = \"5s\"\n",
	})
	read := func() string { b, _ := os.ReadFile(led); return string(b) }
	r := start(t, dir, "run", dir)
	r.ready()
	r.must("bb", "set", "--mode", "sync", "bot/n", "41")
	r.must("bb", "set", "--mode", "sync", "bot/n", "42")
	r.must("pub", "bot/light", "200")
	r.until("the light", 5*time.Second, func() bool { return read() == "200" })
	killed := time.Now()
	r.end(syscall.SIGKILL)
	r.until("the guard", 2*time.Second, func() bool { return read() == "0" })
	t.Logf("the guard made the output safe %v after the kill", time.Since(killed).Round(time.Millisecond))

	again := start(t, dir, "run", dir)
	again.ready()
	if out := again.must("bb", "get", "bot/n"); out != "42" {
		t.Errorf("bot/n is %s after kill -9, want 42", out)
	}
	t.Logf("up again %v after its start", time.Since(again.started).Round(time.Millisecond))
}

// TestPortInUse: the error names the setting.
func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := folder(t, map[string]string{"main.star": "", "edged.toml": "name = \"bot\"\n"})
	out, err := exec.Command(peer.Edged(t), "run", "--mqtt.listen", l.Addr().String(), dir).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "mqtt.listen") {
		t.Errorf("got %v and %s, want an error that names mqtt.listen", err, out)
	}
}

// listen notes every event of a filter until the test ends. It returns when
// the robot sends them.
func (r *robot) listen(filter string) *output {
	r.t.Helper()
	out := &output{}
	cmd := exec.Command(r.bin, "--socket", r.socket, "sub", "--json", filter)
	cmd.Env, cmd.Stdout, cmd.Stderr = r.env, out, out
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	r.until("listening", 10*time.Second, func() bool {
		r.must("pub", "listening")
		return strings.Contains(out.String(), `"topic":"listening"`)
	})
	return out
}

// events are the payloads that were noted for a topic, as JSON.
func events(t *testing.T, o *output, topic string) (list []string) {
	t.Helper()
	text := o.String()
	for l := range strings.Lines(text[:strings.LastIndex(text, "\n")+1]) {
		var e struct {
			Topic   string
			Payload json.RawMessage
		}
		if err := json.Unmarshal([]byte(l), &e); err != nil {
			t.Fatalf("%v in %q", err, l)
		}
		if e.Topic == topic {
			list = append(list, string(e.Payload))
		}
	}
	return list
}

// stoodStill asserts that the robot did not move once the stop was told, by what
// its pose sensor said and not by what the stop says of itself.
func (r *robot) stoodStill() {
	r.t.Helper()
	var stops []struct{ Time time.Time }
	if err := json.Unmarshal([]byte(r.must("trace", "--json", "-n", "0", "edged/safety/stop")), &stops); err != nil || len(stops) != 1 {
		r.t.Fatalf("%d stops in the record, %v", len(stops), err)
	}
	before := 0
	for _, at := range r.motions() {
		if late := at.Sub(stops[0].Time); late > 0 {
			r.t.Errorf("it moved %v after the stop", late)
		} else if late > -time.Second {
			before++
		}
	}
	if before == 0 {
		r.t.Error("it did not move before the stop: nothing was tested")
	}
}

// motions are the times at which the wheels turned, by the record.
func (r *robot) motions() (times []time.Time) {
	r.t.Helper()
	var list []struct {
		Time    time.Time
		Payload struct{ Value struct{ V, W float64 } }
	}
	if err := json.Unmarshal([]byte(r.must("trace", "--json", "-n", "0", "hw/pose")), &list); err != nil {
		r.t.Fatal(err)
	}
	for _, e := range list {
		if e.Payload.Value.V != 0 || e.Payload.Value.W != 0 {
			times = append(times, e.Time)
		}
	}
	return times
}

// firstMotion is when the wheels first turned.
func (r *robot) firstMotion() time.Time {
	r.t.Helper()
	times := r.motions()
	if len(times) == 0 {
		r.t.Fatal("no motion in the record")
	}
	return times[0]
}
