package value_test

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	startime "go.starlark.net/lib/time"
	"go.starlark.net/starlark"
	"pgregory.net/rapid"

	"edged/starlark/value"
)

// tree draws Go trees from the borders: empty and nested containers, extreme
// numbers, text that is not ASCII.
func tree() *rapid.Generator[any] {
	leaf := rapid.OneOf(
		rapid.Just[any](nil),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.OneOf(rapid.SampledFrom([]int64{0, -1, math.MaxInt64, math.MinInt64, 1 << 53}), rapid.Int64()), func(i int64) any { return i }),
		rapid.Map(rapid.OneOf(rapid.SampledFrom([]float64{0, -0.5, math.MaxFloat64, math.SmallestNonzeroFloat64, 31.5}), rapid.Float64Range(-1e300, 1e300)), func(f float64) any { return f }),
		rapid.Map(rapid.String(), func(s string) any { return s }),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 8), func(b []byte) any { return append([]byte{}, b...) }),
	)
	var any1 func(depth int) *rapid.Generator[any]
	any1 = func(depth int) *rapid.Generator[any] {
		if depth == 0 {
			return leaf
		}
		return rapid.OneOf(leaf,
			rapid.Map(rapid.SliceOfN(rapid.Deferred(func() *rapid.Generator[any] { return any1(depth - 1) }), 0, 4), func(l []any) any { return append([]any{}, l...) }),
			rapid.Map(rapid.MapOfN(rapid.String(), rapid.Deferred(func() *rapid.Generator[any] { return any1(depth - 1) }), 0, 4), func(m map[string]any) any { return m }),
		)
	}
	return any1(4)
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := tree().Draw(t, "tree")
		v, err := value.FromGo(in)
		if err != nil {
			t.Fatalf("FromGo(%#v): %v", in, err)
		}
		out, err := value.ToGo(v)
		if err != nil {
			t.Fatalf("ToGo(%v): %v", v, err)
		}
		if !reflect.DeepEqual(in, out) {
			t.Fatalf("got %#v, want %#v", out, in)
		}
		if again, _ := value.FromGo(in); again.String() != v.String() {
			t.Fatalf("printed %s, then %s", v, again)
		}
	})
}

