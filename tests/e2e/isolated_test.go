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

	"edged/background"
)

// TestIsolated: scripts from elsewhere can ruin nothing but their own process.
// Whether a call that takes all memory ends by itself or with its child, the
// robot answers meanwhile and the scripts go on; a child that is killed is
// replaced.
func TestIsolated(t *testing.T) {
	dir := folder(t, map[string]string{
		"edged.toml": "name = \"far\"\n\n[script]\nisolated = true\n",
		"main.star": `
def hello(ev):
    bb.incr("far/sum", ev.payload)

def bomb(ev):
    x = "x" * 1000000
    y = []
    while True:
        y.append(x + str(len(y)))

on("far/hello", hello)
on("far/bomb", bomb)
`,
	})
	r := start(t, dir, "run", dir)
	r.ready()
	sum := func() string { out, _ := r.edged("bb", "get", "far/sum"); return out }
	goesOn := func() {
		t.Helper()
		r.until("an answer of the scripts", 10*time.Second, func() bool {
			before := sum()
			r.must("pub", "far/hello", "1")
			time.Sleep(20 * time.Millisecond)
			return sum() != before
		})
	}
	goesOn()
	for n := range 3 {
		bombed, slowest := time.Now(), time.Duration(0)
		r.must("pub", "far/bomb")
		r.until("the end of the bomb", 10*time.Second, func() bool {
			asked := time.Now()
			out := r.must("trace", "--json", "-n", "0", "edged/error")
			slowest = max(slowest, time.Since(asked))
			return strings.Count(out, `handler of \"far/bomb\"`) > n
		})
		t.Logf("contained after %v; the slowest answer meanwhile took %v", time.Since(bombed).Round(time.Millisecond), slowest.Round(time.Millisecond))
		goesOn()
	}
	r.killChild()
	goesOn()
}

// killChild kills the process of the scripts and waits for the next one.
func (r *robot) killChild() {
	r.t.Helper()
	var first int
	r.until("a child", 10*time.Second, func() bool { first = child(r.t, r.cmd.Process.Pid); return first != 0 })
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		r.t.Fatal(err)
	}
	r.until("the end of the child", 10*time.Second, func() bool { return child(r.t, r.cmd.Process.Pid) != first })
}

// row finds a service in the supervision tree.
func (r *robot) row(name string) background.Status {
	r.t.Helper()
	var s struct{ Tree background.Status }
	if err := json.Unmarshal([]byte(r.must("status", "--json")), &s); err != nil {
		r.t.Fatal(err)
	}
	list := []background.Status{s.Tree}
	for len(list) > 0 {
		if list[0].Name == name {
			return list[0]
		}
		list = append(list[1:], list[0].Children...)
	}
	return background.Status{}
}

// TestIsolatedIsSupervised: the process of isolated scripts is a service like
// any other. One that is killed is restarted, counted and told; one that is
// killed more often than the rule allows stays down, the robot is stopped and
// goes on, and a reload starts the scripts again.
func TestIsolatedIsSupervised(t *testing.T) {
	dir := folder(t, map[string]string{
		"edged.toml": "name = \"far\"\n\n[script]\nisolated = true\n\n[mqtt]\nlisten = \"\"\n",
		"main.star": "on(\"far/hello\", lambda ev: bb.incr(\"far/sum\", ev.payload))\n" +
			"SupervisionTree(\"helpers\", [BackgroundAgent(agent = Agent(\"helper\", fn = lambda task: task), subscribe_to = \"far/help\", backoff = 0)], max_restarts = 1)\n",
	})
	r := start(t, dir, "run", dir)
	r.ready()
	answers := func() {
		t.Helper()
		before, _ := r.edged("bb", "get", "far/sum")
		r.must("pub", "far/hello", "1")
		r.until("an answer of the scripts", 10*time.Second, func() bool { now, _ := r.edged("bb", "get", "far/sum"); return now != before })
	}
	answers()
	if s := r.row("script-host"); s.State != background.Running || s.Restarts != 0 {
		t.Fatalf("at first: %+v, want it running", s)
	}
	r.killChild()
	r.until("a restart", 10*time.Second, func() bool { s := r.row("script-host"); return s.State == background.Running && s.Restarts == 1 })
	answers()
	if s := r.row("script-host"); !strings.Contains(s.LastError, "script host ended: signal: killed") {
		t.Errorf("the last error is %q", s.LastError)
	}
	for _, what := range []string{"crash", "restart"} {
		if out := r.must("trace", "--json", "-n", "0", "edged/background/script-host/"+what); strings.Count(out, `"topic"`) != 1 {
			t.Errorf("%s was told as %q, want one event", what, out)
		}
	}
	failed := func() bool { return r.row("isolated").State == background.Failed }
	for kills := 1; !failed(); kills++ {
		if kills > 11 {
			t.Fatal("it is restarted more often than the rule allows")
		}
		r.killChild()
		r.until("a restart or the end", 10*time.Second, func() bool {
			return child(t, r.cmd.Process.Pid) != 0 && r.row("script-host").State == background.Running || failed()
		})
	}
	if s := r.row("script-host"); s.Restarts != 10 || s.State != background.Failed {
		t.Errorf("at last: %+v, want it failed after 10 restarts", s)
	}
	if out := r.must("trace", "--json", "-n", "0", "edged/background/isolated/gave_up"); !strings.Contains(out, "more than 10 restarts in 1m0s") {
		t.Errorf("giving up was told as %q", out)
	}
	if out := r.must("status"); !strings.Contains(out, "DOWN: background: isolated gave up") || !strings.Contains(out, "edged reload") || !strings.Contains(out, "STOPPED") {
		t.Errorf("the status says neither that the robot is stopped nor what to do:\n%s", out)
	}
	r.must("pub", "far/hello", "1")
	r.until("a clear error of a call", 10*time.Second, func() bool {
		return strings.Contains(r.must("trace", "--json", "-n", "0", "edged/error"), "calls fail until its supervisor has started it again")
	})
	// Nor do agents of such scripts end the robot when they give up.
	r.until("the end of the agents", 30*time.Second, func() bool {
		r.must("pub", "far/help", "1")
		return strings.Contains(r.must("trace", "--json", "-n", "0", "edged/background/+/gave_up"), "scripts:far gave up")
	})
	r.must("reload")
	if s := r.row("script-host"); s.State != background.Running {
		t.Errorf("after a reload: %+v, want it running", s)
	}
	answers()
	r.killChild() // it is looked after again
	r.until("a restart", 10*time.Second, func() bool { return r.row("script-host").Restarts == 1 && child(t, r.cmd.Process.Pid) != 0 })
	answers()
}

// child is a process that pid has started, or 0.
func child(t *testing.T, pid int) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // gone
		}
		var parent int
		var state string
		_, rest, _ := strings.Cut(string(b), ") ")
		if _, err := fmt.Sscan(rest, &state, &parent); err == nil && parent == pid && state != "Z" {
			var c int
			if _, err := fmt.Sscan(string(b), &c); err == nil {
				return c
			}
		}
	}
	return 0
}
