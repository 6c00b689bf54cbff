package fault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"edged/tests/peer"
)

// A disk that hangs: an ext4 file system that is frozen, so that everybody who
// writes to it waits in the kernel, and can't be woken there.

// frozen is a file system that can be made to hang.
type frozen struct {
	t   *testing.T
	dir string
	on  bool
}

func newFrozen(t *testing.T) *frozen {
	t.Helper()
	peer.Root(t, "mounting a disk")
	mkfs := peer.Need(t, "mkfs.ext4", "e2fsprogs")
	mount := peer.Need(t, "mount", "mount")
	img := filepath.Join(ram(t), "disk.img")
	if err := firstOf(os.WriteFile(img, nil, 0o600), os.Truncate(img, 64<<20)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(mkfs, "-q", img).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v\n%s", err, out)
	}
	f := &frozen{t: t, dir: t.TempDir()}
	if out, err := exec.Command(mount, "-o", "loop", img, f.dir).CombinedOutput(); err != nil {
		peer.Missing(t, fmt.Sprintf("a loop device: %v: %s", err, out))
	}
	t.Cleanup(func() { release(t, f.dir) })
	return f
}

func firstOf(list ...error) error {
	for _, err := range list {
		if err != nil {
			return err
		}
	}
	return nil
}

// hang makes every write wait until thaw.
func (f *frozen) hang() { f.t.Helper(); f.control(0xC0045877) } // FIFREEZE

func (f *frozen) thaw() {
	f.t.Helper()
	if f.on {
		f.control(0xC0045878) // FITHAW
	}
}

func (f *frozen) control(request uintptr) {
	f.t.Helper()
	d, err := os.Open(f.dir)
	if err != nil {
		f.t.Fatal(err)
	}
	defer d.Close()
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, d.Fd(), request, 0); errno != 0 {
		f.t.Fatalf("freeze or thaw %s: %v", f.dir, errno)
	}
	f.on = !f.on
}

// hungRobot is a robot on a disk that hangs. It drives its motor as long as the
// board says so, stores what it can, and writes to the disk on many threads when
// it is told to.
type hungRobot struct {
	*testing.T
	disk              *frozen
	bin, dir, motor   string
	env               []string
	mqttPort, webPort string
	cmd               *exec.Cmd
	ended             <-chan error
	out               peer.Output
	page              struct{ URL, Token string }
}

const hungScript = `
motor = hw.device("motor")
every("100ms", lambda: motor.do(value = 128) if bb.get("go", default = False) and not robot.stopped() else None)

def tick():
    n = bb.incr("n/now")
    for i in range(4):
        bus.publish("keep/board/%d" % i, n)

every("20ms", tick)
on("keep/board/+", lambda ev: bb.set("n/" + ev.topic[-1], ev.payload, mode = "sync"), mode = "parallel")

def many(ev):
    for i in range(64):
        bus.publish("keep/file/%d" % i)

on("keep/files", many)
on("keep/file/+", lambda ev: store.write(ev.topic[-2:].strip("/"), "x"), mode = "parallel", max_parallel = 64)
on("halt", lambda ev: robot.stop("the script"))
`

const hungSettings = `name = "bot"
[devices.motor]
driver = "sysfs.output"
file = %q
hold = "5s"
[allow]
bus.sub = ["keep/#", "halt"]
bus.pub = ["keep/#"]
bb = ["n/*", "go"]
hw.write = ["motor"]
`

func (r *hungRobot) start() {
	r.Helper()
	r.cmd = exec.Command(r.bin, "run", r.dir)
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = r.env, &r.out, &r.out
	if err := r.cmd.Start(); err != nil {
		r.Fatal(err)
	}
	var text []byte
	ended := make(chan error, 1)
	go func() { ended <- r.cmd.Wait() }()
	r.ended = ended
	peer.Eventually(r.T, 20*time.Second, "an answer", func() bool {
		if len(ended) > 0 {
			r.Fatalf("the robot ended: %v", <-ended)
		}
		var err error
		text, err = r.edged("page", "--json").Output()
		return err == nil
	})
	if err := json.Unmarshal(text, &r.page); err != nil {
		r.Fatal(err)
	}
}

func (r *hungRobot) end() {
	r.disk.thaw()
	_ = r.cmd.Process.Kill()
	<-r.ended
}

func (r *hungRobot) edged(args ...string) *exec.Cmd {
	cmd := exec.Command(r.bin, append([]string{"--socket", filepath.Join(r.dir, ".edged", "edged.sock")}, args...)...)
	cmd.Env = r.env
	return cmd
}

