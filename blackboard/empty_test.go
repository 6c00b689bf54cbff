package blackboard

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"edged/bus"
)

// withSnapshot makes a board's file and one snapshot of it, and gives the
// snapshot's content.
func withSnapshot(t *testing.T) (o Options, snap []byte) {
	t.Helper()
	o = file(t)
	hub := bus.New(bus.Options{})
	defer hub.Close(ctx)
	d, err := Open(hub, o)
	if err != nil {
		t.Fatal(err)
	}
	set(t, d, "k", "kept", SetOptions{Mode: Sync})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	snap, err = os.ReadFile(o.Path + ".snapshot-1")
	if err != nil {
		t.Fatal(err)
	}
	return o, snap
}

// However little is left of the file and of its snapshots, a board comes out.
func TestLittleIsLeft(t *testing.T) {
	noise := make([]byte, 5000)
	for _, c := range []struct {
		name  string
		main  []byte // nil = missing
		good  int    // which snapshot is good, 0 = none
		aside int    // files kept aside
		event string
		value any
	}{
		{"empty file, good snapshot", []byte{}, 1, 1, "corrupt", "kept"},
		{"missing file, good snapshot", nil, 1, 0, "corrupt", "kept"},
		{"missing file, older snapshot is good", nil, 3, 0, "corrupt", "kept"},
		{"damaged file, older snapshot is good", noise, 2, 1, "corrupt", "kept"},
		{"damaged file, damaged snapshots", noise, 0, 1, "corrupt", nil},
		{"empty file, damaged snapshots", []byte{}, 0, 1, "corrupt", nil},
		{"file without a commit, good snapshot", virgin(), 1, 1, "corrupt", "kept"},
		{"file without a commit, damaged snapshots", virgin(), 0, 0, "", nil},
		{"missing file, damaged snapshots", nil, 0, 0, "corrupt", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, snap := withSnapshot(t)
			_ = os.Remove(o.Path)
			if c.main != nil {
				if err := os.WriteFile(o.Path, c.main, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for i, name := range snapshots(o.Path) {
				text := append([]byte{}, snap...)
				if i+1 != c.good {
					clear(text[2*pageSize:]) // the meta pages are good
				}
				if err := os.WriteFile(name, text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			hub := bus.New(bus.Options{})
			defer hub.Close(ctx)
			ev := listen(t, hub)
			d, err := Open(hub, o)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			if v, _ := d.Get("k"); v != c.value || ev.topics() != c.event {
				t.Errorf("value %v, events %q; want %v, %q", v, ev.topics(), c.value, c.event)
			}
			if kept, _ := filepath.Glob(o.Path + ".corrupt-*"); len(kept) != c.aside {
				t.Errorf("kept aside %q, want %d", kept, c.aside)
			}
			_ = d.Close()
			if d, err = Open(hub, o); err != nil { // nothing was set
				t.Fatal(err)
			}
			defer d.Close()
			if ev.topics() != c.event {
				t.Errorf("opened again: events %q, want %q", ev.topics(), c.event)
			}
			set(t, d, "new", 1, SetOptions{Mode: Sync})
			want(t, reopen(t, d), "new", int64(1))
		})
	}
}

// A file that goes away while it can't be written is made anew from memory,
// whatever snapshots there are: they are older.
func TestFileGoneWhileInTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _ := withSnapshot(t)
		var faults disk
		o.OpenFile = faults.open
		hub := bus.New(bus.Options{})
		d, err := Open(hub, o)
		if err != nil {
			t.Fatal(err)
		}
		set(t, d, "k", "newer", SetOptions{Mode: Sync})
		spoil(d)
		faults.set(syscall.EROFS, false)
		if _, err := d.Set(ctx, "test", "k", "refused", SetOptions{Mode: Sync}); !errors.Is(err, ErrReadOnly) {
			t.Fatal(err)
		}
		if err := os.Remove(o.Path); err != nil {
			t.Fatal(err)
		}
		faults.set(nil, false)
		time.Sleep(2 * maxPause)
		synctest.Wait()
		set(t, d, "new", 1, SetOptions{Mode: Sync})
		r := reopen(t, d)
		want(t, r, "k", "newer")
		want(t, r, "new", int64(1))
		_ = d.Close()
		_ = hub.Close(ctx)
	})
}
