package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// durable is a robot with a workflow that outlives its process: each step
// writes down that it began and that it ended.
const durable = `
def step(name):
    def run(task, ctx):
        store.append("log", "start %s\n" % name)
        ctx.sleep("15ms")
        store.append("log", "end %s\n" % name)
        return name
    return Agent(name, fn = run)

deliver = Sequence("deliver", [
    step("read"),
    Step(step("write"), effect = "write"),
    Parallel("both", [step("left"), step("right")]),
    Retry(Step(step("again"), effect = "write")),
], checkpoint = True)

on("bot/go", lambda ev: deliver.run("cup"))
`

// durableGraph has the same steps as a graph.
const durableGraph = `
def step(name):
    def run(state):
        store.append("log", "start %s\n" % name)
        sleep("15ms")
        store.append("log", "end %s\n" % name)
        return name
    return run

deliver = Graph("deliver")
deliver.node("read", step("read"), effect = "read")
deliver.node("write", step("write"), effect = "write")
deliver.node("left", step("left"), effect = "pure")
deliver.node("right", step("right"), effect = "pure")
deliver.node("again", step("again"), effect = "write", join = "all")
deliver.edge(START, "read")
deliver.edge("read", "write")
deliver.edge("write", "left")
deliver.edge("write", "right")
deliver.edge("left", "again")
deliver.edge("right", "again")
deliver.edge("again", END)

on("bot/go", lambda ev: deliver.run("cup"))
`

type durableRun struct {
	ID    string `json:"id"`
	State string `json:"state"`
	Steps []struct {
		Path, Name, State string
	} `json:"steps"`
}

// TestDurableRunIsKilled kills the robot in every phase of a durable run, once
// or twice, and lets it go on: a step whose outcome was kept is never run
// again, and one that was interrupted while it wrote is in doubt until somebody
// decides.
func TestDurableRunIsKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the robot dozens of times")
	}
	rounds := 12
	if os.Getenv("EDGED_SLOW") != "" {
		rounds = 60
	}
	for name, script := range map[string]string{"workflow": durable, "graph": durableGraph} {
		t.Run(name, func(t *testing.T) {
			doubts := 0
			for i := range rounds {
				t.Run(fmt.Sprint(i), func(t *testing.T) { doubts += killDurable(t, script, i) })
			}
			t.Logf("%d steps were in doubt", doubts)
			if doubts == 0 {
				t.Error("no step was ever in doubt: nothing was tested")
			}
		})
	}
}

// killDurable kills a robot at a moment that i gives, and returns how many steps
// were in doubt.
func killDurable(t *testing.T, script string, i int) int {
	d := &durableBot{lives: newLives(t, script), kept: map[string]int{}}
	d.must("pub", "bot/go")
	time.Sleep(time.Duration(i%12) * 8 * time.Millisecond)
	d.killed()
	if i%2 == 1 { // and once more on its way
		d.up()
		time.Sleep(time.Duration(i) * 3 * time.Millisecond)
		d.killed()
	}
	d.up()
	d.finish()
	return d.doubts
}

// durableBot is the robot from one life to the next.
type durableBot struct {
	*lives
	kept   map[string]int // steps with an outcome, and how often they had begun
	doubt  string         // the step in doubt
	doubts int
}

// begun is how often a step has begun.
func (d *durableBot) begun(step string) int {
	text, err := os.ReadFile(filepath.Join(d.dir, ".edged", "store", "log"))
	if err != nil && !os.IsNotExist(err) {
		d.t.Fatal(err)
	}
	return strings.Count(string(text), "start "+step+"\n")
}

// killed ends the robot at once and notes what it left.
func (d *durableBot) killed() {
	d.t.Helper()
	d.end(syscall.SIGKILL)
	d.doubt = ""
	var r durableRun
	if !d.oldest(&r, "--dir", d.dir) {
		return
	}
	for _, s := range r.Steps {
		switch n := d.begun(s.Name); s.State {
		case "done":
			if was, known := d.kept[s.Name]; known && was != n {
				d.t.Errorf("%s was done and has begun again", s.Name)
			}
			d.kept[s.Name] = n
		case "in_doubt":
			d.doubt = s.Name
		}
	}
}