func (r *hungRobot) must(args ...string) string {
	r.Helper()
	out, err := r.edged(args...).CombinedOutput()
	if err != nil {
		r.Fatalf("edged %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func (r *hungRobot) reads(value string) bool {
	text, err := os.ReadFile(r.motor)
	return err == nil && string(bytes.TrimSpace(text)) == value
}

// threads lists the states of the process's threads, as /proc has them, the main
// thread's first.
func (r *hungRobot) threads() string {
	r.Helper()
	pid := fmt.Sprint(r.cmd.Process.Pid)
	tasks, err := os.ReadDir("/proc/" + pid + "/task")
	if err != nil {
		r.Fatal(err)
	}
	states := "?"
	for _, task := range tasks {
		text, err := os.ReadFile("/proc/" + pid + "/task/" + task.Name() + "/stat")
		if err != nil {
			continue
		}
		_, after, _ := strings.Cut(string(text), ") ")
		if task.Name() == pid {
			states = after[:1] + states[1:]
		} else {
			states += after[:1]
		}
	}
	return states
}

// TestStopWithAHungDisk: while everything that writes to the disk waits in the
// kernel, many threads of the robot among them, every way to stop it stops it.
func TestStopWithAHungDisk(t *testing.T) {
	disk := newFrozen(t)
	r := &hungRobot{T: t, disk: disk, bin: peer.Edged(t), dir: filepath.Join(disk.dir, "bot"), motor: filepath.Join(ram(t), "motor")}
	r.mqttPort, r.webPort = peer.FreePort(t), peer.FreePort(t)
	ours := func(kv string) bool { return strings.HasPrefix(kv, "EDGED_FAULT_") } // no setting of a robot
	r.env = append(slices.DeleteFunc(os.Environ(), ours), "EDGED_RUNTIME_DIR="+ram(t), "EDGED_MQTT_LISTEN=127.0.0.1:"+r.mqttPort, "EDGED_PAGE_LISTEN=127.0.0.1:"+r.webPort)
	if err := firstOf(os.Mkdir(r.dir, 0o700), os.WriteFile(r.motor, []byte("0"), 0o600),
		os.WriteFile(filepath.Join(r.dir, "main.star"), []byte(hungScript), 0o600),
		os.WriteFile(filepath.Join(r.dir, "edged.toml"), fmt.Appendf(nil, hungSettings, r.motor), 0o600)); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			t.Logf("the robot said:\n%s", &r.out)
		}
	}()
	r.start()
	defer r.end()

	signal := func(s syscall.Signal) func() error { return func() error { return r.cmd.Process.Signal(s) } }
	publish := func(topic, text string) func() error {
		return func() error { peer.Pub(t, r.mqttPort, "-q", "1", "-t", topic, "-m", text); return nil }
	}
	type way struct {
		name string
		stop func() error
		ends bool
	}
	// Which thread of a process does what is chance: more than one process, and
	// each with threads that have waited before.
	usr1, term := way{"SIGUSR1", signal(syscall.SIGUSR1), false}, way{"SIGTERM", signal(syscall.SIGTERM), true}
	signals := slices.Repeat([]way{usr1, usr1, usr1, usr1, term}, 6)
	for _, way := range append(signals, []way{
		{"edged stop", func() error { return r.edged("stop").Run() }, false},
		{"edged stop in the folder", func() error {
			cmd := exec.Command(r.bin, "stop")
			cmd.Env, cmd.Dir = r.env, r.dir
			return cmd.Run()
		}, false},
		{"the page", r.stopByPage, false},
		{"MQTT", publish("edged/safety/stop", "door"), false},
		{"a word", publish("voice/utterance", "stop"), false},
		{"a word to an agent", func() error { return r.edged("ask", "stop").Run() }, false},
		{"a script", publish("halt", "x"), false},
		{"SIGINT", signal(syscall.SIGINT), true},
	}...) {
		r.must("resume")
		r.must("bb", "set", "go", "true")
		peer.Eventually(t, 10*time.Second, "driving", func() bool { return r.reads("128") })
		disk.hang()
		r.must("pub", "keep/files", "1")
		peer.Eventually(t, 10*time.Second, "threads that wait for the disk", func() bool { return strings.Count(r.threads(), "D") >= 32 })
		threads := r.threads()
		if threads[0] == 'D' {
			t.Errorf("%s: the main thread, which takes the signals, waits for the disk: %s", way.name, threads)
		}
		began := time.Now()
		asked := make(chan error, 1)
		go func() { asked <- way.stop() }()
		for !r.reads("0") && time.Since(began) < 20*time.Second {
			time.Sleep(200 * time.Microsecond)
		}
		took := time.Since(began)
		t.Logf("%s: at rest after %v", way.name, took.Round(100*time.Microsecond))
		if took > 2*time.Second { // long before the dead man of 5 s
			t.Errorf("%s: at rest after %v", way.name, took)
		}
		if !way.ends {
			if said := r.must("status"); !strings.Contains(said, "stopped") {
				t.Errorf("%s: at rest, and not stopped:\n%s", way.name, said)
			}
		}
		if err := <-asked; err != nil { // it is answered while the disk hangs
			t.Errorf("%s: %v", way.name, err)
		}
		disk.thaw()
		if way.ends {
			if err := <-r.ended; err != nil {
				t.Errorf("%s: the end: %v", way.name, err)
			}
			r.start()
		}
	}
}

func (r *hungRobot) stopByPage() error {
	q, err := http.NewRequest("POST", r.page.URL+"/api/v1/stop", nil)
	if err != nil {
		return err
	}
	q.Header.Set("Authorization", "Bearer "+r.page.Token)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	a, err := client.Do(q)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return fmt.Errorf("the page answered %s", a.Status)
	}
	return nil
}
