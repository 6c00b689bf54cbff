package blackboard

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"edged/bus"
)

func TestVirginIsWhatBboltMakes(t *testing.T) {
	name := filepath.Join(t.TempDir(), "b.db")
	db, err := bbolt.Open(name, 0o600, &bbolt.Options{PageSize: pageSize, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(name); err != nil || !bytes.Equal(b, virgin()) {
		t.Errorf("%d bytes, %v: not what was expected", len(b), err)
	}
}

// A file whose making was cut short is begun again and nobody is alarmed; any
// other file of that size is damage.
func TestUnfinishedFile(t *testing.T) {
	for _, c := range []struct {
		name  string
		ruin  func(b []byte) []byte
		event string
	}{
		{"all of it", func(b []byte) []byte { return b }, ""},
		{"cut", func(b []byte) []byte { return b[:15_360] }, ""},
		{"cut in the first page", func(b []byte) []byte { return b[:700] }, ""},
		{"first page missing", func(b []byte) []byte { clear(b[:pageSize]); return b }, ""},
		{"only the last page", func(b []byte) []byte { clear(b[:3*pageSize]); return b }, ""},
		{"zeros", func(b []byte) []byte { clear(b); return b }, "corrupt"},
		{"both meta pages", func(b []byte) []byte { b[20], b[pageSize+20] = 1, 1; return b }, "corrupt"},
		{"text", func([]byte) []byte { return []byte("not a database") }, "corrupt"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{Path: filepath.Join(t.TempDir(), "b.db")}
			if err := os.WriteFile(o.Path, c.ruin(virgin()), 0o600); err != nil {
				t.Fatal(err)
			}
			hub := bus.New(bus.Options{})
			defer hub.Close(ctx)
			ev := listen(t, hub)
			d, err := Open(hub, o)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			kept, _ := filepath.Glob(o.Path + ".corrupt-*")
			if ev.topics() != c.event || len(kept) != len(c.event)/len("corrupt") {
				t.Errorf("events %q, kept aside %q; want %q", ev.topics(), kept, c.event)
			}
			set(t, d, "k", 1, SetOptions{Mode: Sync})
			want(t, reopen(t, d), "k", int64(1))
		})
	}
}
