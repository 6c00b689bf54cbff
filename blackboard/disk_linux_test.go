package blackboard

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"edged/bus"
	"edged/tests/peer"
)

// Any other error of a commit: the handle is closed, the file opened again and
// checked, and the commit repeated; if that fails too, it is read-only until
// a later try works. Nothing acknowledged is lost, nothing refused is kept.
func TestCommitError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := file(t)
		var faults disk
		o.OpenFile = faults.open
		hub := bus.New(bus.Options{})
		ev := listen(t, hub)
		d, err := Open(hub, o)
		if err != nil {
			t.Fatal(err)
		}
		set(t, d, "acked", 1, SetOptions{Mode: Sync})
		spoil(d)
		set(t, d, "acked2", 1, SetOptions{Mode: Sync}) // healed behind the scenes
		if ev.topics() != "recovered" || d.Status().Failed != 1 {
			t.Errorf("events %q, status %+v", ev.topics(), d.Status())
		}
		set(t, d, "group", 1)
		spoil(d)
		faults.set(nil, true)
		if _, err := d.Set(ctx, "test", "refused", 1, SetOptions{Mode: Sync}); !errors.Is(err, ErrReadOnly) {
			t.Errorf("got %v", err)
		}
		wantAbsent(t, d, "refused")
		want(t, d, "group", int64(1))
		if _, err := d.Set(ctx, "test", "group", 2, SetOptions{}); !errors.Is(err, ErrReadOnly) {
			t.Errorf("group set in trouble: %v", err)
		}
		if s := d.Status(); s.Mode != "readonly" || s.Dirty != 1 {
			t.Errorf("status %+v", s)
		}
		time.Sleep(time.Minute)
		faults.set(nil, false)
		time.Sleep(2 * maxPause)
		synctest.Wait()
		if s := d.Status(); s.Mode != "ok" || s.Dirty != 0 {
			t.Errorf("status %+v, events %q", s, ev.topics())
		}
		r := reopen(t, d)
		want(t, r, "acked", int64(1))
		want(t, r, "acked2", int64(1))
		want(t, r, "group", int64(1))
		wantAbsent(t, r, "refused")
		_ = d.Close()
		_ = hub.Close(ctx)
	})
}

// Whoever hears of a trouble may ask for the disk at once.
func TestNewsAreToldWithoutALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := bus.New(bus.Options{})
		d, err := Open(hub, file(t))
		if err != nil {
			t.Fatal(err)
		}
		heard := 0
		_, _ = hub.Tap("edged/blackboard/#", func(e bus.Event) {
			heard++
			if err := d.Records("log").Put(ctx, e.Topic, []byte("x"), true); err != nil {
				t.Error(err)
			}
		})
		_, _ = hub.Tap("board/#", func(bus.Event) {
			if err := d.Records("log").Put(ctx, "board", []byte("x"), true); err != nil {
				t.Error(err)
			}
		})
		spoil(d)
		set(t, d, "k", 1, SetOptions{Mode: Sync})
		if heard != 1 {
			t.Errorf("%d news, want 1", heard)
		}
		_ = d.Close()
		_ = hub.Close(ctx)
	})
}

// spoil makes the next write of the board's file fail: its descriptor is
// replaced by one that can't write. The lock goes with the old one.
func spoil(d *Board) {
	d.commits.running.Lock()
	defer d.commits.running.Unlock()
	null, err := os.Open(d.opt.Path)
	if err != nil {
		panic(err)
	}
	defer null.Close()
	if err := syscall.Dup3(int(null.Fd()), int(d.store.file.Fd()), 0); err != nil {
		panic(err)
	}
}

func TestMaxSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := file(t)
		o.MaxSize = 256 << 10
		hub := bus.New(bus.Options{})
		ev := listen(t, hub)
		d, err := Open(hub, o)
		if err != nil {
			t.Fatal(err)
		}
		fillUp(t, d, ev)
		_ = d.Close()
		_ = hub.Close(ctx)
	})
}

// fillUp fills a small disk and empties it again.
func fillUp(t *testing.T, d *Board, ev *events) {
	t.Helper()
	big := strings.Repeat("x", 1<<10)
	var acked []string
	var err error
	for i := range 2000 {
		k := fmt.Sprint("big", i)
		if _, err = d.Set(ctx, "test", k, big, SetOptions{Mode: Sync}); err != nil {
			wantAbsent(t, d, k)
			break
		}
		acked = append(acked, k)
	}
	if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), d.opt.Path) {
		t.Fatalf("after %d sets: got %v, want ErrFull with the file's name", len(acked), err)
	}
	if s := d.Status(); s.Mode != "full" || ev.topics() != "full" || ev.last()["remedy"] == "" {
		t.Errorf("status %+v, events %q", s, ev.topics())
	}
	if _, err := d.Set(ctx, "test", "g", big, SetOptions{}); !errors.Is(err, ErrFull) {
		t.Errorf("group set on a full disk: %v", err)
	}
	set(t, d, "m", 1, SetOptions{Mode: Memory})
	for i, k := range acked {
		if i%2 == 0 {
			continue
		}
		if _, err := d.Delete(ctx, "test", k); err != nil {
			t.Fatalf("delete on a full disk: %v", err)
		}
	}
	time.Sleep(2 * maxPause)
	synctest.Wait()
	if s := d.Status(); s.Mode != "ok" || !strings.HasPrefix(ev.topics(), "full recovered") {
		t.Errorf("status %+v, events %q", s, ev.topics())
	}
	set(t, d, "after", 1, SetOptions{Mode: Sync})
	r := reopen(t, d)
	want(t, r, "after", int64(1))
	for i, k := range acked {
		if r.Has(k) != (i%2 == 0) {
			t.Errorf("%s: in the file %v", k, r.Has(k))
		}
	}
}

// smallDisk mounts a disk that is full soon.
func smallDisk(t *testing.T, size string) (dir string) {
	t.Helper()
	peer.Root(t, "a disk of "+size)
	dir = t.TempDir()
	if err := syscall.Mount("edged-test", dir, "tmpfs", 0, "size="+size+",mode=0700"); err != nil {
		peer.Missing(t, fmt.Sprintf("to mount a tmpfs: %v", err))
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

func TestFullDisk(t *testing.T) {
	dir := smallDisk(t, "1m")
	synctest.Test(t, func(t *testing.T) {
		hub := bus.New(bus.Options{})
		ev := listen(t, hub)
		d, err := Open(hub, Options{Path: filepath.Join(dir, "b.db")})
		if err != nil {
			t.Fatal(err)
		}
		fillUp(t, d, ev)
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		_ = hub.Close(ctx)
	})
}

// A disk that is full from the beginning, and has room later.
func TestFullDiskAtStart(t *testing.T) {
	dir := smallDisk(t, "64k")
	ballast := filepath.Join(dir, "ballast")
	_ = os.WriteFile(ballast, make([]byte, 64<<10), 0o600)
	synctest.Test(t, func(t *testing.T) {
		hub := bus.New(bus.Options{})
		ev := listen(t, hub)
		d, err := Open(hub, Options{Path: filepath.Join(dir, "b.db")})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Set(ctx, "test", "k", 1, SetOptions{}); !errors.Is(err, ErrFull) {
			t.Errorf("got %v", err)
		}
		set(t, d, "m", 1, SetOptions{Mode: Memory})
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * maxPause)
		synctest.Wait()
		set(t, d, "k", 1, SetOptions{Mode: Sync})
		if ev.topics() != "full recovered" {
			t.Errorf("events %q", ev.topics())
		}
		_ = d.Close()
		_ = hub.Close(ctx)
	})
}
