package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestEndsSafely: however the process ends, what it drove is in its safe state
// when it is gone, long before the command would have lapsed; and what it
// leaves is its owner's alone.
func TestEndsSafely(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(r *robot)
		exit int
	}{
		{"SIGTERM", func(r *robot) { _ = r.cmd.Process.Signal(syscall.SIGTERM) }, 0},
		{"SIGINT", func(r *robot) { _ = r.cmd.Process.Signal(os.Interrupt) }, 0},
		{"gave up", func(r *robot) { // its tree, and what is above it starts that again for a while
			for _, err := r.edged("pub", "bot/go"); err == nil; _, err = r.edged("pub", "bot/go") {
			}
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			led := filepath.Join(t.TempDir(), "brightness")
			if err := os.WriteFile(led, []byte("0"), 0o644); err != nil {
				t.Fatal(err)
			}
			dir := folder(t, map[string]string{
				"main.star": `
on("bot/light", lambda ev: hw.device("led").do(value = ev.payload))
legs = BackgroundAgent(Agent("legs", fn = lambda task: fail("broken")), subscribe_to = "bot/go", max_restarts = 0)
SupervisionTree("body", children = [legs], max_restarts = 0)
`,
				"edged.toml": fmt.Sprintf("name = \"bot\"\n\n[allow]\nhw.write = [\"led\"]\n\n[devices.led]\ndriver = \"sysfs.output\"\nfile = %q\nmax = 255\nhold = \"5s\"\n", led),
			})
			read := func() string { b, _ := os.ReadFile(led); return string(b) }
			r := start(t, dir, "run", dir)
			r.ready()
			r.must("bb", "set", "--mode", "sync", "bot/n", "1")
			r.must("pub", "bot/light", "200")
			r.until("the light", 5*time.Second, func() bool { return read() == "200" })
			lit := time.Now()
			c.end(r)
			_ = r.cmd.Wait()
			if got := read(); got != "0" {
				t.Errorf("the process is gone and the light at %s", got)
			}
			if took := time.Since(lit); took > 4*time.Second {
				t.Errorf("it ended after %v: the light may have lapsed by itself", took)
			}
			if code := r.cmd.ProcessState.ExitCode(); code != c.exit {
				t.Errorf("exit status %d, want %d", code, c.exit)
			}
			if strings.Contains(r.out.String(), "panic") {
				t.Error("it panicked")
			}
			private(t, filepath.Join(dir, ".edged"))
		})
	}
}

// private asserts that nobody but its owner may read what a folder holds.
func private(t *testing.T, dir string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		files++
		if st.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %v, want it its owner's alone", path, st.Mode())
		}
		return nil
	})
	if err != nil || files < 3 {
		t.Errorf("%d files, %v", files, err)
	}
}
