package script

import (
	"bytes"
	"math"
	"testing"
	"time"

	startime "go.starlark.net/lib/time"
	"go.starlark.net/starlark"
	"pgregory.net/rapid"
)

func wireValue() *rapid.Generator[starlark.Value] {
	leaf := rapid.OneOf(
		rapid.SampledFrom([]starlark.Value{starlark.None, starlark.True, starlark.False, starlark.Float(math.Inf(1)), starlark.MakeInt64(math.MinInt64), starlark.String(""), starlark.Bytes("\x00\xff"), startime.Duration(time.Hour)}),
		rapid.Map(rapid.Int64(), func(i int64) starlark.Value { return starlark.MakeInt64(i) }),
		rapid.Map(rapid.Float64(), func(f float64) starlark.Value { return starlark.Float(f) }),
		rapid.Map(rapid.String(), func(s string) starlark.Value { return starlark.String(s) }),
	)
	return rapid.Custom(func(t *rapid.T) starlark.Value {
		v := leaf.Draw(t, "leaf")
		for range rapid.IntRange(0, 5).Draw(t, "depth") {
			elems := append(rapid.SliceOfN(leaf, 0, 3).Draw(t, "beside"), v)
			switch rapid.IntRange(0, 2).Draw(t, "in") {
			case 0:
				v = starlark.NewList(elems)
			case 1:
				v = starlark.Tuple(elems)
			case 2:
				d := starlark.NewDict(0)
				for _, x := range elems {
					_ = d.SetKey(starlark.String(x.String()), x)
				}
				v = d
			}
		}
		return v
	})
}

func TestWireRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := wireValue().Draw(t, "v")
		e := newFrame(frameResult)
		e.value(v, 0)
		frame, err := e.frame()
		if err != nil {
			t.Fatal(err)
		}
		kind, d, err := readFrame(bytes.NewReader(frame))
		if err != nil || kind != frameResult {
			t.Fatalf("got kind %d, %v", kind, err)
		}
		got := d.value(0)
		if d.err != nil || got.String() != v.String() || len(d.buf) != 0 {
			t.Fatalf("got %v, %v, %d bytes left, want %v", got, d.err, len(d.buf), v)
		}
	})
}

// FuzzWire reads arbitrary bytes as everything a frame can hold.
func FuzzWire(f *testing.F) {
	e := newFrame(frameResult)
	e.value(starlark.Tuple{starlark.String("x"), starlark.MakeInt(3), starlark.NewList(nil)}, 0)
	e.error(&Error{Msg: "m", Frames: []Frame{{"f", Position{"x", 1, 2}}}, Err: &LimitError{Limit: "time"}})
	f.Add(e.buf[5:])
	f.Add([]byte{wireDict, 1, wireList, 0, wireNone})
	f.Add(bytes.Repeat([]byte{wireList, 1}, 1000))
	f.Fuzz(func(t *testing.T, b []byte) {
		h := newHost(&bytes.Buffer{}, nil, Options{})
		s := newSession(t.Context(), &Isolated{e: h.e}, nil, nil)
		for _, foreign := range []func(*decoder, byte, int) (starlark.Value, error){nil, h.decodeForeign, s.decodeForeign} {
			for _, read := range []func(*decoder){
				func(d *decoder) { d.value(0) },
				func(d *decoder) { d.args() },
				func(d *decoder) { _ = d.error() },
				func(d *decoder) { d.texts(); d.limits(); d.position() },
			} {
				read(&decoder{buf: b, nodes: 10_000, foreign: foreign})
			}
		}
	})
}
