package mqtt

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"edged/bus"
)

func newTestCodecs(t testing.TB) codecs {
	t.Helper()
	cs, err := newCodecs()
	if err != nil {
		t.Fatal(err)
	}
	return cs
}

// event makes the event that a bus would make of a value.
func event(t testing.TB, v any) bus.Event {
	t.Helper()
	b := bus.New(bus.Options{})
	e, err := b.Publish(t.Context(), "test", "t", v)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestDecode(t *testing.T) {
	cs := newTestCodecs(t)
	for _, tc := range []struct {
		codec Codec
		in    string
		want  any // nil: refused
	}{
		{JSON, `{"t": 21}`, map[string]any{"t": int64(21)}}, {"", "21.5", 21.5}, {JSON, "on", "on"}, {JSON, "true", true},
		{JSON, ` [1] `, []any{int64(1)}}, {JSON, `{"t": NaN}`, nil}, {JSON, `{"t"`, nil}, {JSON, "[1,", nil}, {JSON, "NaN", nil}, {JSON, "-inf", nil},
		{JSON, "Infinity", nil}, {JSON, "infinite", "infinite"}, {JSON, "\xff", nil}, {JSON, `"` + "\xff" + `"`, nil}, {JSON, "nano", "nano"},
		{Text, `{"t": 21}`, `{"t": 21}`}, {Text, "\xff", nil}, {Bytes, "\xff\x00", []byte{0xff, 0}},
		{CBOR, "\xa1\x61t\x15", map[string]any{"t": int64(21)}}, {CBOR, "\xf9\x7e\x00", nil}, {CBOR, "\x82\x01\xf9\x7c\x00", nil}, {CBOR, "\xff", nil},
		{CBOR, "\xa1\x01\x02", map[string]any{"1": int64(2)}}, {CBOR, "\x41\x01", []byte{1}}, {CBOR, "\xc1\x00", "1970-01-01T00:00:00Z"}, {"xml", "x", nil},
	} {
		v, err := cs.decode(tc.codec, []byte(tc.in))
		if tc.want == nil {
			if !errors.Is(err, ErrPayload) {
				t.Errorf("%s %q: got %v, %v, want it refused", tc.codec, tc.in, v, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s %q: %v", tc.codec, tc.in, err)
			continue
		}
		if got := event(t, v).Payload(); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s %q: got %#v, want %#v", tc.codec, tc.in, got, tc.want)
		}
	}
}

// What one robot encodes another decodes to the same.
func TestRoundTrip(t *testing.T) {
	cs := newTestCodecs(t)
	leaf := rapid.OneOf(rapid.Just[any](nil), rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.Int64(), func(i int64) any { return i }), rapid.Map(rapid.String(), func(s string) any { return s }),
		rapid.Map(rapid.Float64(), func(f float64) any {
			if math.IsNaN(f) || math.IsInf(f, 0) || f == math.Trunc(f) {
				return 0.5
			}
			return f
		}))
	rapid.Check(t, func(rt *rapid.T) {
		var v any = map[string]any{"list": toAny(rapid.SliceOfN(leaf, 0, 4).Draw(rt, "list")), "v": leaf.Draw(rt, "v")}
		for _, c := range []Codec{JSON, CBOR} {
			p, err := cs.encode(c, event(t, v))
			if err != nil {
				rt.Fatal(err)
			}
			back, err := cs.decode(c, p)
			if err != nil {
				rt.Fatal(err)
			}
			if got := event(t, back).Payload(); !reflect.DeepEqual(got, v) {
				rt.Fatalf("%s: got %#v, want %#v", c, got, v)
			}
		}
	})
}

func toAny(l []any) []any {
	if l == nil {
		return []any{}
	}
	return l
}

func TestEncode(t *testing.T) {
	cs := newTestCodecs(t)
	for _, tc := range []struct {
		codec Codec
		v     any
		want  string
	}{
		{JSON, "on", "on"}, {JSON, []byte{1}, "\x01"}, {JSON, nil, ""}, {JSON, 1.5, "1.5"}, {Text, map[string]any{"a": 1}, `{"a":1}`},
		{CBOR, "on", "\x62on"}, {CBOR, map[string]any{"b": 1, "a": 2}, "\xa2\x61a\x02\x61b\x01"}, {Bytes, bus.RawJSON("[1, 2]"), "[1, 2]"},
	} {
		if p, err := cs.encode(tc.codec, event(t, tc.v)); err != nil || string(p) != tc.want {
			t.Errorf("%s %v: got %q, %v, want %q", tc.codec, tc.v, p, err, tc.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"t":1}`, "NaN", "\xa1\x61t\x15", "\xff", "1e999", "\x9f\x9f\x9f"} {
		for i := range 4 {
			f.Add(i, []byte(s))
		}
	}
	cs := newTestCodecs(f)
	f.Fuzz(func(t *testing.T, codec int, in []byte) {
		c := []Codec{JSON, Text, Bytes, CBOR}[codec&3]
		v, err := cs.decode(c, in)
		if err != nil {
			return
		}
		e := event(t, v)
		tree := e.Payload()
		if s, ok := tree.(string); ok && !utf8.ValidString(s) {
			t.Fatalf("%s %q: not UTF-8: %q", c, in, s)
		}
		if _, err := json.Marshal(tree); err != nil {
			t.Fatalf("%s %q: %v", c, in, err)
		}
		if _, err := cs.encode(c, e); err != nil {
			t.Fatalf("%s %q: can't be sent again: %v", c, in, err)
		}
	})
}

func BenchmarkCodec(b *testing.B) {
	cs := newTestCodecs(b)
	v := map[string]any{"t": 31.5, "n": 12345, "unit": "°C"}
	for _, c := range []Codec{JSON, Text, Bytes, CBOR} {
		p, err := cs.encode(c, event(b, v))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(string(c)+"/decode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := cs.decode(c, p); err != nil {
					b.Fatal(err)
				}
			}
		})
		e := event(b, v)
		b.Run(string(c)+"/encode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := cs.encode(c, e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("limit", func(b *testing.B) { // what any receiver of JSON must do
		p := []byte(`{"t":31.5,"n":12345,"unit":"°C"}`)
		b.ReportAllocs()
		for b.Loop() {
			if !json.Valid(p) {
				b.Fatal("not JSON")
			}
		}
	})
}