func TestFromGoFreezes(t *testing.T) {
	v, err := value.FromGo(map[string]any{"b": []any{int64(1)}, "a": nil})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := v.String(), `{"a": None, "b": [1]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	d := v.(*starlark.Dict)
	if err := d.SetKey(starlark.String("c"), starlark.None); err == nil {
		t.Error("a dict from Go can be changed")
	}
	l, _, _ := d.Get(starlark.String("b"))
	if err := l.(*starlark.List).Append(starlark.None); err == nil {
		t.Error("a list inside a dict from Go can be changed")
	}
}

func TestToGoRefuses(t *testing.T) {
	self := starlark.NewList(nil)
	_ = self.Append(self)
	inner := starlark.NewDict(1)
	_ = inner.SetKey(starlark.String("f"), starlark.NewBuiltin("f", nil))
	deep := starlark.Value(starlark.NewList(nil))
	for range 200 {
		deep = starlark.NewList([]starlark.Value{deep})
	}
	shared := starlark.Value(starlark.NewList(nil))
	for range 60 {
		shared = starlark.NewList([]starlark.Value{shared, shared})
	}
	keys := starlark.NewDict(1)
	_ = keys.SetKey(starlark.MakeInt(1), starlark.None)
	for _, c := range []struct {
		name string
		v    starlark.Value
		want string
	}{
		{"cycle", self, "a list that contains itself"},
		{"function", starlark.NewList([]starlark.Value{starlark.None, inner}), `at [1]["f"]: a builtin_function_or_method has no form as data`},
		{"deep", deep, "more than 100 levels deep"},
		{"shared", shared, "more than 1048576 values"},
		{"key", keys, "a int as key of a dict: want string"},
		{"nan", starlark.Float(math.NaN()), "nan is not a number that JSON knows"},
		{"big", starlark.MakeInt(1).Lsh(80), "an integer of 81 bits does not fit 64"},
	} {
		if _, err := value.ToGo(c.v); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func TestDuration(t *testing.T) {
	for _, c := range []struct {
		v    starlark.Value
		want time.Duration
		err  string
	}{
		{starlark.String("250ms"), 250 * time.Millisecond, ""},
		{starlark.String("1m30s"), 90 * time.Second, ""},
		{starlark.String("1d12h"), 36 * time.Hour, ""},
		{starlark.String("2d"), 48 * time.Hour, ""},
		{starlark.MakeInt(5), 5 * time.Second, ""},
		{starlark.Float(0.25), 250 * time.Millisecond, ""},
		{startime.Duration(time.Minute), time.Minute, ""},
		{starlark.String("5"), 0, "is not a duration"},
		{starlark.String("-5s"), 0, "is negative"},
		{starlark.Float(math.NaN()), 0, "out of range"},
		{starlark.Float(1e300), 0, "out of range"},
		{starlark.MakeInt(1).Lsh(70), 0, "out of range"},
		{starlark.None, 0, "got None"},
	} {
		d, err := value.ToDuration(c.v)
		if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) || c.err == "" && err != nil || d != c.want {
			t.Errorf("%v: got %v, %v, want %v %s", c.v, d, err, c.want, c.err)
		}
	}
}

// Borders are written as people write them.
func TestBorders(t *testing.T) {
	for want, typ := range map[string]value.Type{
		"int from 1 to 1000000":       value.Between(value.Int, 1, 1_000_000),
		"number from -0.5 to 0.00001": value.Between(value.Number, -0.5, 1e-5),
		"int ≥ 20000000":              value.Between(value.Int, 2e7, math.Inf(1)),
	} {
		if got := typ.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

var lamp = value.Func{
	Name: "lamp",
	Doc:  "Switches a lamp. It glows.",
	Params: []value.Param{
		{Name: "room", Type: value.String, Required: true, Positional: true, Doc: "Where."},
		{Name: "level", Type: value.Between(value.Number, 0, 1), Default: 1.0},
		{Name: "fade", Type: value.Duration, Default: "1s"},
		{Name: "mode", Type: value.OneOf("warm", "cold"), Default: "warm"},
		{Name: "rooms", Type: value.OneOrMany(value.String)},
		{Name: "done", Type: value.Callable},
		{Name: "speed", Type: value.Number, Unit: "m/s"},
	},
	Returns: "what was asked",
	Do: func(c *value.Call) (starlark.Value, error) {
		return c.Return(map[string]any{
			"room": c.String("room"), "level": c.Float("level"), "fade": c.Duration("fade").String(),
			"mode": c.String("mode"), "rooms": c.Strings("rooms"), "done": c.Callable("done") != nil,
		})
	},
}

func call(f value.Func, args starlark.Tuple, kw map[string]starlark.Value) (starlark.Value, error) {
	var kwargs []starlark.Tuple
	for k, v := range kw {
		kwargs = append(kwargs, starlark.Tuple{starlark.String(k), v})
	}
	return starlark.Call(&starlark.Thread{}, f.Builtin(), args, kwargs)
}

func TestTable(t *testing.T) {
	type kw = map[string]starlark.Value
	s := func(x string) starlark.Value { return starlark.String(x) }
	for _, c := range []struct {
		name string
		args starlark.Tuple
		kw   kw
		want string
	}{
		{"defaults", starlark.Tuple{s("hall")}, nil, `{"done": False, "fade": "1s", "level": 1.0, "mode": "warm", "room": "hall", "rooms": []}`},
		{"named", nil, kw{"room": s("hall"), "level": starlark.MakeInt(0), "fade": starlark.Float(0.5), "rooms": s("a")}, `{"done": False, "fade": "500ms", "level": 0.0, "mode": "warm", "room": "hall", "rooms": ["a"]}`},
		{"none is absent", starlark.Tuple{s("hall")}, kw{"fade": starlark.None}, `{"done": False, "fade": "1s", "level": 1.0, "mode": "warm", "room": "hall", "rooms": []}`},
		{"unknown", starlark.Tuple{s("hall")}, kw{"lvel": s("x")}, `error: lamp: unknown argument "lvel" (did you mean "level" (number from 0 to 1, default 1.0)?)`},
		{"mistyped", starlark.Tuple{s("hall")}, kw{"level": s("high")}, `error: lamp: argument "level": want number from 0 to 1, got string "high"`},
		{"range", starlark.Tuple{s("hall")}, kw{"level": starlark.MakeInt(3)}, `error: lamp: argument "level": want number from 0 to 1, got int 3`},
		{"unit", starlark.Tuple{s("hall")}, kw{"speed": s("fast")}, `error: lamp: argument "speed": want number in m/s, got string "fast"`},
		{"enum", starlark.Tuple{s("hall")}, kw{"mode": s("wram")}, `error: lamp: argument "mode": want "warm" | "cold", got string "wram" (did you mean "warm"?)`},
		{"duration", starlark.Tuple{s("hall")}, kw{"fade": s("5")}, `error: lamp: argument "fade": want duration, "5" is not a duration (write it like "250ms", "5s" or "1m30s")`},
		{"element", starlark.Tuple{s("hall")}, kw{"rooms": starlark.Tuple{s("a"), starlark.None}}, `error: lamp: argument "rooms": want string or list of string, element 1: got None`},
		{"missing", nil, nil, `error: lamp: missing argument "room" (string) (usage: lamp(room, *, level=1.0, fade="1s", mode="warm", rooms=None, done=None, speed=None))`},
		{"positional", starlark.Tuple{s("hall"), s("x")}, nil, `error: lamp: takes 1 argument without a name, got 2 (give the others by name, as in level = …)`},
		{"twice", starlark.Tuple{s("hall")}, kw{"room": s("x")}, `error: lamp: argument "room" given twice, by position and by name`},
	} {
		v, err := call(lamp, c.args, c.kw)
		got := ""
		if err != nil {
			got = "error: " + err.Error()
		} else {
			got = v.String()
		}
		if got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestValidate(t *testing.T) {
	do := func(*value.Call) (starlark.Value, error) { return nil, nil }
	for _, c := range []struct {
		f    value.Func
		want string
	}{
		{value.Func{}, "needs a name and a Do"},
		{value.Func{Name: "f", Do: do, Params: []value.Param{{Name: "a"}, {Name: "a"}}}, "repeated"},
		{value.Func{Name: "f", Do: do, Params: []value.Param{{Name: "a"}, {Name: "b", Positional: true}}}, "after named"},
		{value.Func{Name: "f", Do: do, Params: []value.Param{{Name: "a", Type: value.Duration, Default: "x"}}}, "default of"},
		{value.Func{Name: "f", Do: do, Params: []value.Param{{Name: "a", Required: true, Default: 1}}}, "required and has a default"},
	} {
		if err := c.f.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

func TestFaultsBecomeErrors(t *testing.T) {
	wrong := value.Func{Name: "wrong", Do: func(c *value.Call) (starlark.Value, error) {
		return starlark.String(c.String("nobody")), nil
	}}
	_, err := call(wrong, nil, nil)
	var p *value.PanicError
	if !errors.As(err, &p) || !strings.Contains(err.Error(), `wrong has no parameter "nobody"`) {
		t.Errorf("got %v, want a PanicError", err)
	}
	sentinel := errors.New("disk full")
	failing := value.Func{Name: "bb.set", Do: func(c *value.Call) (starlark.Value, error) { return nil, sentinel }}
	if _, err := call(failing, nil, nil); !errors.Is(err, sentinel) || err.Error() != "bb.set: disk full" {
		t.Errorf("got %v, want bb.set: disk full", err)
	}
}

type point struct{ x, y int64 }

func points() *value.Kind[*point] {
	return &value.Kind[*point]{
		Name: "point", Doc: "A point.",
		Attrs: []value.Attr[*point]{{Name: "x", Get: func(p *point) (any, error) { return p.x, nil }}},
		Methods: []value.Method[*point]{{
			Func: value.Func{Name: "plus", Params: []value.Param{{Name: "dx", Type: value.Int, Required: true, Positional: true}}},
			Do:   func(p *point, c *value.Call) (starlark.Value, error) { return c.Return(p.x + c.Int64("dx")) },
		}},
		Tree: func(p *point) (any, error) { return []any{p.x, p.y}, nil },
		Key:  func(p *point) string { return string(rune(p.x)) + string(rune(p.y)) },
		Index: func(p *point, k string) (any, bool) {
			return map[string]any{"x": p.x, "y": p.y}[k], k == "x" || k == "y"
		},
		Keys: func(*point) []string { return []string{"x", "y"} },
	}
}

func TestKind(t *testing.T) {
	k := points()
	env := starlark.StringDict{"p": k.Wrap(&point{3, 4}), "q": k.Wrap(&point{3, 4}), "other": points().Wrap(&point{3, 4})}
	for _, c := range []struct{ expr, want string }{
		{"p.x", "3"},
		{"p.plus(2)", "5"},
		{"p.plus(dx = 2)", "5"},
		{`p["y"]`, "4"},
		{`"x" in p`, "True"},
		{"dict(p)", `{"x": 3, "y": 4}`},
		{"p == q", "True"},
		{"p == other", "False"},
		{"{p: 1}[q]", "1"},
		{"type(p)", `"point"`},
		{"dir(p)", `["plus", "x"]`},
		{"p.pluss(1)", `error: point: has no "pluss" (did you mean "plus"?)`},
		{"p.plus('a')", `error: point.plus: argument "dx": want int, got string "a"`},
		{`p["z"]`, `error: key "z" not in point`},
	} {
		v, err := starlark.Eval(&starlark.Thread{}, "x", c.expr, env)
		got := ""
		if err != nil {
			got = "error: " + err.Error()
		} else {
			got = v.String()
		}
		if got != c.want {
			t.Errorf("%s: got %s, want %s", c.expr, got, c.want)
		}
	}
	if p, err := k.Unwrap(env["p"]); err != nil || p.x != 3 {
		t.Errorf("Unwrap: got %v, %v", p, err)
	}
	if _, err := k.Unwrap(starlark.String("p")); err == nil || err.Error() != `want point, got string "p"` {
		t.Errorf("Unwrap of text: got %v", err)
	}
	if tree, err := value.ToGo(starlark.NewList([]starlark.Value{env["p"]})); err != nil || !reflect.DeepEqual(tree, []any{[]any{int64(3), int64(4)}}) {
		t.Errorf("ToGo: got %v, %v", tree, err)
	}
}

func TestCatalogue(t *testing.T) {
	m := value.NewModule("home", "The home.", lamp).With(starlark.StringDict{"ROOMS": starlark.MakeInt(4)})
	entries := value.Catalogue(starlark.StringDict{"home": m}, points().Describe())
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	if got, want := strings.Join(names, " "), "home home.ROOMS home.lamp point point.plus point.x"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	e := entries[2]
	if e.Summary() != "Switches a lamp." || e.Params[3].Enum[1] != "cold" || !e.Params[0].Positional {
		t.Errorf("got %+v", e)
	}
	if md := e.Markdown(); !strings.Contains(md, `| `+"`fade`"+` | duration | "1s" |  |`) {
		t.Errorf("got\n%s", md)
	}
}

func TestNearest(t *testing.T) {
	names := []string{"timeout", "speed", "mode", "max_queue", "sub"}
	for name, want := range map[string]string{"timeot": "timeout", "sped": "speed", "maxQueue": "max_queue", "xyzzy": "", "MODE": "mode", "t": ""} {
		if got := value.Nearest(name, names); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// TestKindIs: a kind that is another one has all of it, and goes where that is
// wanted; the other way it does not.
func TestKindIs(t *testing.T) {
	method := func(name, says string) value.Method[int] {
		return value.Method[int]{Func: value.Func{Name: name, Doc: says}, Do: func(int, *value.Call) (starlark.Value, error) { return starlark.String(says), nil }}
	}
	animal := &value.Kind[int]{Name: "animal", Attrs: []value.Attr[int]{{Name: "legs", Get: func(n int) (any, error) { return n, nil }}},
		Methods: []value.Method[int]{method("speak", "…"), method("eat", "yum")}}
	dog := &value.Kind[int]{Name: "dog", Is: animal, Methods: []value.Method[int]{method("speak", "wuff"), method("fetch", "here")}}
	rex := dog.Wrap(4)
	for expr, want := range map[string]string{"x.legs": "4", "x.speak()": `"wuff"`, "x.eat()": `"yum"`, "x.fetch()": `"here"`, "type(x)": `"dog"`, "dir(x)": `["eat", "fetch", "legs", "speak"]`} {
		got, err := starlark.Eval(new(starlark.Thread), "t", expr, starlark.StringDict{"x": rex})
		if err != nil || got.String() != want {
			t.Errorf("%s: got %v %v, want %s", expr, got, err, want)
		}
	}
	if n, err := animal.Unwrap(rex); err != nil || n != 4 {
		t.Errorf("a dog as an animal: got %d %v", n, err)
	}
	if _, err := dog.Unwrap(animal.Wrap(2)); err == nil {
		t.Error("an animal passed for a dog")
	}
	if _, err := animal.Type().Check(rex); err != nil {
		t.Error(err)
	}
}
