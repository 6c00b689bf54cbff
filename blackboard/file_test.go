package blackboard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"edged/bus"
)

// events collects what the board says about itself.
type events struct {
	mu  sync.Mutex
	got []bus.Event
}

func listen(t testing.TB, hub *bus.Bus) *events {
	t.Helper()
	ev := &events{}
	_, err := hub.Tap("edged/blackboard/#", func(e bus.Event) {
		ev.mu.Lock()
		ev.got = append(ev.got, e)
		ev.mu.Unlock()
	})
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

func (ev *events) topics() string {
	ev.mu.Lock()
	defer ev.mu.Unlock()
	var s []string
	for _, e := range ev.got {
		s = append(s, strings.TrimPrefix(e.Topic, "edged/blackboard/"))
	}
	return strings.Join(s, " ")
}

func (ev *events) last() map[string]any {
	ev.mu.Lock()
	defer ev.mu.Unlock()
	return ev.got[len(ev.got)-1].Payload().(map[string]any)
}

func TestPermissions(t *testing.T) {
	o := file(t)
	d := open(t, o)
	set(t, d, "k", 1, SetOptions{Mode: Sync})
	d.takeSnapshot()
	if err := d.Backup(ctx, o.Path+".backup"); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]fs.FileMode{
		filepath.Dir(o.Path): 0o700 | fs.ModeDir, o.Path: 0o600, o.Path + ".snapshot-1": 0o600, o.Path + ".backup": 0o600,
	} {
		fi, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if fi.Mode() != mode {
			t.Errorf("%s: %v, want %v", name, fi.Mode(), mode)
		}
	}
}

func TestSecondOpener(t *testing.T) {
	o := file(t)
	o.LockTimeout = 10 * time.Millisecond
	open(t, o)
	hub := bus.New(bus.Options{})
	defer hub.Close(ctx)
	_, err := Open(hub, o)
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), o.Path) || !strings.Contains(err.Error(), "stop the other") {
		t.Errorf("got %v, want an error that names the file and the remedy", err)
	}
}

// disk is a file opener whose faults can be switched.
type disk struct {
	mu   sync.Mutex
	fail error // of opening for writing
	dead bool  // of opening at all
	mute bool  // opened for reading only: every write is an error
}

func (d *disk) open(name string, flag int, perm fs.FileMode) (*os.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail != nil && (d.dead || flag&os.O_RDWR != 0) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: d.fail}
	}
	if d.mute {
		flag &^= os.O_RDWR
	}
	return os.OpenFile(name, flag, perm)
}

func (d *disk) set(fail error, mute bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail, d.mute = fail, mute
}

func TestReadOnlyMedium(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := file(t)
		hub := bus.New(bus.Options{})
		ev := listen(t, hub)
		d, err := Open(hub, o)
		if err != nil {
			t.Fatal(err)
		}
		set(t, d, "old", 1)
		_ = d.Close()

		var faults disk
		faults.set(syscall.EROFS, false)
		o.OpenFile = faults.open
		d, err = Open(hub, o)
		if err != nil {
			t.Fatal("a read-only medium is no reason not to start:", err)
		}
		want(t, d, "old", int64(1))
		for _, m := range []Mode{Group, Sync} {
			_, err := d.Set(ctx, "test", "k", 1, SetOptions{Mode: m})
			var se *StoreError
			if !errors.Is(err, ErrReadOnly) || !errors.As(err, &se) || se.Path != o.Path || se.Remedy == "" || !errors.Is(err, syscall.EROFS) {
				t.Errorf("set %v: got %v", m, err)
			}
		}
		wantAbsent(t, d, "k")
		set(t, d, "m", 1, SetOptions{Mode: Memory})
		want(t, d, "m", int64(1))
		if s := d.Status(); s.Mode != "readonly" || !strings.Contains(s.Trouble, o.Path) || ev.topics() != "readonly" {
			t.Errorf("status %+v, events %q", s, ev.topics())
		}
		faults.set(nil, false)
		time.Sleep(2 * maxPause)
		synctest.Wait()
		set(t, d, "k", 2, SetOptions{Mode: Sync})
		if s := d.Status(); s.Mode != "ok" || ev.topics() != "readonly recovered" {
			t.Errorf("status %+v, events %q", s, ev.topics())
		}
		want(t, reopen(t, d), "old", int64(1))
		_ = d.Close()
		_ = hub.Close(ctx)
	})
}

func TestSnapshotsRoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := file(t)
		d := open(t, o)
		set(t, d, "n", 0)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		for i := 1; i <= 4; i++ {
			set(t, d, "n", i)
			time.Sleep(2 * time.Hour)
			synctest.Wait()
		}
		for i, name := range snapshots(o.Path) {
			s := open(t, Options{Path: copyOf(t, name)})
			want(t, s, "n", int64(4-i))
		}
		n := d.Status().Snapshots
		time.Sleep(24 * time.Hour)
		if m := d.Status().Snapshots; m != n || n != 5 {
			t.Errorf("%d snapshots, then %d though nothing changed; want 5", n, m)
		}
	})
}

func copyOf(t testing.TB, name string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy.db")
	if err := copyFile(name, to); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestBackupRestore(t *testing.T) {
	o := file(t)
	hub := bus.New(bus.Options{})
	defer hub.Close(ctx)
	d, err := Open(hub, o)
	if err != nil {
		t.Fatal(err)
	}
	set(t, d, "k", "before")
	save := filepath.Join(t.TempDir(), "save.db")
	if err := d.Backup(ctx, save); err != nil {
		t.Fatal(err)
	}
	set(t, d, "k", "after")
	if err := Restore(save, o.Path); !errors.Is(err, ErrLocked) {
		t.Errorf("restore over an open file: %v", err)
	}
	_ = d.Close()
	bad := filepath.Join(t.TempDir(), "bad.db")
	_ = os.WriteFile(bad, make([]byte, 20000), 0o600)
	if err := Restore(bad, o.Path); err == nil {
		t.Error("a damaged backup was taken")
	}
	if err := Restore(save, o.Path); err != nil {
		t.Fatal(err)
	}
	d, err = Open(hub, o)
	if err != nil {
		t.Fatal(err)
	}
	want(t, d, "k", "before")
	_ = d.Close()
	kept, _ := filepath.Glob(o.Path + ".replaced-*")
	if len(kept) != 1 {
		t.Errorf("the replaced file is kept as %v", kept)
	}
	if err := memory(t).Backup(ctx, save); err == nil {
		t.Error("backup of a board in memory")
	}
}

func TestJournal(t *testing.T) {
	o := file(t)
	hub := bus.New(bus.Options{})
	defer hub.Close(ctx)
	d, err := Open(hub, o)
	if err != nil {
		t.Fatal(err)
	}
	j, err := d.Journal("outbox", JournalOptions{Limit: 5, Bytes: 100})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if id, err := j.Append(fmt.Append(nil, "rec", i)); err != nil || id != uint64(i+1) {
			t.Fatal(id, err)
		}
	}
	if _, err := j.Append([]byte("x")); !errors.Is(err, ErrLimit) {
		t.Errorf("sixth: %v", err)
	}
	if err := j.Remove(2, 4, 99); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Append(make([]byte, 100)); !errors.Is(err, ErrLimit) {
		t.Errorf("too many bytes: %v", err)
	}
	if ids, err := j.AppendAll([]byte("a"), []byte("b")); err != nil || !slices.Equal(ids, []uint64{6, 7}) {
		t.Errorf("append all: %v %v", ids, err)
	}
	check := func(j *Journal) {
		t.Helper()
		var got []string
		for id, rec := range j.All() {
			got = append(got, fmt.Sprint(id, string(rec)))
		}
		if s := strings.Join(got, " "); s != "1rec0 3rec2 5rec4 6a 7b" || j.Len() != 5 || j.Bytes() != 14 {
			t.Errorf("journal %q, %d records, %d bytes", s, j.Len(), j.Bytes())
		}
	}
	check(j)
	j, _ = reopen(t, d).Journal("outbox", JournalOptions{})
	check(j)
	_ = d.Close()
	if d, err = Open(hub, o); err != nil {
		t.Fatal(err)
	}
	j, _ = d.Journal("outbox", JournalOptions{Mode: Group})
	check(j)
	if id, err := j.Append([]byte("c")); id != 8 || err != nil {
		t.Errorf("after reopening: %d %v", id, err)
	}
	_ = d.Close()
}

