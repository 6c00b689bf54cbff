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

// replay runs a record on a folder and gives what was said and the status.
func replay(t *testing.T, args ...string) (string, int) {
	t.Helper()
	cmd := exec.Command(peer.Edged(t), append([]string{"replay"}, args...)...)
	cmd.Env = append(os.Environ(), "EDGED_RUNTIME_DIR="+t.TempDir())
	out, _ := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), cmd.ProcessState.ExitCode()
}

// edit changes a file.
func edit(t *testing.T, file, old, new string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), old) {
		t.Fatalf("%s has no %q", file, old)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(b), old, new, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestReplay: a real run, driven over MQTT, is done again exactly; with an
// edited threshold the action that is new is named.
func TestReplay(t *testing.T) {
	home, _ := filepath.Abs("../../scripts/home")
	dir := filepath.Join(t.TempDir(), "home")
	if err := os.CopyFS(dir, os.DirFS(home)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "run.jsonl")
	r := start(t, dir, "run", "--sim", "--record", file, dir)
	r.ready()
	arrived := make(chan string, 1)
	go func() { out, _ := r.edged("sub", "-n", "1", "--wait", "60s", "home/arrived"); arrived <- out }()
	r.must("sub", "-n", "1", "--wait", "5s", "hw/pose") // the listener above is there by now
	r.mqtt(t, "home/goto", `{"room":"hall"}`)
	if out := <-arrived; !strings.Contains(out, `"room":"hall"`) {
		t.Fatalf("home/arrived: %s", out)
	}
	r.must("pub", "home/light", `{"room":"living","on":true}`)
	r.mqtt(t, "home/goto", `{"room":"kitchen"}`)
	r.until("driving on", 5*time.Second, func() bool { _, _, v := r.pose(); return v > 0.1 })
	r.must("stop")
	r.must("resume")

	// What the ring has of it is a record, too, and a test that passes.
	saved := filepath.Join(t.TempDir(), "ring.jsonl")
	r.must("trace", "--save", saved)
	r.must("trace", "--dir", dir, "--save-test", filepath.Join(dir, "field_test.star"))
	if out := r.must("test", filepath.Join(dir, "field_test.star")); !strings.HasPrefix(out, "ok") {
		t.Errorf("the saved test: %s", out)
	}
	r.end(syscall.SIGTERM)

	for _, f := range []string{file, saved} {
		first, code := replay(t, "--actions", f, dir)
		if code != 0 || !strings.HasSuffix(first, "no difference") || !strings.Contains(first, `base.drive_to {"room":"hall"}`) {
			t.Errorf("status %d of the replay of %s:\n%s", code, filepath.Base(f), first)
		}
		if again, _ := replay(t, "--actions", f, dir); again != first {
			t.Errorf("a second replay says\n%s\nthe first said\n%s", again, first)
		}
	}
	edit(t, filepath.Join(dir, "main.star"), "HOT = 35", "HOT = 15")
	out, code := replay(t, file, dir)
	if code != 1 || !strings.Contains(out, `s publish home/alert {"room":"hall","t":2`) {
		t.Errorf("status %d with another threshold:\n%s", code, out)
	}
}

// TestReplayModel: what a model said is said again, and a prompt that is another
// has no answer.
func TestReplayModel(t *testing.T) {
	dir := folder(t, map[string]string{
		"main.star": `def go_to(place):
    """Drive to a place.

    Args:
      place: one of kitchen, living, bedroom, hall, dock
    """
    bb.set("bot/place", place)
    return "done"

butler = Agent("butler", model = "builtin", instructions = "You are a robot.", tools = [go_to])
`,
		"edged.toml": "name = \"bot\"\n",
	})
	file := filepath.Join(t.TempDir(), "run.jsonl")
	r := start(t, dir, "run", "--record", file, dir)
	r.ready()
	if said := r.must("ask", "--json", "go to the kitchen"); !strings.Contains(said, `"tool": "go_to"`) {
		t.Fatalf("the model: %s", said)
	}
	r.end(syscall.SIGTERM)
	out, code := replay(t, "--actions", file, dir)
	if code != 0 || !strings.Contains(out, `set bot/place "kitchen"`) {
		t.Errorf("status %d:\n%s", code, out)
	}
	edit(t, filepath.Join(dir, "main.star"), "You are a robot.", "You are a parrot.")
	out, code = replay(t, file, dir)
	if code != 1 || !strings.Contains(out, `set bot/place "kitchen"`) || !strings.Contains(out, "parrot") {
		t.Errorf("status %d with another prompt:\n%s", code, out)
	}
}
