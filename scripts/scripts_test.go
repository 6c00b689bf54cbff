package scripts_test

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pelletier/go-toml/v2"

	"edged/scripts"
	"edged/starlark/lib"
)

var update = flag.Bool("update", false, "write the golden files")

// grants reads what a folder's edged.toml allows.
func grants(t *testing.T, folder fs.FS) lib.Grants {
	t.Helper()
	text, err := fs.ReadFile(folder, "edged.toml")
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Allow struct {
			Bus struct{ Pub, Sub []string }
			BB  []string
			HW  struct{ Read, Write []string }
			LLM []string
		}
	}
	if err := toml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	a := c.Allow
	return lib.Grants{BusPub: a.Bus.Pub, BusSub: a.Bus.Sub, BB: a.BB, HWRead: a.HW.Read, HWWrite: a.HW.Write, LLM: a.LLM}
}

// TestScripts runs every test function of every folder, each with a robot of
// its own in virtual time.
func TestScripts(t *testing.T) {
	folders, err := fs.ReadDir(scripts.Files, ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range folders {
		folder, err := fs.Sub(scripts.Files, d.Name())
		if err != nil {
			t.Fatal(err)
		}
		files, err := lib.Tests(folder)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no tests (%v)", d.Name(), err)
		}
		g := grants(t, folder)
		for _, f := range files {
			for _, fn := range f.Funcs {
				t.Run(d.Name()+"/"+strings.TrimPrefix(fn, "test_"), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						run(t, lib.TestOptions{Folder: folder, Name: d.Name(), File: f.Path, Func: fn, Grants: g})
					})
				})
			}
		}
	}
}

func run(t *testing.T, o lib.TestOptions) {
	o.Settle = synctest.Wait
	o.Out = t.Output()
	o.Secret = func(string) (string, error) { return "not read", nil }
	store, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	o.Data = store
	data := filepath.Join(o.Name, "testdata")
	o.Golden = func(name string) (string, bool) {
		text, err := fs.ReadFile(o.Folder, "testdata/"+name)
		return string(text), err == nil
	}
	if *update {
		o.Update = func(name, text string) error {
			if err := os.MkdirAll(data, 0o755); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(data, name), []byte(text), 0o644)
		}
	}
	if err := lib.Test(context.Background(), o); err != nil {
		var e interface{ Text() string }
		if errors.As(err, &e) {
			t.Fatal("\n" + e.Text())
		}
		t.Fatal(err)
	}
}

// TestFolders wants every folder to be a robot's.
func TestFolders(t *testing.T) {
	folders, err := fs.ReadDir(scripts.Files, ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range folders {
		for _, name := range []string{"main.star", "edged.toml"} {
			if _, err := fs.Stat(scripts.Files, d.Name()+"/"+name); err != nil {
				t.Error(err)
			}
		}
	}
}