func TestJournalWritersShareCommits(t *testing.T) {
	d := open(t, file(t))
	j, _ := d.Journal("outbox", JournalOptions{})
	var wg sync.WaitGroup
	var last atomic.Uint64
	for range 16 {
		wg.Go(func() {
			for range 20 {
				id, err := j.Append([]byte("x"))
				if err != nil {
					t.Error(err)
				}
				last.Store(max(last.Load(), id))
			}
		})
	}
	wg.Wait()
	if s := d.Status(); j.Len() != 320 || s.Commits >= 320 {
		t.Errorf("%d records, %d commits", j.Len(), s.Commits)
	}
}

func TestRecords(t *testing.T) {
	for _, o := range []Options{{}, file(t)} {
		hub := bus.New(bus.Options{})
		d, err := Open(hub, o)
		if err != nil {
			t.Fatal(err)
		}
		r := d.Records("latch")
		for _, put := range []struct {
			name string
			v    []byte
			sync bool
		}{{"b", []byte("1"), true}, {"a", []byte{}, false}, {"c", []byte("x"), false}, {"b", []byte("2"), false}} {
			if err := r.Put(ctx, put.name, put.v, put.sync); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Delete(ctx, "c"); err != nil {
			t.Fatal(err)
		}
		if o.Path != "" {
			_ = d.Close()
			if d, err = Open(hub, o); err != nil {
				t.Fatal(err)
			}
			r = d.Records("latch")
		}
		var got []string
		for name, v := range r.All() {
			got = append(got, name+"="+string(v))
		}
		if s := strings.Join(got, " "); s != "a= b=2" {
			t.Errorf("records %q", s)
		}
		if v, ok := r.Get("b"); !ok || string(v) != "2" {
			t.Errorf("b: %q %v", v, ok)
		}
		if k := d.Keys(""); len(k) != 0 {
			t.Errorf("records are no keys: %q", k)
		}
		_ = d.Close()
		_ = hub.Close(ctx)
	}
}

func TestContextEndsTheWait(t *testing.T) {
	d := open(t, file(t))
	d.commits.running.Lock() // a commit that takes its time
	ended, cancel := context.WithCancel(ctx)
	cancel()
	var wg sync.WaitGroup
	wg.Go(func() { set(t, d, "leader", 1, SetOptions{Mode: Sync}) })
	for {
		d.mu.Lock()
		n := d.commits.next
		d.mu.Unlock()
		if n != nil {
			break
		}
	}
	if _, err := d.Set(ended, "test", "follower", 1, SetOptions{Mode: Sync}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	d.commits.running.Unlock()
	wg.Wait()
	want(t, d, "leader", int64(1))
}

// A disk that can't even be read when the robot starts, and comes later.
func TestDiskComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := file(t)
		hub := bus.New(bus.Options{})
		d, err := Open(hub, o)
		if err != nil {
			t.Fatal(err)
		}
		set(t, d, "old", 1)
		set(t, d, "short", 1, SetOptions{TTL: 20 * time.Second})
		set(t, d, "m", 1)
		post(t, d, "plan", "task", PostOptions{Durable: true})
		_ = d.Records("latch").Put(ctx, "stop", []byte("x"), true)
		_ = d.Close()

		faults := disk{fail: syscall.EIO, dead: true}
		o.OpenFile = faults.open
		if d, err = Open(hub, o); err != nil {
			t.Fatal(err)
		}
		wantAbsent(t, d, "old")
		set(t, d, "m", 2, SetOptions{Mode: Memory})
		time.Sleep(10 * time.Second)
		faults.set(nil, false)
		time.Sleep(2 * maxPause)
		synctest.Wait()
		want(t, d, "old", int64(1))
		want(t, d, "m", int64(2))
		if v, ok := d.Records("latch").Get("stop"); !ok || string(v) != "x" {
			t.Errorf("record %q %v", v, ok)
		}
		f := post(t, d, "plan", "second", PostOptions{})
		volunteer(t, d, "plan", VolunteerOptions{}, echo)
		answer(t, f, "second!")
		if n := len(d.Pending("")); n != 0 {
			t.Errorf("%d requests of the earlier process are not answered", n)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		wantAbsent(t, d, "short")
		_ = d.Close()
		_ = hub.Close(ctx)
	})
}

func TestPathIsAFolder(t *testing.T) {
	hub := bus.New(bus.Options{})
	defer hub.Close(ctx)
	if _, err := Open(hub, Options{Path: t.TempDir()}); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("got %v", err)
	}
}
