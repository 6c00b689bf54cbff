package fault

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"edged/tests/peer"
)

// TestDiskErrors lets syncs and writes fail at random, and cuts the power soon
// after. The writer must live, and the file must open with everything that was
// acknowledged.
func TestDiskErrors(t *testing.T) {
	needFuse(t)
	t.Parallel()
	rng := random(t)
	for _, c := range []struct {
		name  string
		f     faults
		lanes int
	}{
		{"2 % of syncs", faults{Sync: 0.02}, 4},
		{"30 % of syncs", faults{Sync: 0.30}, 8},
		{"2 % of writes", faults{Write: 0.02}, 4},
	} {
		rng := rand.New(rand.NewPCG(rng.Uint64(), 4))
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := &cutter{t: t, rs: newReaders(t, 1, 0), ram: ram(t), role: "writer", kind: "board", gap: 200, every: 10, faulty: c.f}
			begin := time.Now()
			k.run(rng, job{Mode: "mixed", Writers: 3, Window: 5 * time.Millisecond, Snapshot: 200 * time.Millisecond}, scale(150, 1500), c.lanes)
			t.Logf("%s fail: %d failed, %d power cuts in %v: %d bad, %d readers died, %d acknowledgements checked",
				c.name, k.hits, k.cuts, time.Since(begin).Round(time.Millisecond), k.bad, k.dead, k.acks)
			for _, p := range k.first {
				t.Error(p)
			}
			if k.hits == 0 {
				t.Error("nothing failed: nothing was tested")
			}
		})
	}
}

// trouble is one way for a disk to stop taking writes, and to take them again.
type trouble struct {
	begin, end func() error
	event      string // what the board must say: readonly or full
	remedy     string // what an error must tell
}

// TestDegraded stops the disk and lets it go on: the writer must say so within
// a second, go on with what needs no disk, and recover by itself.
func TestDegraded(t *testing.T) {
	needFuse(t)
	t.Parallel()
	rng := random(t)
	for _, c := range []struct {
		name string
		f    faults
		full bool
	}{
		{name: "syncs fail", f: faults{Sync: 1}},
		{name: "writes fail", f: faults{Write: 1}},
		{name: "everything fails", f: faults{Sync: 1, Write: 1}},
		{name: "read-only", f: faults{ReadOnly: true}},
		{name: "full", full: true},
	} {
		rng := rand.New(rand.NewPCG(rng.Uint64(), 5))
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newDisk(rng, nil)
			dir, unmount := mount(t, d)
			defer unmount()
			j := job{Path: filepath.Join(dir, cutFile), Acks: filepath.Join(dir, ackFile)}
			tr := trouble{event: "readonly", remedy: "by itself"}
			if c.full {
				tr.event, tr.remedy = "full", "free some space"
			}
			tr.begin = func() error {
				f := c.f
				if c.full {
					d.mu.Lock()
					f.Space = d.used()
					d.mu.Unlock()
				}
				d.fail(f)
				return nil
			}
			tr.end = func() error { d.fail(faults{}); return nil }
			acks := func(*output) string { return d.acknowledged() }
			leave := func(j job) string {
				d.mu.Lock()
				defer d.mu.Unlock()
				img := d.image()
				dir := ram(t)
				if err := img.save(dir); err != nil {
					t.Fatal(err)
				}
				return filepath.Join(dir, cutFile)
			}
			degrade(t, j, tr, acks, leave)
		})
	}
}

// TestRealFullDisk fills a real file system.
func TestRealFullDisk(t *testing.T) {
	peer.Root(t, "mounting a disk")
	t.Parallel()
	dir := tmpfs(t, "size=2m,mode=0700")
	filler := filepath.Join(dir, "filler")
	degrade(t, job{Path: filepath.Join(dir, "robot.db")}, trouble{
		event: "full", remedy: "free some space",
		begin: func() error {
			f, err := os.Create(filler)
			if err != nil {
				return err
			}
			defer f.Close()
			block := make([]byte, 4096)
			for err == nil {
				_, err = f.Write(block)
			}
			return nil
		},
		end: func() error { return os.Remove(filler) },
	}, (*output).text, func(j job) string { return j.Path })
}

// TestRealReadOnly opens a board on a medium that is read-only, which becomes
// writable later.
func TestRealReadOnly(t *testing.T) {
	peer.Root(t, "mounting a disk")
	t.Parallel()
	dir := tmpfs(t, "size=16m,mode=0700")
	remount := func(flags uintptr) func() error {
		return func() error { return syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|flags, "size=16m") }
	}
	j := job{Path: filepath.Join(dir, "robot.db"), Mode: "mixed", Writers: 2, Window: 20 * time.Millisecond, Round: 1}
	c, err := spawn("writer", j, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := c.collect()
	wait(t, c, out, "a few acknowledgements", 10*time.Second, func() bool { return len(out.told(ackSync)) > 20 })
	stop(t, c, out)
	if err := remount(syscall.MS_RDONLY)(); err != nil {
		t.Fatal(err)
	}
	j.Round, j.Beat = 2, 10*time.Millisecond
	c, err = spawn("writer", j, 0)
	if err != nil {
		t.Fatal(err)
	}
	out2 := c.collect()
	wait(t, c, out2, "the event", 2*time.Second, func() bool { return said(out2, "readonly") })
	wait(t, c, out2, "memory keys going on", 2*time.Second, func() bool { return len(out2.told(tellBeat)) > 20 })
	if n := len(out2.told(ackRequest)) + len(out2.told(ackAppend)); n > 0 {
		t.Errorf("%d durable things were acknowledged on a read-only disk", n)
	}
	if err := remount(0)(); err != nil {
		t.Fatal(err)
	}
	wait(t, c, out2, "recovery", 8*time.Second, func() bool { return said(out2, "recovered") && len(out2.told(ackSync)) > 20 })
	stop(t, c, out2)
	rs := newReaders(t, 1, 0)
	inspect(t, rs, question{Path: j.Path, Acks: out2.text(), Round: 2, Writers: j.Writers})
}

