package mqtt

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// slow is an outbox behind a spool, in memory, that may fail.
type slow struct {
	last uint64
	ids  []uint64
	recs map[uint64][]byte
	fail bool
}

var errFull = errors.New("disk full")

func (s *slow) AppendAll(recs ...[]byte) ([]uint64, error) {
	if s.fail {
		return nil, errFull
	}
	var ids []uint64
	for _, r := range recs {
		s.last++
		s.ids, s.recs[s.last], ids = append(s.ids, s.last), slices.Clone(r), append(ids, s.last)
	}
	return ids, nil
}
func (s *slow) Append(r []byte) (uint64, error) {
	ids, err := s.AppendAll(r)
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}
func (s *slow) Remove(ids ...uint64) error {
	for _, id := range ids {
		delete(s.recs, id)
	}
	return nil
}
func (s *slow) All() iter.Seq2[uint64, []byte] {
	return func(yield func(uint64, []byte) bool) {
		for _, id := range s.ids {
			if r, ok := s.recs[id]; ok && !yield(id, r) {
				return
			}
		}
	}
}
func (s *slow) Len() int     { return len(s.recs) }
func (s *slow) Bytes() int64 { return 0 }

// The spool against a plain list, with kills (the file is opened again as it
// is), failures behind, and a file that is written anew.
func TestSpool(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		path := filepath.Join(dir, fmt.Sprint(n))
		back := &slow{recs: map[uint64][]byte{}}
		s, err := OpenSpool(path, back)
		if err != nil {
			t.Fatal(err)
		}
		s.rewrite = 200
		now := time.Now()
		var want []uint64
		text := map[uint64]string{}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				rec := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "rec")
				id, err := s.Append(rec)
				if err != nil {
					t.Fatal(err)
				}
				want, text[id] = append(want, id), string(rec)
			},
			"remove": func(t *rapid.T) {
				if len(want) == 0 {
					return
				}
				i := rapid.IntRange(0, len(want)-1).Draw(t, "i")
				if err := s.Remove(want[i], 999_999); err != nil {
					t.Fatal(err)
				}
				want = slices.Delete(want, i, i+1)
			},
			"settle": func(t *rapid.T) {
				now = now.Add(time.Hour)
				if err := s.Settle(now); (err != nil) != (back.fail && err != nil) {
					t.Fatal(err)
				}
			},
			"fail": func(t *rapid.T) { back.fail = !back.fail },
			"kill": func(t *rapid.T) {
				old := s
				if s, err = OpenSpool(path, back); err != nil {
					t.Fatal(err)
				}
				s.rewrite = 200
				_ = old.Close()
			},
			"": func(t *rapid.T) {
				var got []uint64
				size := int64(0)
				for id, rec := range s.All() {
					got = append(got, id)
					size += int64(len(rec))
					if string(rec) != text[id] {
						t.Fatalf("record %d: got %q, want %q", id, rec, text[id])
					}
				}
				if !slices.Equal(got, want) || s.Len() != len(want) || s.Bytes() != size {
					t.Fatalf("got %v, %d, %d bytes, want %v, %d bytes", got, s.Len(), s.Bytes(), want, size)
				}
			},
		})
		_ = s.Close()
	})
}

// What is removed while it is being moved is not there afterwards.
type racing struct {
	slow
	during func()
}

func (r *racing) AppendAll(recs ...[]byte) ([]uint64, error) {
	ids, err := r.slow.AppendAll(recs...)
	r.during()
	return ids, err
}

func TestSpoolRemoveWhileMoving(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	back := &racing{slow: slow{recs: map[uint64][]byte{}}}
	s, err := OpenSpool(path, back)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := s.Append([]byte("a"))
	b, _ := s.Append([]byte("b"))
	back.during = func() {
		if err := s.Remove(a); err != nil {
			t.Error(err)
		}
	}
	if err := s.Settle(time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if s.Len() != 1 || back.Len() != 1 || s.Bytes() != 1 {
		t.Errorf("got %d, %d behind, %d bytes, want 1 each", s.Len(), back.Len(), s.Bytes())
	}
	if err := s.Remove(b); err != nil || s.Len() != 0 || back.Len() != 0 || s.Bytes() != 0 {
		t.Errorf("got %v, %d, %d", err, s.Len(), back.Len())
	}
	if st, err := os.Stat(path); err != nil || st.Size() != 0 {
		t.Errorf("the file has %d bytes, want none", st.Size())
	}
	_ = s.Close()
}

// A damaged or cut file gives what was whole.
func TestSpoolDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	var b []byte
	for i := range uint64(5) {
		b = appendFrame(b, i+1, []byte("rec"), false)
	}
	for cut := range len(b) {
		if err := os.WriteFile(path, b[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := OpenSpool(path, NewMemory())
		if err != nil {
			t.Fatal(err)
		}
		if got, want := s.Len(), cut/(spoolFrame+3); got != want {
			t.Errorf("cut at %d: got %d, want %d", cut, got, want)
		}
		_ = s.Close()
	}
	for i := range b {
		bad := slices.Clone(b)
		bad[i] ^= 0x55
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := OpenSpool(path, NewMemory())
		if err != nil {
			t.Fatal(err)
		}
		if got, want := s.Len(), i/(spoolFrame+3); got > want+1 {
			t.Errorf("damaged at %d: got %d, want at most %d", i, got, want+1)
		}
		_ = s.Close()
	}
}
