package blackboard

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"edged/bus"
)

// flip changes a bit in every place where the file holds the text.
func flip(t *testing.T, path, text string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wrong := []byte(text)
	wrong[0] ^= 1
	if !bytes.Contains(b, []byte(text)) {
		t.Fatalf("%s does not hold %q", path, text)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(b, []byte(text), wrong), 0o600); err != nil {
		t.Fatal(err)
	}
}

// spoilt is a file with a damaged key, a damaged record and whole ones.
func spoiltFile(t *testing.T) Options {
	t.Helper()
	o := file(t)
	d, err := Open(bus.New(bus.Options{}), o)
	if err != nil {
		t.Fatal(err)
	}
	set(t, d, "count", map[string]any{"n": "forty-two"})
	set(t, d, "whole", "as it was")
	if err := d.Records("stop").Put(ctx, "latch", []byte("the button"), true); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	flip(t, o.Path, "forty-two")
	flip(t, o.Path, "the button")
	return o
}

// again opens the file as the next process would.
func again(t *testing.T, d *Board) *Board {
	t.Helper()
	o := d.opt
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, o)
}

// A value that is not what was written is not absent: who reads it, adds to it
// or compares it gets an error with the key's name, over any number of
// restarts, until the key is written anew.
func TestDamagedKeyIsNotAbsent(t *testing.T) {
	d := open(t, spoiltFile(t))
	for range 3 {
		err := d.Damaged("count")
		if !errors.Is(err, ErrChecksum) || !strings.Contains(err.Error(), "count") || !strings.Contains(err.Error(), ".corrupt-") {
			t.Fatalf("damage of the key: %v", err)
		}
		if _, ok := d.Get("count"); ok {
			t.Error("a damaged value is given out")
		}
		if got := d.Keys(""); !slices.Equal(got, []string{"count", "whole"}) {
			t.Errorf("keys %q; want the damaged one among them", got)
		}
		if _, err := d.Incr(ctx, "test", "count", 1); !errors.Is(err, ErrChecksum) {
			t.Errorf("incr counts on from nothing: %v", err)
		}
		none := uint64(0)
		if ok, err := d.CAS(ctx, "test", "count", Compare{Version: &none}, 1); ok || !errors.Is(err, ErrChecksum) {
			t.Errorf("cas takes it for absent: %v, %v", ok, err)
		}
		err = d.Transact(ctx, "test", func(tx *Tx) error { tx.Get("count"); return tx.Set("whole", "lost", SetOptions{}) })
		if !errors.Is(err, ErrChecksum) {
			t.Errorf("transact takes it for absent: %v", err)
		}
		want(t, d, "whole", "as it was")
		if err := d.Damaged("whole"); err != nil {
			t.Errorf("a whole key: %v", err)
		}
		if st := d.Status(); st.Mode != "damaged" || len(st.Damages) != 2 || st.Damages[0].Key != "count" || st.Damages[1].What != "record latch of stop" {
			t.Errorf("status: %s, %+v", st.Mode, st.Damages)
		}
		if err := d.Records("stop").Damaged("latch"); !errors.Is(err, ErrChecksum) {
			t.Errorf("damage of a record: %v", err)
		}
		d = again(t, d)
	}
	if copies, _ := filepath.Glob(d.opt.Path + ".corrupt-*"); len(copies) != 1 {
		t.Errorf("%d copies of the damaged file, want one", len(copies))
	}
	set(t, d, "count", 1)
	if err := d.Records("stop").Put(ctx, "latch", []byte("anew"), true); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := errors.Join(d.Damaged("count"), d.Records("stop").Damaged("latch")); err != nil {
			t.Errorf("written anew: %v", err)
		}
		want(t, d, "count", int64(1))
		if st := d.Status(); st.Mode != "ok" || len(st.Damages) != 0 {
			t.Errorf("status: %s, %+v", st.Mode, st.Damages)
		}
		d = again(t, d)
	}
}

// Deleting a damaged key is how one says that its value isn't needed.
func TestDeleteDamagedKey(t *testing.T) {
	d := open(t, spoiltFile(t))
	if had, err := d.Delete(ctx, "test", "count"); !had || err != nil {
		t.Errorf("deleted: %v, %v", had, err)
	}
	if err := d.Records("stop").Delete(ctx, "latch"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := errors.Join(d.Damaged("count"), d.Records("stop").Damaged("latch")); err != nil {
			t.Error(err)
		}
		if n, err := d.Incr(ctx, "test", "count", 1); err != nil || n == int64(0) {
			t.Errorf("incr gives %v, %v", n, err)
		}
		d = again(t, d)
	}
}

// A file that was moved aside is told by the status, not by the event alone.
func TestQuarantineIsTold(t *testing.T) {
	o := file(t)
	d, err := Open(bus.New(bus.Options{}), o)
	if err != nil {
		t.Fatal(err)
	}
	set(t, d, "k", 1)
	_ = d.Close()
	if err := os.WriteFile(o.Path, bytes.Repeat([]byte("noise"), 5000), 0o600); err != nil {
		t.Fatal(err)
	}
	d = open(t, o)
	st := d.Status()
	if st.Mode != "damaged" || len(st.Damages) != 1 || !strings.Contains(st.Damages[0].Copy, ".corrupt-") || !strings.Contains(st.Damages[0].Error, "snapshot-1 was taken") {
		t.Errorf("status: %s, %+v", st.Mode, st.Damages)
	}
}

// What opening finds is told when there is somebody to hear it.
func TestHold(t *testing.T) {
	o := spoiltFile(t)
	o.Hold = true
	hub := bus.New(bus.Options{})
	d, err := Open(hub, o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	set(t, d, "k", 1, SetOptions{Mode: Sync}) // a commit publishes what there is, but not that
	heard := listen(t, hub)
	d.Release()
	d.Release()
	if got := heard.topics(); got != "corrupt" {
		t.Errorf("heard %q", got)
	}
	if l, _ := heard.last()["records"].([]any); !slices.Contains(l, any("key count")) {
		t.Errorf("it names %v", heard.last())
	}
}