// degrade runs a writer through a trouble. acks gives what it acknowledged and
// leave what it left behind.
func degrade(t *testing.T, j job, tr trouble, acks func(*output) string, leave func(job) string) {
	t.Helper()
	rs := newReaders(t, 1, 0)
	j.Mode, j.Writers, j.Window, j.Round, j.Beat, j.Pause = "mixed", 2, 20*time.Millisecond, 1, 10*time.Millisecond, time.Millisecond
	c, err := spawn("writer", j, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := c.collect()
	defer func() {
		c.kill()
		<-out.end
	}()
	count := func() int { return strings.Count(acks(out), "\n"+ackSync+" ") }
	wait(t, c, out, "acknowledgements", 10*time.Second, func() bool { return count() > 50 })

	if err := tr.begin(); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	wait(t, c, out, "the event "+tr.event, 10*time.Second, func() bool { return said(out, tr.event) })
	noticed := time.Since(begin)
	if noticed > time.Second {
		t.Errorf("the board noticed after %v, want 1s at most", noticed)
	}
	wait(t, c, out, "a failed step", 2*time.Second, func() bool { return len(out.told(tellFail)) > 0 })
	fail := out.told(tellFail)[0]
	if !strings.Contains(fail, filepath.Base(j.Path)) || !strings.Contains(fail, tr.remedy) {
		t.Errorf("the error names no file or no remedy (%q): %s", tr.remedy, fail)
	}
	beats := len(out.told(tellBeat))
	time.Sleep(1500 * time.Millisecond)
	if n := len(out.told(tellBeat)) - beats; n < 30 {
		t.Errorf("only %d memory sets in 1.5 s of trouble, want about 150", n)
	}
	if j.Acks != "" { // the power fails in the middle of the trouble
		text := acks(out)
		inspect(t, rs, question{Path: leave(j), Acks: text, Round: 1, Writers: j.Writers})
	}

	if err := tr.end(); err != nil {
		t.Fatal(err)
	}
	begin = time.Now()
	had := count()
	wait(t, c, out, "recovery", 10*time.Second, func() bool { return said(out, "recovered") && count() > had+20 })
	recovered := time.Since(begin)
	if recovered > 6*time.Second {
		t.Errorf("recovered after %v, want 6s at most", recovered)
	}
	if said(out, "corrupt") {
		t.Errorf("a file was called damaged: %q", out.told(tellEvent))
	}
	stop(t, c, out)
	inspect(t, rs, question{Path: leave(j), Acks: acks(out), Round: 1, Writers: j.Writers, Snapshots: true})
	t.Logf("noticed after %v, recovered after %v, %d failed steps", noticed.Round(time.Millisecond), recovered.Round(time.Millisecond), len(out.told(tellFail)))
}

func said(o *output, event string) bool {
	for _, e := range o.told(tellEvent) {
		if strings.HasPrefix(e, "edged/blackboard/"+event+" ") {
			return true
		}
	}
	return false
}

// wait polls until something is true of a living process.
func wait(t *testing.T, c *child, o *output, what string, limit time.Duration, ok func() bool) {
	t.Helper()
	for begin := time.Now(); !ok(); time.Sleep(2 * time.Millisecond) {
		select {
		case <-c.ended:
			t.Fatalf("waiting for %s: the writer ended: %s", what, c.trace())
		default:
		}
		if time.Since(begin) > limit {
			t.Fatalf("waiting for %s: not within %v; it said %q %q", what, limit, o.told(tellEvent), o.told(tellFail))
		}
	}
}

// stop ends a writer in good order.
func stop(t *testing.T, c *child, o *output) {
	t.Helper()
	c.stdin.Close()
	select {
	case <-o.end:
		<-c.ended
	case <-time.After(15 * time.Second):
		c.kill()
		t.Fatalf("the writer does not stop")
	}
	if c.err != nil || len(o.told(tellDone)) == 0 {
		t.Errorf("the writer ended badly: %s", c.trace())
	}
}

// inspect has a file read and wants no problem.
func inspect(t *testing.T, rs readers, q question) {
	t.Helper()
	a, death := rs.ask(q)
	if death != "" {
		t.Errorf("the reader %s", death)
	}
	for _, p := range a.Problems {
		t.Error(p)
	}
}

// tmpfs mounts an empty file system in memory.
func tmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		peer.Missing(t, "a tmpfs mount: "+err.Error())
	}
	t.Cleanup(func() { release(t, dir) })
	return dir
}
