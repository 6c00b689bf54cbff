package main

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
	"time"
)

// behaviour is the rule of the MQTT figures, as a person would write it.
const behaviour = `
def on_reading(ev):
    if ev["t"] > 30:
        bus.publish("actuators/fan", {"on": True, "n": ev["n"]})

on("sensors/t", on_reading, max_queue = 1024)
`

// A process is a program under measurement.
type process struct {
	cmd     *exec.Cmd
	started time.Time
}

func (b *bench) spawn(dir, name string, args ...string) (*process, error) {
	path := name
	if !strings.Contains(name, "/") {
		if local := filepath.Join(b.bin, name); exists(local) {
			path = local
		}
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	if os.Getenv("BENCH_DEBUG") != "" {
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	}
	p := &process{cmd: cmd, started: time.Now()}
	return p, cmd.Start()
}

func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	done := make(chan struct{})
	go func() { _ = p.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-done
	}
}

// status reads a number of /proc/<pid>/status, kB or a count.
func status(pid int, key string) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == key+":" {
			v, _ := strconv.ParseFloat(f[1], 64)
			return v
		}
	}
	return 0
}

// switches counts the context switches of all threads so far.
func switches(pid int) (n float64) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, t := range tasks {
		text, _ := os.ReadFile(t)
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 1 && strings.HasSuffix(f[0], "_ctxt_switches:") {
				v, _ := strconv.ParseFloat(f[1], 64)
				n += v
			}
		}
	}
	return n
}

// cpuSeconds is the user and system time so far.
func cpuSeconds(pid int) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	u, _ := strconv.ParseFloat(f[11], 64)
	s, _ := strconv.ParseFloat(f[12], 64)
	return (u + s) / 100
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// robot writes a robot folder: n scripts of which main.star holds the rule,
// and a configuration for the embedded broker at addr or an outside one.
func (b *bench) robot(n int, addr string, embedded bool) (string, error) {
	dir, err := os.MkdirTemp(b.bin, "robot")
	if err != nil {
		return "", err
	}
	var loads strings.Builder
	for i := 1; i < n; i++ {
		fmt.Fprintf(&loads, "load(\"part%d.star\", \"part%d\")\n", i, i)
		part := fmt.Sprintf("def part%d(ev):\n    bb.set(\"part/%d\", ev[\"t\"])\n", i, i)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("part%d.star", i)), []byte(part), 0o644); err != nil {
			return "", err
		}
	}
	for i := 1; i < n; i++ {
		fmt.Fprintf(&loads, "on(\"parts/%d\", part%d)\n", i, i)
	}
	main := strings.Replace(behaviour, "\ndef on_reading", "\n"+loads.String()+"\ndef on_reading", 1)
	if err := os.WriteFile(filepath.Join(dir, "main.star"), []byte(main), 0o644); err != nil {
		return "", err
	}
	mqtt := fmt.Sprintf("[mqtt]\nlisten = %q\n", addr)
	if !embedded {
		mqtt = fmt.Sprintf("[mqtt]\nurl = \"tcp://%s\"\n[[mqtt.subscribe]]\nfilter = \"sensors/#\"\n[[mqtt.publish]]\nfilter = \"actuators/#\"\n", addr)
	}
	text := fmt.Sprintf("name = \"bench\"\ndata = %q\n\n[memory]\nlimit = \"256MiB\" # as on a board with 1 GiB\n\n%s\n%s", filepath.Join(dir, "data"), allowed, mqtt)
	return dir, os.WriteFile(filepath.Join(dir, "edged.toml"), []byte(text), 0o644)
}

const allowed = `[allow]
bus.sub = ["sensors/#", "parts/#"]
bus.pub = ["actuators/#"]
bb = ["part/*"]
`

// size weighs the program for the board.
func size(b *bench) error {
	st, err := os.Stat(filepath.Join(b.bin, "edged-linux-arm64"))
	if err != nil {
		return err
	}
	mib := float64(st.Size()) / (1 << 20)
	b.add(row{group: "size", what: "binary, linux arm64, as `make dist` ships it", value: fmt.Sprintf("%.1f MiB (%.1f MB)", mib, float64(st.Size())/1e6), goal: "≤ 12 MiB", ok: mib <= 12})
	return nil
}

// start times process start → first actuator message, beside the minimal program.
func start(b *bench) error {
	addr, stop, err := b.mosquitto()
	if err != nil {
		return err
	}
	defer stop()
	dir, err := b.robot(10, addr, false)
	if err != nil {
		return err
	}
	var ours, limit []float64
	for range 2*b.rounds + 1 {
		for _, p := range []struct {
			to   *[]float64
			args []string
		}{{&ours, []string{"edged", "run", dir}}, {&limit, []string{"rule", "-addr", addr}}} {
			ms, err := b.cold(addr, p.args)
			if err != nil {
				return err
			}
			*p.to = append(*p.to, ms)
		}
	}
	v, l := median(ours), median(limit)
	b.add(row{group: "start", what: "process start → first actuator message, 10 scripts, mosquitto outside; beside the minimal Go + paho program",
		value: fmt.Sprintf("%.1f ms", v), against: fmt.Sprintf("%.1f ms", l), ratio: v / l, goal: "≤ 20 ms", ok: v <= 20})
	return nil
}

// cold starts a probe that publishes already, then the program, and waits for
// the first reaction.
func (b *bench) cold(addr string, args []string) (float64, error) {
	probe := exec.Command(b.bin+"/probe", "-mode", "cold", addr)
	out, err := probe.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := probe.Start(); err != nil {
		return 0, err
	}
	time.Sleep(150 * time.Millisecond)
	p, err := b.spawn(".", args[0], args[1:]...)
	if err != nil {
		return 0, err
	}
	defer p.stop()
	var r struct {
		AtNS  int64 `json:"at_ns"`
		Error string
	}
	if err := json.NewDecoder(out).Decode(&r); err != nil {
		return 0, err
	}
	_ = probe.Wait()
	if r.Error != "" {
		return 0, fmt.Errorf("%v: %s", args, r.Error)
	}
	return float64(r.AtNS-p.started.UnixNano()) / 1e6, nil
}

// idle measures a running robot that nothing happens to.
func idle(b *bench) error {
	addr, err := freePort()
	if err != nil {
		return err
	}
	dir, err := b.robot(10, addr, true)
	if err != nil {
		return err
	}
	p, err := b.spawn(".", "edged", "run", dir)
	if err != nil {
		return err
	}
	defer p.stop()
	time.Sleep(3 * time.Second)
	pid := p.cmd.Process.Pid
	sw, cpu := switches(pid), cpuSeconds(pid)
	const seconds = 10
	time.Sleep(seconds * time.Second)
	rss := status(pid, "VmRSS") / 1024
	rate := (switches(pid) - sw) / seconds
	load := (cpuSeconds(pid) - cpu) / seconds * 100
	b.add(row{group: "idle", what: "resident memory, idle, with the embedded broker, 10 scripts", value: fmt.Sprintf("%.1f MB", rss), goal: "≤ 16 MB", ok: rss > 1 && rss <= 16})
	b.add(row{group: "idle", what: "context switches, idle", value: fmt.Sprintf("%.1f /s", rate), goal: "≤ 10 /s", ok: rate <= 10})
	b.add(row{group: "idle", what: "processor, idle", value: fmt.Sprintf("%.2f %%", load), goal: "0 %", ok: load < 0.15})
	return nil
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }
