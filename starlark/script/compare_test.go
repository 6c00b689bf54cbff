package script_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/fstest"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
	"pgregory.net/rapid"

	"edged/starlark/script"
)

// TestComparisons holds the rewritten comparisons against the interpreter's.
func TestComparisons(t *testing.T) {
	numbers := []int64{0, 1, -1, 30, 1 << 53, -1 << 53, 1<<53 + 1, math.MaxInt64}
	var src strings.Builder
	for i, n := range numbers {
		for j, op := range []string{"==", "!=", "<", "<=", ">", ">="} {
			fmt.Fprintf(&src, "def f%d_%d(x): return x %s %d\n", i, j, op, n)
		}
	}
	e := script.New(script.Options{})
	p, err := e.Load(context.Background(), script.Source{FS: fstest.MapFS{"main.star": {Data: []byte(src.String())}}})
	if err != nil {
		t.Fatal(err)
	}
	plain, err := starlark.ExecFileOptions(&syntax.FileOptions{}, &starlark.Thread{}, "main.star", src.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	big := starlark.MakeInt(1).Lsh(70)
	x := rapid.OneOf(
		rapid.Map(rapid.Float64(), func(f float64) starlark.Value { return starlark.Float(f) }),
		rapid.Map(rapid.SampledFrom(numbers), func(i int64) starlark.Value { return starlark.Float(i) }),
		rapid.Map(rapid.SampledFrom(numbers), func(i int64) starlark.Value { return starlark.MakeInt64(i) }),
		rapid.Map(rapid.Int64(), func(i int64) starlark.Value { return starlark.MakeInt64(i) }),
		rapid.SampledFrom([]starlark.Value{
			big, starlark.Float(math.NaN()), starlark.Float(math.Inf(1)), starlark.Float(math.Inf(-1)),
			starlark.None, starlark.True, starlark.String("30"), starlark.NewList(nil), starlark.NewDict(0), starlark.NewSet(0), starlark.Tuple{},
		}),
	)
	rapid.Check(t, func(t *rapid.T) {
		v := x.Draw(t, "x")
		name := fmt.Sprintf("f%d_%d", rapid.IntRange(0, len(numbers)-1).Draw(t, "n"), rapid.IntRange(0, 5).Draw(t, "op"))
		got, gotErr := e.Call(context.Background(), p.Main().Globals[name], starlark.Tuple{v}, nil, script.Limits{})
		want, wantErr := starlark.Call(&starlark.Thread{}, plain[name], starlark.Tuple{v}, nil)
		if (gotErr == nil) != (wantErr == nil) || gotErr == nil && got != want {
			t.Fatalf("%s(%v): got %v, %v, want %v, %v", name, v, got, gotErr, want, wantErr)
		}
		if wantErr != nil && !strings.Contains(gotErr.Error(), wantErr.Error()) {
			t.Fatalf("%s(%v): got %v, want %v", name, v, gotErr, wantErr)
		}
	})
}
