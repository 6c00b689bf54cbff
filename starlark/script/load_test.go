package script_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"go.starlark.net/starlark"

	"edged/starlark/script"
	"edged/starlark/value"
)

func files(m map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range m {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

func TestLoadModules(t *testing.T) {
	var once []string
	mark := value.Func{Name: "mark", Params: []value.Param{{Name: "x", Type: value.String, Required: true, Positional: true}},
		Do: func(c *value.Call) (starlark.Value, error) { once = append(once, c.String("x")); return nil, nil }}
	e := script.New(script.Options{})
	src := script.Source{
		Name: "guard",
		FS: files(map[string]string{
			"main.star":   "load(\"lib/a.star\", \"a\")\nload(\"lib/b.star\", b2 = \"b\")\nload(\"@edged//std.star\", \"std\")\nmark(\"main\")\nr = [a, b2, std]\ndef z(): pass\ndef y(): pass\n",
			"lib/a.star":  "load(\"lib/b.star\", \"b\")\nmark(\"a\")\na = b + 1\n",
			"lib/b.star":  "mark(\"b\")\nb = 1\n",
			"unused.star": "fail(\"never loaded\")\n",
		}),
		Library: files(map[string]string{
			"std.star":  "load(\"more.star\", \"more\")\nmark(\"std\")\nstd = more * 2\n",
			"more.star": "mark(\"more\")\nmore = 21\n",
		}),
		Predeclared: starlark.StringDict{"mark": mark.Builtin()},
	}
	p, err := e.Load(context.Background(), src)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(once); got != "[b a more std main]" {
		t.Errorf("ran %s, want each module once, what is loaded first", got)
	}
	if got := p.Main().Globals["r"].String(); got != "[2, 1, 42]" {
		t.Errorf("got %s", got)
	}
	if got := fmt.Sprint(p.Main().Functions("")); got != "[z y]" {
		t.Errorf("functions: got %s, want [z y]", got)
	}
	var names []string
	for _, m := range p.Modules {
		names = append(names, m.File)
	}
	if got := fmt.Sprint(names); got != "[guard/lib/b.star guard/lib/a.star @edged//more.star @edged//std.star guard/main.star]" {
		t.Errorf("modules: got %s", got)
	}
	again, err := e.Load(context.Background(), src)
	if err != nil || again.Hash != p.Hash {
		t.Errorf("loaded again: hash %s, %v, want %s", again.Hash, err, p.Hash)
	}
	src.FS.(fstest.MapFS)["lib/b.star"].Data = []byte("mark(\"b\")\nb = 2\n")
	if changed, err := e.Load(context.Background(), src); err != nil || changed.Hash == p.Hash {
		t.Errorf("a changed file left the hash as it was (%v)", err)
	}
}

func TestLoadCycleIsAPath(t *testing.T) {
	e := script.New(script.Options{})
	_, err := e.Load(context.Background(), script.Source{FS: files(map[string]string{
		"main.star": "load(\"a.star\", \"x\")\n", "a.star": "load(\"b.star\", \"x\")\n", "b.star": "load(\"a.star\", \"x\")\n",
	})})
	if err == nil || !strings.Contains(err.Error(), "load cycle: a.star → b.star → a.star") {
		t.Errorf("got %v", err)
	}
}

func TestLoadStaysInTheFolder(t *testing.T) {
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret.star"), []byte("x = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for link, target := range map[string]string{"file.star": filepath.Join(outside, "secret.star"), "dir": outside, "up.star": "../" + filepath.Base(outside) + "/secret.star"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "big.star"), []byte(strings.Repeat("#", script.MaxSource+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "inside.star"), []byte("x = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("inside.star", filepath.Join(dir, "ok.star")); err != nil {
		t.Fatal(err)
	}
	root, fsys, err := script.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	e := script.New(script.Options{})
	for name, want := range map[string]string{
		"ok.star": "", "inside.star": "",
		"file.star": "escapes", "dir/secret.star": "escapes", "up.star": "escapes",
		"../x.star": "leaves the robot's folder", "lib/../../x.star": "leaves the robot's folder",
		filepath.Join(outside, "secret.star"): "only files of the robot's own folder",
		"C:\\\\x.star":                        "only files of the robot's own folder",
		"inside.txt":                          "only .star files",
		"./inside.star":                       "not a plain path",
		"big.star":                            "larger than 256 KiB",
		"dir":                                 "only .star files",
		"@edged//none.star":                   "no such folder",
	} {
		if err := os.WriteFile(filepath.Join(dir, "main.star"), fmt.Appendf(nil, "load(%q, \"x\")\n", name), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := e.Load(context.Background(), script.Source{FS: fsys})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
}

// registry is what a runtime does with callbacks.
func registry(live *[]starlark.Callable) starlark.StringDict {
	on := value.Func{Name: "on", Params: []value.Param{{Name: "f", Type: value.Callable, Required: true, Positional: true}},
		Do: func(c *value.Call) (starlark.Value, error) {
			fn := c.Kept("f")
			script.OnFrozen(c.Thread, func() { *live = append(*live, fn) })
			return nil, nil
		}}
	return starlark.StringDict{"on": on.Builtin()}
}

func TestCallbacksWaitUntilFrozen(t *testing.T) {
	var live []starlark.Callable
	e := script.New(script.Options{})
	p, err := e.Load(context.Background(), script.Source{FS: files(map[string]string{"main.star": `
def make():
    seen = []
    def g():
        seen.append(1)
    return g
h = make()
h() # while it loads it may still change what it holds
on(h)
on(make())
h()
def later():
    on(make())
`}), Predeclared: registry(&live)})
	if err != nil {
		t.Fatal(err)
	}
	if len(live) != 0 {
		t.Fatalf("%d callbacks live before Start", len(live))
	}
	p.Start()
	if len(live) != 2 {
		t.Fatalf("got %d callbacks, want 2", len(live))
	}
	for _, fn := range live {
		if _, err := e.Call(context.Background(), fn, nil, nil, script.Limits{}); err == nil || !strings.Contains(err.Error(), "frozen") {
			t.Errorf("a callback changed what it holds: %v", err)
		}
	}
	if _, err := e.Call(context.Background(), p.Main().Globals["later"], nil, nil, script.Limits{}); err != nil || len(live) != 3 {
		t.Errorf("got %d callbacks, %v, want the third at once", len(live), err)
	}
}

func TestFailedLoadStartsNothing(t *testing.T) {
	var live []starlark.Callable
	e := script.New(script.Options{})
	_, err := e.Load(context.Background(), script.Source{FS: files(map[string]string{"main.star": "on(len)\nfail(\"no\")\n"}), Predeclared: registry(&live)})
	if err == nil || len(live) != 0 {
		t.Errorf("got %v and %d callbacks, want an error and none", err, len(live))
	}
}

func TestTopLevelHasLimits(t *testing.T) {
	e := script.New(script.Options{})
	_, err := e.Load(context.Background(), script.Source{FS: files(map[string]string{"main.star": "x = 1\nwhile True:\n    x += 1\n"}), Limits: script.Limits{Steps: 50_000}})
	if limitOf(err) != "steps" {
		t.Errorf("got %v, want the step limit", err)
	}
}

func ExampleEngine_Load() {
	folder := files(map[string]string{"main.star": "def on_temp(e):\n    if e[\"t\"] > 30:\n        return \"hot\"\n"})
	e := script.New(script.Options{})
	p, err := e.Load(context.Background(), script.Source{Name: "guard", FS: folder})
	if err != nil {
		fmt.Println(err)
		return
	}
	p.Start()
	event, _ := value.FromGo(map[string]any{"t": 31.5})
	v, err := e.Call(context.Background(), p.Main().Globals["on_temp"], starlark.Tuple{event}, nil, script.Limits{})
	fmt.Println(v, err)
	// Output: "hot" <nil>
}
