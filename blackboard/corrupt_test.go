package blackboard

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"edged/bus"
)

// sample makes a file with all that a file can hold, in several commits, and
// gives what the newest snapshot and the file itself must read as.
func sample(t testing.TB) (path string, old, now map[string]any) {
	t.Helper()
	o := file(t)
	hub := bus.New(bus.Options{})
	d, err := Open(hub, o)
	if err != nil {
		t.Fatal(err)
	}
	_ = d.Declare("h*", Rule{History: 4})
	j, _ := d.Journal("outbox", JournalOptions{Mode: Group})
	fill := func(round int) map[string]any {
		for i := range 150 {
			set(t, d, fmt.Sprint("key", i), fmt.Sprint("round ", round, strings.Repeat(" value", i%40)))
			set(t, d, fmt.Sprint("h", i%7), map[string]any{"i": i, "l": []any{1.5, nil, true, []byte("bytes")}})
			_, _ = j.Append([]byte("message"))
			if i%30 == 0 {
				if err := d.Flush(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
		set(t, d, "large", strings.Repeat(fmt.Sprint(round), 30_000))
		post(t, d, "plan", "task", PostOptions{Durable: true})
		if err := d.Records("latch").Put(ctx, "stop", []byte("x"), true); err != nil {
			t.Fatal(err)
		}
		return d.Snapshot("")
	}
	old = fill(1)
	if err := d.Close(); err != nil { // takes a snapshot
		t.Fatal(err)
	}
	if d, err = Open(hub, o); err != nil {
		t.Fatal(err)
	}
	_ = d.Declare("h*", Rule{History: 4})
	if j, err = d.Journal("outbox", JournalOptions{}); err != nil {
		t.Fatal(err)
	}
	j, _ = d.Journal("outbox", JournalOptions{Mode: Group})
	now = fill(2)
	if err := copyFile(o.Path, o.Path+".whole"); err != nil {
		t.Fatal(err)
	}
	if err := copyFile(o.Path+".snapshot-1", o.Path+".good"); err != nil {
		t.Fatal(err)
	}
	_ = d.Close()
	_ = hub.Close(ctx)
	return o.Path, old, now
}

// damages are the ways in which a file can be ruined.
var damages = []struct {
	name  string
	times int
	ruin  func(r *rand.Rand, b []byte) []byte
}{
	{"cut", 70, func(r *rand.Rand, b []byte) []byte { return b[:r.IntN(len(b))] }},
	{"cut at a page", 20, func(r *rand.Rand, b []byte) []byte { return b[:r.IntN(len(b)/pageSize)*pageSize] }},
	{"zeroed page", 70, func(r *rand.Rand, b []byte) []byte { clear(page(r, b)); return b }},
	{"random page", 70, func(r *rand.Rand, b []byte) []byte {
		p := page(r, b)
		for i := range p {
			p[i] = byte(r.Uint32())
		}
		return b
	}},
	{"one bit", 100, func(r *rand.Rand, b []byte) []byte { b[r.IntN(len(b))] ^= 1 << r.IntN(8); return b }},
	{"one bit of a page's head", 60, func(r *rand.Rand, b []byte) []byte { page(r, b)[r.IntN(64)] ^= 1 << r.IntN(8); return b }},
	{"page over another", 40, func(r *rand.Rand, b []byte) []byte { copy(page(r, b), page(r, b)); return b }},
	{"torn meta", 10, func(r *rand.Rand, b []byte) []byte { b[r.IntN(2)*pageSize+16+r.IntN(64)] ^= 0xFF; return b }},
	{"both metas", 5, func(r *rand.Rand, b []byte) []byte { clear(b[:2*pageSize]); return b }},
	{"noise", 5, func(r *rand.Rand, b []byte) []byte {
		b = make([]byte, r.IntN(100_000))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}},
}

func page(r *rand.Rand, b []byte) []byte {
	i := r.IntN(len(b)/pageSize) * pageSize
	return b[i : i+pageSize]
}

// However a file is ruined: the process lives, the board opens in time, and
// what it reads is what was written, or it says that it isn't.
func TestDamagedFiles(t *testing.T) {
	path, old, now := sample(t)
	whole, err := os.ReadFile(path + ".whole")
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	total, aside, marked := 0, 0, 0
	for _, dm := range damages {
		for i := range dm.times {
			total++
			dir := t.TempDir()
			name := filepath.Join(dir, "b.db")
			ruined := dm.ruin(r, bytes.Clone(whole))
			if err := os.WriteFile(name, ruined, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Link(path+".good", name+".snapshot-1"); err != nil {
				t.Fatal(err)
			}
			moved, bad := openDamaged(t, fmt.Sprint(dm.name, " ", i), name, ruined, old, now)
			aside += moved
			marked += bad
		}
	}
	if total < 300 || aside < 100 || marked == 0 {
		t.Errorf("%d files, %d moved aside, %d with damaged records: the test tests too little", total, aside, marked)
	}
	t.Logf("%d damaged files: %d moved aside, %d opened with records marked, the rest whole", total, aside, marked)
}

func openDamaged(t *testing.T, what, name string, ruined []byte, old, now map[string]any) (moved, marked int) {
	t.Helper()
	hub := bus.New(bus.Options{})
	ev := listen(t, hub)
	begin := time.Now()
	d, err := Open(hub, Options{Path: name})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if took := time.Since(begin); took > 6*time.Second {
		t.Errorf("%s: ready after %v", what, took)
	}
	copies, _ := filepath.Glob(name + ".corrupt-*")
	s := d.Status()
	expect := now
	if s.Corrupt > 0 {
		moved, expect = 1, old
	}
	if s.Corrupt > 0 || s.Checksum > 0 {
		if len(copies) != 1 || !strings.Contains(ev.topics(), "corrupt") {
			t.Fatalf("%s: copies %v, events %q", what, copies, ev.topics())
		}
		if kept, _ := os.ReadFile(copies[0]); s.Corrupt > 0 && !bytes.Equal(kept, ruined) {
			t.Errorf("%s: the damaged file was not kept as it was", what)
		}
	}
	torn := strings.Contains(ev.topics(), "recovered") // the last commit may be gone
	for k, v := range expect {
		got, ok := d.Get(k)
		switch {
		case d.Damaged(k) != nil:
			marked = 1
			if ok || !errors.Is(d.Damaged(k), ErrChecksum) && !errors.Is(d.Damaged(k), errRecord) {
				t.Errorf("%s: %s is damaged (%v) and reads as %v", what, k, d.Damaged(k), got)
			}
		case !reflect.DeepEqual(got, v) && !torn && s.Checksum == 0:
			t.Fatalf("%s: %s reads as %.60v, want %.60v, and nobody says so", what, k, got, v)
		}
	}
	if _, err := d.Set(ctx, "test", "new", 1, SetOptions{Mode: Sync}); err != nil {
		t.Errorf("%s: set afterwards: %v", what, err)
	}
	if err := d.Close(); err != nil {
		t.Errorf("%s: close: %v", what, err)
	}
	_ = hub.Close(ctx)
	if err := checkFile(name); err != nil {
		t.Errorf("%s: the file is not whole afterwards: %v", what, err)
	}
	return moved, marked
}

// Without a snapshot a new file is begun; with damaged snapshots too.
func TestDamagedFileAndSnapshots(t *testing.T) {
	name := filepath.Join(t.TempDir(), "b.db")
	for _, n := range append(snapshots(name), name) {
		if err := os.WriteFile(n, make([]byte, 30_000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := open(t, Options{Path: name})
	if k := d.Keys(""); len(k) != 0 {
		t.Errorf("keys %q", k)
	}
	set(t, d, "k", 1, SetOptions{Mode: Sync})
	want(t, reopen(t, d), "k", int64(1))
}

// The snapshot of a damaged file is not taken: it would push out a good one.
func TestDamagedFileIsNotSnapshot(t *testing.T) {
	path, _, _ := sample(t)
	b, _ := os.ReadFile(path + ".whole")
	b = bytes.ReplaceAll(b, []byte("round 2 value"), []byte("round 3 value"))
	name := filepath.Join(t.TempDir(), "b.db")
	_ = os.WriteFile(name, b, 0o600)
	if err := checkFile(name); !errors.Is(err, ErrChecksum) {
		t.Errorf("check of a flipped bit: %v", err)
	}
}

// A file that is cut while it is in use: a fault in the map is an error.
func TestFileCutWhileInUse(t *testing.T) {
	hub := bus.New(bus.Options{})
	defer hub.Close(ctx)
	o := file(t)
	d, err := Open(hub, o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		set(t, d, fmt.Sprint("k", i), strings.Repeat("x", 200))
	}
	if err := d.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(o.Path, 3*pageSize); err != nil {
		t.Fatal(err)
	}
	set(t, d, "k7", "new", SetOptions{Mode: Sync})
	if s := d.Status(); s.Mode != "damaged" || s.Corrupt != 1 {
		t.Errorf("status %+v", s)
	}
	r := reopen(t, d) // written anew from memory
	want(t, r, "k7", "new")
	want(t, r, "k299", strings.Repeat("x", 200))
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// Files of bbolt as it comes, with a free list, are read too.
func TestWalkReadsWhatBboltWrites(t *testing.T) {
	for _, o := range []bbolt.Options{{}, {NoFreelistSync: true}, {FreelistType: bbolt.FreelistMapType, PageSize: 16384}, {PageSize: 1024}} {
		name := filepath.Join(t.TempDir(), "b.db")
		db, err := bbolt.Open(name, 0o600, &o)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		r := rand.New(rand.NewPCG(3, 4))
		for range 60 {
			err := db.Update(func(tx *bbolt.Tx) error {
				for range 20 {
					b, err := tx.CreateBucketIfNotExists([]byte(fmt.Sprint("b", r.IntN(5))))
					if err != nil {
						return err
					}
					k := fmt.Sprint(r.IntN(300))
					if r.IntN(3) == 0 {
						delete(want, "b "+k)
						for i := range 5 {
							if b := tx.Bucket([]byte(fmt.Sprint("b", i))); b != nil {
								_ = b.Delete([]byte(k))
								delete(want, fmt.Sprint("b", i, " ", k))
							}
						}
						continue
					}
					v := strings.Repeat("v", r.IntN(3000))
					if err := b.Put([]byte(k), []byte(v)); err != nil {
						return err
					}
					_ = b.ForEach(func(k, v []byte) error { return nil })
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		clear(want)
		_ = db.View(func(tx *bbolt.Tx) error {
			return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
				return b.ForEach(func(k, v []byte) error { want[string(name)+" "+string(k)] = string(v); return nil })
			})
		})
		_ = db.Close()
		got := map[string]string{}
		f, _ := os.Open(name)
		fi, _ := f.Stat()
		_, torn, err := walk(f, fi.Size(), func(b string, k, v []byte) error { got[b+" "+string(k)] = string(v); return nil })
		f.Close()
		if err != nil || torn || !reflect.DeepEqual(got, want) || len(want) < 100 {
			t.Errorf("%+v: %v torn %v, %d of %d records", o, err, torn, len(got), len(want))
		}
	}
}
