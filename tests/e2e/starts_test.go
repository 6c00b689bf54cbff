package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// aside is what the robot says it did not take up.
func (r *robot) aside() string {
	r.t.Helper()
	var s struct{ Aside []string }
	if err := json.Unmarshal([]byte(r.must("status", "--json")), &s); err != nil {
		r.t.Fatal(err)
	}
	return strings.Join(s.Aside, "\n")
}

func (r *robot) retained(filter string) string {
	r.t.Helper()
	out, _ := r.edged("sub", "--retained", "--wait", "300ms", filter)
	return out
}

// What is kept has a limit, for everybody; what an earlier run kept beyond it
// is set aside in a file, the robot's own events last.
func TestRetainedHasALimit(t *testing.T) {
	dir := folder(t, map[string]string{"main.star": "", "edged.toml": "name = \"scout\"\n\n[bus]\nretained = 4\n"})
	r := start(t, dir, "run", dir)
	r.ready()
	r.must("pub", "--retain", "own/a", "1")
	m := &mosquitto{t, r.port}
	for i := range 5 {
		m.pub("-t", fmt.Sprint("theirs/", i), "-m", "x", "-r")
	}
	if out, err := r.edged("pub", "--retain", "own/b", "1"); err == nil || !strings.Contains(out, "no more can be kept") {
		t.Errorf("a fifth topic: %v %s", err, out)
	}
	kept := m.sub("theirs/#", "own/a")
	await(t, "what the broker keeps", func() bool { return len(kept.messages("own/a")) == 1 })
	await(t, "and no more", func() bool { return strings.Count(kept.String(), " 1 x\n") == 3 })
	status := r.must("status")
	if !strings.Contains(status, "4 retained, 3 not kept") || !strings.Contains(status, "and 2 messages refused") {
		t.Errorf("status: %s", status)
	}
	r.must("pub", "--retain", "own/a", "2") // one that is there is changed
	r.end(syscall.SIGTERM)

	if err := os.WriteFile(filepath.Join(dir, "edged.toml"), []byte("name = \"scout\"\n\n[bus]\nretained = 2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r = start(t, dir, "run", dir)
	r.ready()
	if got := r.aside(); !strings.Contains(got, "2 retained events are more than") {
		t.Errorf("aside: %q", got)
	}
	if got := r.retained("#"); !strings.Contains(got, "own/a 2") || strings.Count(got, "theirs/") != 1 {
		t.Errorf("taken up: %s", got)
	}
	files, _ := filepath.Glob(filepath.Join(dir, ".edged", "retained.aside-*"))
	if len(files) != 1 {
		t.Fatalf("set aside in %v", files)
	}
	if text, _ := os.ReadFile(files[0]); strings.Count(string(text), "\n") != 2 || !strings.Contains(string(text), `"name":"theirs/`) {
		t.Errorf("set aside: %s", text)
	}
}

// A start that failed twice comes up without the retained events, and says so;
// one that failed four times without the board, stopped. A kill is no failure.
func TestStartThatFailed(t *testing.T) {
	dir := folder(t, map[string]string{"main.star": "", "edged.toml": "name = \"scout\"\n"})
	data := filepath.Join(dir, ".edged")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(data, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	crash := func(failed int) {
		t.Helper()
		write("starting", fmt.Sprintf(`{"boot": "x", "failed": %d}`, failed))
		write("crash", "fatal error: runtime: out of memory\n")
	}
	run := func() *robot {
		t.Helper()
		r := start(t, dir, "run", dir)
		r.ready()
		return r
	}
	r := run()
	r.must("pub", "--retain", "keep/me", "1")
	r.must("bb", "set", "--mode", "sync", "key", "1")
	for range 3 {
		r.end(syscall.SIGKILL)
		r = run()
	}
	if got := r.aside(); got != "" || !strings.Contains(r.retained("#"), "keep/me") {
		t.Fatalf("kills are no failures: aside %q", got)
	}
	r.end(syscall.SIGTERM)
	if _, err := os.Stat(filepath.Join(data, "starting")); err == nil {
		t.Error("the note stays after an end in order")
	}

	crash(0)
	r = run()
	if got := r.aside(); got != "" {
		t.Errorf("after one failure: %s", got)
	}
	r.end(syscall.SIGTERM)
	crash(1)
	r = run()
	if got := r.aside(); !strings.Contains(got, "2 starts in a row failed: the 1 retained events are not taken up; kept in "+data) {
		t.Errorf("after two: %q", got)
	}
	if got := r.retained("keep/#"); strings.Contains(got, "keep/me") {
		t.Errorf("taken up: %s", got)
	}
	if got := r.must("bb", "get", "key"); strings.TrimSpace(got) != "1" {
		t.Errorf("the board: %s", got)
	}
	files, _ := filepath.Glob(filepath.Join(data, "retained.aside-*"))
	if len(files) != 1 {
		t.Fatalf("set aside in %v", files)
	}
	if text, _ := os.ReadFile(files[0]); !strings.Contains(string(text), `"name":"keep/me"`) {
		t.Errorf("set aside: %s", text)
	}
	r.end(syscall.SIGTERM)

	crash(3)
	r = run()
	if got := r.aside(); !strings.Contains(got, "4 starts in a row failed: the blackboard begins anew") || r.mode() != "stopped" {
		t.Errorf("after four: %q, %s", got, r.mode())
	}
	if files, _ := filepath.Glob(filepath.Join(data, "board.db.aside-*")); len(files) != 1 {
		t.Errorf("set aside in %v", files)
	}
}
