package blackboard

import (
	"bytes"
	"errors"
	"math"
	"os"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestRecordRoundTrip(t *testing.T) {
	for _, v := range []any{
		nil, true, false, int64(0), int64(math.MinInt64), int64(math.MaxInt64), 0.0, -0.5, math.MaxFloat64, "", "text", []byte{}, []byte{1},
		[]any{}, []any{nil, []any{"x"}}, map[string]any{}, map[string]any{"": int64(1), "a": map[string]any{"b": []byte("c")}},
	} {
		s := state{value: v, version: 7, at: -5, ttl: time.Hour, writer: "script:x", present: true, keep: true}
		got, err := decodeState([]byte("key"), s.encode([]byte("key")))
		if err != nil || !reflect.DeepEqual(got, s) {
			t.Errorf("%#v: got %+v %v, want %+v", v, got, err, s)
		}
	}
}

// Every flipped bit, every cut, every other key is found out.
func TestRecordIsGuarded(t *testing.T) {
	s := state{value: map[string]any{"a": "b"}, version: 3, writer: "w", present: true, keep: true}
	rec := s.encode([]byte("key"))
	if _, err := decodeState([]byte("kez"), rec); !errors.Is(err, ErrChecksum) {
		t.Errorf("under another key: %v", err)
	}
	for i := range rec {
		for bit := range 8 {
			bad := bytes.Clone(rec)
			bad[i] ^= 1 << bit
			if _, err := decodeState([]byte("key"), bad); !errors.Is(err, ErrChecksum) {
				t.Errorf("byte %d bit %d: %v", i, bit, err)
			}
		}
		if _, err := decodeState([]byte("key"), rec[:i]); !errors.Is(err, ErrChecksum) {
			t.Errorf("cut at %d: %v", i, err)
		}
	}
	other := seal(nil, 9, []byte("key"), func(b []byte) []byte { return b })
	if _, err := decodeState([]byte("key"), other); !errors.Is(err, errRecord) {
		t.Errorf("unknown format: %v", err)
	}
}

func TestValueCodecProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		v := drawValue.Draw(rt, "value")
		b := appendValue(nil, v)
		r := reader{b: b}
		if got := r.value(0); r.err != nil || !same(got, v) || len(r.b) != 0 {
			rt.Fatalf("%#v: got %#v, %v, %d bytes left", v, got, r.err, len(r.b))
		}
	})
}

// FuzzRecord feeds the decoder with bodies whose checksum is right: it must
// not panic, and what it accepts it must write the same way again.
func FuzzRecord(f *testing.F) {
	for _, v := range []any{nil, true, int64(-1), 1.5, "text", []byte("bytes"), []any{int64(1), "a"}, map[string]any{"a": []any{nil}}} {
		s := state{value: v, version: 1, at: 2, writer: "w"}
		f.Add(s.encode([]byte("k"))[sealBytes:])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		rec := seal(nil, formatValue, []byte("k"), func(b []byte) []byte { return append(b, body...) })
		s, err := decodeState([]byte("k"), rec)
		if err != nil {
			if !errors.Is(err, errRecord) {
				t.Fatalf("error %v is no errRecord", err)
			}
			return
		}
		again, err := decodeState([]byte("k"), s.encode([]byte("k")))
		if err != nil || !reflect.DeepEqual(appendValue(nil, again.value), appendValue(nil, s.value)) || again.version != s.version {
			t.Fatalf("read %+v, written and read again %+v, %v", s, again, err)
		}
	})
}

// FuzzWalk feeds the reader of files with anything: it must return.
func FuzzWalk(f *testing.F) {
	d := open(f, file(f))
	for _, k := range []string{"a", "b", "c"} {
		set(f, d, k, k, SetOptions{Mode: Sync})
	}
	b, err := os.ReadFile(d.opt.Path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b[:8*pageSize])
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, _ = walk(bytes.NewReader(b), int64(len(b)), func(string, []byte, []byte) error { return nil })
	})
}
