package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"edged/tests/peer"
)

// doc/differences.md lists what goes wrong with robots that think with small
// models, and names the tests here and in testdata/elsewhere that show that it
// does not go wrong with ours.

// TestElsewhere runs the script tests of testdata/elsewhere, in virtual time
// with scripted models.
func TestElsewhere(t *testing.T) {
	bin := peer.Edged(t)
	for _, verb := range []string{"check", "test"} {
		if out, err := exec.Command(bin, verb, filepath.Join("testdata", "elsewhere")).CombinedOutput(); err != nil {
			t.Errorf("edged %s: %v\n%s", verb, err, out)
		}
	}
}

// mind is a robot with an agent that needs no server.
const mind = `
def go_to(place):
    """Drives to a room.

    Args:
      place: one of kitchen, living, bedroom, hall, dock
    """
    return hw.device("base").drive_to(place)

def count():
    """Counts."""
    n = 0
    for a in range(1000):
        for b in range(1000):
            for c in range(1000):
                n += 1
    return n

def note(thing, place):
    """Keeps where a thing is.

    Args:
      thing: one of cup, key
      place: one of table, sink
    """
    memory.remember(thing, place)

butler = Agent("butler", model = "intent", tools = [
    Tool(go_to, effect = "write", moves = True, sentences = ["go to the {place}"], response = "There."),
    Tool(count, sentences = ["count"], response = "{result}."),
    Tool(note, sentences = ["the {thing} is (on|in) the {place}"], response = "Noted."),
])
on("house/where", lambda ev: bus.publish("house/is", [f["value"] for f in memory.recall(key = ev.payload)]))
`

func startMind(t *testing.T, dir string) *robot {
	t.Helper()
	r := start(t, dir, "run", dir, "--sim")
	r.ready()
	return r
}

func mindFolder(t *testing.T) string {
	return folder(t, map[string]string{"main.star": mind, "edged.toml": "name = \"house\"\n\n[allow]\nhw.read = [\"pose\"]\nhw.write = [\"base\"]\n\n[script]\ntime = \"20s\"\nsteps = 1000000000\n"})
}

func (r *robot) driving() bool {
	r.t.Helper()
	return strings.Contains(r.must("status", "--json"), `"goal": "base.drive_to"`)
}

// TestHeardStop: what a microphone hears stops a robot that drives because an
// agent said so, with the first word that means it, and other words don't.
func TestHeardStop(t *testing.T) {
	r := startMind(t, mindFolder(t))
	drive := r.asking("go to the bedroom")
	r.until("a drive", 10*time.Second, r.driving)
	for _, words := range []string{"don't stop", "how is the weather", "where is the bus stop"} {
		r.must("pub", "voice/utterance", `{"text": "`+words+`"}`)
	}
	time.Sleep(100 * time.Millisecond)
	if !r.driving() {
		t.Fatal("it stopped for words that don't mean it")
	}
	stopped := r.hears("edged/safety/stop")
	r.must("pub", "voice/partial", `{"text": "oh please stop"}`)
	// Told when everything is at rest, with the time that took; an error names who is late.
	told, _ := stopped().(map[string]any)
	if ms, ok := told["ms"].(float64); !ok || ms > 50 || told["error"] != nil {
		t.Errorf("the stop was told as %v; want rest within 50 ms", told)
	}
	if a := drive(); a.Status != "cancelled" {
		t.Errorf("the drive that was stopped: %+v", a)
	}
	if a := r.ask("go to the hall"); a.Status == "done" || r.driving() {
		t.Errorf("a stopped robot drives: %+v", a)
	}
}

// TestComputingIsStopped: a tool that computes in plain loops, without a call
// that could be cancelled, ends when the robot is stopped, and when whoever
// asked gives up.
func TestComputingIsStopped(t *testing.T) {
	r := startMind(t, mindFolder(t))
	count := func() (*exec.Cmd, chan error) {
		cmd := exec.Command(r.bin, "--socket", r.socket, "ask", "count")
		cmd.Env = r.env
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		r.until("the run", 10*time.Second, func() bool { return runs(r) == 1 })
		return cmd, ended
	}
	over := func(why string) {
		t.Helper()
		r.until("the end after "+why, time.Second, func() bool { return runs(r) == 0 })
	}
	_, ended := count()
	r.must("stop")
	over("a stop")
	if err := <-ended; err == nil {
		t.Error("a run that was stopped is done")
	}
	r.must("resume")
	cmd, ended := count()
	_ = cmd.Process.Signal(syscall.SIGINT)
	over("Ctrl-C")
	<-ended
}

// runs is how many runs of the butler have begun and not ended.
func runs(r *robot) int {
	r.t.Helper()
	out, _ := r.edged("trace", "--json", "-n", "0", "edged/agent/butler/#")
	return strings.Count(out, `"edged/agent/butler/start"`) - strings.Count(out, `"edged/agent/butler/end"`)
}

// TestMemoryOutlivesTheProcess: what was noted before an answer is known after
// the process was killed in the next instant.
func TestMemoryOutlivesTheProcess(t *testing.T) {
	dir := mindFolder(t)
	for _, is := range [][2]string{{"table", "on"}, {"sink", "in"}} {
		r := startMind(t, dir)
		if a := r.ask("the cup is " + is[1] + " the " + is[0]); a.Status != "done" {
			t.Fatalf("%+v", a)
		}
		r.end(syscall.SIGKILL)
		r = startMind(t, dir)
		r.until("the handler", 10*time.Second, func() bool { return r.listeners("house/where") > 0 })
		known := r.hears("house/is")
		r.must("pub", "house/where", `"cup"`)
		got := known()
		if list, ok := got.([]any); !ok || len(list) != 1 || list[0] != is[0] {
			t.Errorf("the cup is %v, want %s", got, is[0])
		}
		r.end(os.Interrupt)
	}
}
