package script_test

import (
	"context"
	"testing"
	"testing/fstest"

	"go.starlark.net/starlark"

	"edged/starlark/script"
)

func TestCover(t *testing.T) {
	src := `"""doc"""
load("lib.star", "twice")

def f(x):
    """doc of f"""
    if x > 1:
        return twice(x)
    elif x > 0:
        y = 1
        return y
    else:
        for i in range(3):
            x += i
    return x

def never():
    pass
`
	e := script.New(script.Options{})
	cover := &script.Cover{}
	fs := fstest.MapFS{"main.star": {Data: []byte(src)}, "lib.star": {Data: []byte("def twice(x): return 2 * x\n")}}
	for range 2 { // the second load counts on
		p, err := e.Load(context.Background(), script.Source{FS: fs, Cover: cover})
		if err != nil {
			t.Fatal(err)
		}
		f := p.Main().Globals["f"].(*starlark.Function)
		if f.Doc() != "doc of f" {
			t.Errorf("doc: got %q", f.Doc())
		}
		v, err := e.Call(context.Background(), f, starlark.Tuple{starlark.MakeInt(2)}, nil, script.Limits{})
		if err != nil || v.String() != "4" {
			t.Fatalf("got %v, %v, want 4", v, err)
		}
	}
	files := cover.Files()
	if len(files) != 2 || files[0].File != "lib.star" || files[0].Percent() != 100 {
		t.Fatalf("got %+v", files)
	}
	m := files[1]
	if m.Statements != 11 || m.Run != 4 || m.MissedText() != "8-10, 12-14, 17" {
		t.Errorf("got %+v, missed %s", m, m.MissedText())
	}
}

func TestCoverKeepsPlaces(t *testing.T) {
	e := script.New(script.Options{})
	fs := fstest.MapFS{"main.star": {Data: []byte("def f():\n    x = 1\n    return x + \"a\"\n")}}
	var texts [2]string
	for i, cover := range []*script.Cover{nil, {}} {
		p, err := e.Load(context.Background(), script.Source{FS: fs, Cover: cover})
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.Call(context.Background(), p.Main().Globals["f"], nil, nil, script.Limits{})
		texts[i] = text(err)
	}
	if texts[0] != texts[1] {
		t.Errorf("with cover got\n%s\nwithout\n%s", texts[1], texts[0])
	}
}

// An if without else counts like any other.
func TestCoverIfAlone(t *testing.T) {
	e := script.New(script.Options{})
	cover := &script.Cover{}
	fs := fstest.MapFS{"main.star": {Data: []byte("def f(x):\n    if x:\n        x = 1\n    return x\n")}}
	p, err := e.Load(context.Background(), script.Source{FS: fs, Cover: cover})
	if err != nil {
		t.Fatal(err)
	}
	f := p.Main().Globals["f"].(*starlark.Function)
	p.Start()
	if v, err := e.Call(context.Background(), f, starlark.Tuple{starlark.MakeInt(0)}, nil, script.Limits{}); err != nil || v.String() != "0" {
		t.Errorf("got %v %v, want 0", v, err)
	}
}
