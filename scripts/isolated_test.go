package scripts_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"edged/starlark/lib"
)

// TestFoldersIsolated loads every folder in a child process, and checks it.
func TestFoldersIsolated(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "host")
	out, err := exec.Command("go", "build", "-race=false", "-o", bin, "../starlark/script/testdata/host").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, r := range robots(t) {
		t.Run(r.path, func(t *testing.T) {
			b, err := lib.Load(t.Context(), apartment(t, r.name), r.files, lib.Options{Folder: r.name, Grants: r.grants,
				Isolated: &lib.Isolation{Command: func() *exec.Cmd { return exec.Command(bin) }}})
			if err != nil {
				var e interface{ Text() string }
				if errors.As(err, &e) {
					t.Fatal("\n" + e.Text())
				}
				t.Fatal(err)
			}
			for _, p := range b.Check() {
				t.Error(p)
			}
			if err := b.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
