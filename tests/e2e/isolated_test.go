package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
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
	first := child(t, r.cmd.Process.Pid)
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.until("another child", 10*time.Second, func() bool { c := child(t, r.cmd.Process.Pid); return c != 0 && c != first })
	goesOn()
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
