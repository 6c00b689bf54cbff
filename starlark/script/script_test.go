package script_test

import (
	"context"
	"errors"
	"fmt"
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

func predeclared() starlark.StringDict {
	bare := driveTo
	return starlark.StringDict{
		"base":     value.NewModule("base", "The base.", driveTo),
		"drive_to": (&bare).Builtin(),
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

func TestMessages(t *testing.T) {
	for _, src := range []string{
		"x = [1]\ndef f():\n    x.append(2)\n",
		"n = 0\ndef f():\n    n += 1\n",
		"def f():\n    return list(range(1 << 62))\n",
		"def f():\n    while True:\n        pass\n",
		"def f():\n    f()\n",
		"def f():\n    s = 'x'\n    while True:\n        s += s\n",
		"def f():\n    base.drive_to('x', mode='paralell')\n",
		"def f():\n    base.drive_to('x', 3)\n",
		"def f():\n    base.drive('x')\n",
		"def g(a): return a\ndef f():\n    g(b=1)\n",
		"def f():\n    return {}['a']\n",
		"class A:\n  pass\n",
		"try:\n  x = 1\nexcept: pass\n",
		"x = f'{a}'\n",
		"x = trunc(1)\ny = lst(3)",
		"load('x.star', 'y')\n",
		"load('../x.star', 'y')\n",
		"load('main.star', 'y')\n",
	} {
		e := script.New(script.Options{})
		p, err := load(t, e, map[string]string{"main.star": src})
		if err == nil {
			_, err = e.Call(context.Background(), p.Main().Globals["f"], nil, nil, script.Limits{})
		}
		if x, ok := err.(interface{ Text() string }); ok {
			fmt.Println(x.Text())
		} else {
			fmt.Println("??", err)
		}
	}
}
