package blackboard

import (
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// TestLifeOverYears: a clock that was not set, and jumps by years while the
// robot is off, ends no key's life and no durable request; one that was set for
// hours does.
func TestLifeOverYears(t *testing.T) {
	for off, there := range map[time.Duration]bool{26 * 365 * 24 * time.Hour: true, 2 * time.Hour: false, 30 * time.Minute: true} {
		t.Run(fmt.Sprint(off), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := open(t, file(t))
				set(t, d, "k", 1, SetOptions{TTL: time.Hour, Mode: Sync})
				if _, err := d.Post(ctx, "test", "job", 1, PostOptions{Durable: true, Timeout: time.Hour}); err != nil {
					t.Fatal(err)
				}
				killed := filepath.Join(t.TempDir(), "copy.db")
				if err := copyFile(d.opt.Path, killed); err != nil {
					t.Fatal(err)
				}
				time.Sleep(off)
				again := open(t, Options{Path: killed})
				time.Sleep(10 * time.Millisecond)
				synctest.Wait()
				if again.Has("k") != there || (len(again.Pending("job")) == 1) != there {
					t.Errorf("the key is there: %v, %d requests wait; want %v", again.Has("k"), len(again.Pending("job")), there)
				}
				left := time.Hour - off
				if left < 0 {
					left = time.Hour // nothing was taken off
				}
				time.Sleep(left + time.Second)
				synctest.Wait()
				if again.Has("k") || len(again.Pending("job")) != 0 {
					t.Errorf("after its time the key is there: %v, %d requests wait", again.Has("k"), len(again.Pending("job")))
				}
			})
		})
	}
}

// Incr keeps what is left of a key's life, and makes it no longer.
func TestIncrKeepsTheLife(t *testing.T) {
	for _, mode := range []Mode{Group, Sync} {
		synctest.Test(t, func(t *testing.T) {
			d := open(t, file(t))
			set(t, d, "n", 1, SetOptions{TTL: time.Hour, Mode: mode})
			for range 3 {
				time.Sleep(15 * time.Minute)
				if _, err := d.Incr(ctx, "test", "n", int64(1)); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(14 * time.Minute)
			want(t, d, "n", int64(4))
			time.Sleep(time.Minute + time.Second)
			synctest.Wait()
			wantAbsent(t, d, "n")
		})
	}
}