// finish waits for the end of the run, and decides where it is in doubt.
func (d *durableBot) finish() {
	d.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		var r durableRun
		switch ok := d.oldest(&r); {
		case !ok:
			return // it was killed before anything was kept
		case r.State == "done":
			for step, n := range d.kept {
				if now := d.begun(step); now != n {
					d.t.Errorf("%s was done when the robot was killed, and has begun %d times, then %d", step, n, now)
				}
			}
			return
		case r.State == "in_doubt":
			d.decide(r)
		case time.Now().After(end):
			d.t.Fatalf("the run did not end: %+v", r)
		}
	}
}

func (d *durableBot) decide(r durableRun) {
	d.t.Helper()
	for _, s := range r.Steps {
		if s.State != "in_doubt" {
			continue
		}
		if s.Name != "write" && s.Name != "again" {
			d.t.Errorf("%s is in doubt and does not write", s.Name)
		}
		before := d.begun(s.Name)
		if before > 1 {
			d.t.Errorf("%s has begun %d times and nobody has decided", s.Name, before)
		}
		d.doubts++
		d.must("runs", "decide", r.ID, s.Path, "done")
		d.kept[s.Name] = before
	}
	d.must("runs", "resume", r.ID)
}

// TestForkIsKilled forks a run that is over and kills the robot while the fork
// goes on: the first run stays as it is, to the letter, and what the fork had
// from it does not run again.
func TestForkIsKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the robot a dozen times")
	}
	d := &durableBot{lives: newLives(t, strings.ReplaceAll(durableGraph, "15ms", "60ms")), kept: map[string]int{}}
	d.must("pub", "bot/go")
	var first durableRun
	d.until("the first run", 20*time.Second, func() bool { return d.oldest(&first) && first.State == "done" })
	cut := 0
	for i := range 6 {
		whole := d.must("runs", "show", "--json", first.ID)
		had := d.begun("again")
		var fork struct{ ID string }
		if err := json.Unmarshal([]byte(d.must("runs", "fork", "--json", first.ID, "--at", "left")), &fork); err != nil {
			t.Fatal(err)
		}
		d.end(syscall.SIGKILL)
		d.up()
		if i%2 == 0 { // wherever it is
			time.Sleep(time.Duration(i) * 32 * time.Millisecond)
		} else { // while it writes
			d.until("the last step", 20*time.Second, func() bool { return d.begun("again") > had })
		}
		d.end(syscall.SIGKILL)
		d.up()
		doubts := 0
		d.until("the fork", 20*time.Second, func() bool {
			var r durableRun
			if err := json.Unmarshal([]byte(d.must("runs", "show", "--json", fork.ID)), &r); err != nil {
				t.Fatal(err)
			}
			for _, s := range r.Steps {
				if s.State == "in_doubt" {
					doubts++
					d.must("runs", "decide", r.ID, s.Path, "done")
					d.must("runs", "resume", r.ID)
				}
			}
			return r.State == "done"
		})
		cut += doubts
		if n, m := d.begun("read"), d.begun("write"); n != 1 || m != 1 {
			t.Errorf("fork %d: read has begun %d times, write %d times; want once", i, n, m)
		}
		if n := d.begun("again") - had; n > 1 || n+doubts < 1 { // one in doubt may not have begun
			t.Errorf("fork %d: again has begun %d times and was in doubt %d times", i, n, doubts)
		}
		if now := d.must("runs", "show", "--json", first.ID); now != whole {
			t.Errorf("fork %d: the first run was\n%s\nand is\n%s", i, whole, now)
		}
	}
	t.Logf("%d forks were cut while they wrote", cut)
	if cut == 0 {
		t.Error("no fork was cut while it wrote: nothing was tested")
	}
}
