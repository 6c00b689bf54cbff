package script_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"go.starlark.net/starlark"

	"edged/starlark/script"
	"edged/starlark/value"
)

// driveTo is a builtin like those of the robot's own modules.
var driveTo = value.Func{
	Name: "drive_to",
	Doc:  "Drives to a place.",
	Params: []value.Param{
		{Name: "place", Type: value.Any, Required: true, Positional: true},
		{Name: "speed", Type: value.Number, Unit: "m/s", Default: 0.5},
		{Name: "timeout", Type: value.Duration, Default: "30s"},
		{Name: "mode", Type: value.OneOf("single", "restart", "queue", "parallel"), Default: "single"},
	},
	Do: func(c *value.Call) (starlark.Value, error) { return starlark.True, nil },
}

// hears has a first row that may be left out.
var hears = value.Func{
	Name: "hears", Doc: "Hears.",
	Params: []value.Param{
		{Name: "bus", Type: value.List, Positional: true, Skip: true},
		{Name: "name", Type: value.String, Required: true, Positional: true},
		{Name: "fn", Type: value.Callable, Required: true, Positional: true}},
	Do: func(c *value.Call) (starlark.Value, error) {
		return starlark.String(c.String("name")), nil
	},
}

func predeclared() starlark.StringDict {
	bare := driveTo
	return starlark.StringDict{
		"base":     value.NewModule("base", "The base.", driveTo),
		"drive_to": (&bare).Builtin(),
		"hears":    (&hears).Builtin(),
		"json":     value.JSON(),
	}
}

func load(t testing.TB, e *script.Engine, files map[string]string) (*script.Program, error) {
	t.Helper()
	m := fstest.MapFS{}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return e.Load(context.Background(), script.Source{Name: "guard", FS: m, Predeclared: predeclared()})
}

func TestErrorForm(t *testing.T) {
	e := script.New(script.Options{})
	p, err := load(t, e, map[string]string{"main.star": `
WAYPOINTS = {"dock": 1}

def go_to(place):
        return drive_to(WAYPOINTS[place], speed = 0.3, timeot = "60s")
`})
	if err != nil {
		t.Fatal(err)
	}
	ctx := script.WithRole(context.Background(), `round 2 of society "guard_team"`)
	ctx = script.WithRole(ctx, `tool of agent "planner"`)
	_, err = e.Call(ctx, p.Main().Globals["go_to"], starlark.Tuple{starlark.String("dock")}, nil, script.Limits{})
	var se *script.Error
	if !errors.As(err, &se) {
		t.Fatalf("got %T %v, want *script.Error", err, err)
	}
	want := strings.TrimPrefix(`
guard/main.star:5:56: drive_to: unknown argument "timeot"
    return drive_to(WAYPOINTS[place], speed = 0.3, timeot = "60s")
                                                   ^ did you mean "timeout" (duration, default "30s")?
  called from go_to (tool of agent "planner"), round 2 of society "guard_team"`, "\n")
	if got := se.Text(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

var update = flag.Bool("update", false, "rewrite testdata/messages.txt")

// TestMessages holds what authors are told against testdata/messages.txt, where
// it is reviewed as prose: a script and, after =>, what loading it and calling
// its function f says.
func TestMessages(t *testing.T) {
	const file = "testdata/messages.txt"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, part := range strings.Split(string(b), "\n----\n") {
		src, want, ok := strings.Cut(part, "\n=>\n")
		if !ok {
			t.Fatalf("no => in\n%s", part)
		}
		got := messageOf(t, src+"\n")
		want = strings.TrimSuffix(want, "\n")
		if got != want && !*update {
			t.Errorf("for\n%s\ngot\n%s\nwant\n%s", src, got, want)
		}
		out = append(out, src+"\n=>\n"+got+"\n")
	}
	if *update {
		if err := os.WriteFile(file, []byte(strings.Join(out, "\n----\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func messageOf(t *testing.T, src string) string {
	e := script.New(script.Options{Limits: script.Limits{Steps: 100_000}})
	p, err := load(t, e, map[string]string{
		"main.star":      src,
		"lib/doors.star": "def open_door(): pass\n",
		"lib/bad.star":   "x = = 1\n",
		"lib/fails.star": "def g():\n    return [][1]\ng()\n",
	})
	if err == nil {
		_, err = e.Call(context.Background(), p.Main().Globals["f"], nil, nil, script.Limits{})
	}
	return text(err)
}
