package script_test

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"go.starlark.net/starlark"

	"edged/starlark/script"
)

// TestPin: the calls of a pin have the limits of any other, and one that broke
// them does not spoil the next.
func TestPin(t *testing.T) {
	e := script.New(script.Options{})
	p, err := e.Load(t.Context(), script.Source{Name: "box", FS: fstest.MapFS{"main.star": {Data: []byte(`
def f(x):
    if x[0] == "spin":
        for i in range(1000000000):
            pass
    if x[0] == "fail":
        fail("jam")
    return x[0]
`)}}})
	if err != nil {
		t.Fatal(err)
	}
	say := starlark.NewList([]starlark.Value{starlark.String("fine")})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pin := e.Pin(ctx, p.Module("main.star").Globals["f"], starlark.Tuple{say}, nil, script.Limits{Time: 50 * time.Millisecond, Steps: 1 << 40})
	for _, c := range []struct{ say, err string }{{"fine", ""}, {"spin", "50ms"}, {"fine", ""}, {"fail", "jam"}, {"fine", ""}} {
		if err := say.SetIndex(0, starlark.String(c.say)); err != nil {
			t.Fatal(err)
		}
		v, err := pin.Call()
		switch {
		case c.err == "" && (err != nil || v != starlark.String("fine")):
			t.Errorf("%s: got %v %v", c.say, v, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: got %v, want %q", c.say, err, c.err)
		}
	}
	cancel()
	if err := say.SetIndex(0, starlark.String("spin")); err != nil {
		t.Fatal(err)
	}
	if _, err := pin.Call(); err == nil || !strings.Contains(err.Error(), "cancel") {
		t.Errorf("got %v, want that it was cancelled", err)
	}
}
