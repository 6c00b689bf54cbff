package scripts_test

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pelletier/go-toml/v2"

	"edged/starlark/lib"
)

var update = flag.Bool("update", false, "write the golden files")

// folders are those of all behaviours.
var folders = os.DirFS(".")

// A robot is a folder with a main.star.
type robot struct {
	path   string // "home", "society/oversight"
	name   string // what edged.toml calls it
	files  fs.FS
	grants lib.Grants
}

// robots finds all of them.
func robots(t *testing.T) (list []robot) {
	t.Helper()
	err := fs.WalkDir(folders, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "main.star" {
			return err
		}
		files, err := fs.Sub(folders, path.Dir(p))
		if err != nil {
			return err
		}
		r := robot{path: path.Dir(p), files: files}
		r.name, r.grants = settings(t, files)
		list = append(list, r)
		return nil
	})
	if err != nil || len(list) == 0 {
		t.Fatalf("no robots: %v", err)
	}
	return list
}

// settings reads what a folder's edged.toml says: its name, and what it allows.
func settings(t *testing.T, folder fs.FS) (string, lib.Grants) {
	t.Helper()
	text, err := fs.ReadFile(folder, "edged.toml")
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Name  string
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
	return c.Name, lib.Grants{BusPub: a.Bus.Pub, BusSub: a.Bus.Sub, BB: a.BB, HWRead: a.HW.Read, HWWrite: a.HW.Write, LLM: a.LLM}
}

// TestScripts runs every test function of every folder, each with a robot of
// its own in virtual time.
func TestScripts(t *testing.T) {
	for _, r := range robots(t) {
		files, err := lib.Tests(r.files)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no tests (%v)", r.path, err)
		}
		for _, f := range files {
			for _, fn := range f.Funcs {
				t.Run(r.path+"/"+strings.TrimPrefix(fn, "test_"), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						run(t, r.path, lib.TestOptions{Folder: r.files, Name: r.name, File: f.Path, Func: fn, Grants: r.grants})
					})
				})
				t.Run(r.path+"/isolated/"+strings.TrimPrefix(fn, "test_"), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						run(t, r.path, lib.TestOptions{Folder: r.files, Name: r.name, File: f.Path, Func: fn, Grants: r.grants, Isolated: true})
					})
				})
			}
		}
	}
}

func run(t *testing.T, folder string, o lib.TestOptions) {
	o.Settle = synctest.Wait
	o.Out = t.Output()
	o.Secret = func(string) (string, error) { return "not read", nil }
	store, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	o.Data = store
	data := filepath.Join(folder, "testdata")
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

// TestFolders wants every folder to be a robot's, or one of robots.
func TestFolders(t *testing.T) {
	list := robots(t)
	err := fs.WalkDir(folders, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || p == "." {
			return err
		}
		for _, r := range list {
			if p == r.path || strings.HasPrefix(p, r.path+"/") || strings.HasPrefix(r.path, p+"/") {
				return nil
			}
		}
		t.Errorf("%s has no main.star", p)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
