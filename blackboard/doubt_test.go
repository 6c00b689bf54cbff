package blackboard

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"

	"edged/bus"
)

// A commit that failed may have reached the disk all the same. What it wrote
// was refused, so the file must go back to what memory has: of every record,
// not only of those that change next, and even if the way there fails again.
func TestRefusedThoughOnDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := file(t)
		var faults disk
		o.OpenFile = faults.open
		hub := bus.New(bus.Options{})
		d, err := Open(hub, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Declare("h", Rule{History: 3}); err != nil {
			t.Fatal(err)
		}
		j, err := d.Journal("log", JournalOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range []string{"a", "b", "h"} {
			set(t, d, k, "before", SetOptions{Mode: Sync})
		}
		id, err := j.Append([]byte("before"))
		if err != nil {
			t.Fatal(err)
		}
		spoil(d)
		faults.set(syscall.EIO, false)
		refused := map[string]any{"a": "after", "b": "after", "c": "after", "h": "after"}
		if err := d.Update(ctx, "test", refused, SetOptions{Mode: Sync}); !errors.Is(err, ErrReadOnly) {
			t.Fatalf("update: %v", err)
		}
		put := func(t *bbolt.Tx, bucket, key string, value []byte) error {
			return t.Bucket([]byte(bucket)).Put([]byte(key), value)
		}
		late, err := bbolt.Open(o.Path, 0o600, nil) // plays the commit that got there
		if err != nil {
			t.Fatal(err)
		}
		err = late.Update(func(tx *bbolt.Tx) error {
			for k, v := range refused {
				s := state{value: v, version: 2, present: true, keep: true, writer: "test"}
				if err := put(tx, bucketValues, k, s.encode([]byte(k))); err != nil {
					return err
				}
			}
			h := historyKey("h", 2)
			s := state{value: "after", version: 2, present: true, keep: true, writer: "test"}
			return put(tx, bucketHistory, h, s.encode([]byte(h)))
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := late.Close(); err != nil {
			t.Fatal(err)
		}
		faults.set(nil, true) // it opens and can't be written
		time.Sleep(2 * maxPause)
		faults.set(nil, false)
		time.Sleep(2 * maxPause)
		synctest.Wait()
		set(t, d, "other", 1, SetOptions{Mode: Sync})
		r := reopen(t, d)
		for _, k := range []string{"a", "b", "h"} {
			want(t, r, k, "before")
		}
		wantAbsent(t, r, "c")
		_ = r.Declare("h", Rule{History: 3})
		if h := r.History("h", 9); len(h) != 1 || h[0].Value != "before" {
			t.Errorf("history %v", h)
		}
		if j, err = r.Journal("log", JournalOptions{}); err != nil || j.Len() != 1 {
			t.Errorf("journal: %v, %d records", err, j.Len())
		}
		for got := range j.All() {
			if got != id {
				t.Errorf("record %d, want %d", got, id)
			}
		}
		_ = d.Close()
		_ = hub.Close(ctx)
	})
}
