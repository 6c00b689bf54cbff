package fault

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestRestart kills a writer, in the middle of a commit or while syncs fail,
// starts another on what the system believes to be the file, and cuts the power
// then. What the system holds as written and the medium does not have is the
// trap: the second writer sees nothing of the first one's trouble.
func TestRestart(t *testing.T) {
	needFuse(t)
	t.Parallel()
	rng := random(t)
	c := &cutter{t: t, rs: newReaders(t, 2, 0), ram: ram(t), role: "writer", kind: "board", gap: 20}
	var all sync.WaitGroup
	var rounds int
	for range 4 {
		rng := rand.New(rand.NewPCG(rng.Uint64(), 6))
		all.Go(func() {
			for range scale(50, 500) {
				if err := c.restart(rng); err != nil {
					c.note(err.Error())
					return
				}
				c.mu.Lock()
				rounds++
				c.mu.Unlock()
			}
		})
	}
	all.Wait()
	t.Logf("%d restarts after a kill or failed syncs, %d power cuts: %d bad, %d readers died", rounds, c.cuts, c.bad, c.dead)
	for _, p := range c.first {
		t.Error(p)
	}
}

// restart is one such story.
func (c *cutter) restart(rng *rand.Rand) error {
	d := newDisk(rand.New(rand.NewPCG(rng.Uint64(), 7)), nil)
	dir, unmount := mount(c.t, d)
	defer unmount()
	j := job{Path: filepath.Join(dir, cutFile), Acks: filepath.Join(dir, ackFile), Mode: "mixed", Writers: 2, Window: 5 * time.Millisecond, Round: 1, Seed: rng.Uint64()}
	first, err := spawn("writer", j, 0)
	if err != nil {
		return err
	}
	out := first.collect()
	wait(c.t, first, out, "acknowledgements", 20*time.Second, func() bool { return strings.Count(d.acknowledged(), "\n") > 20 })
	if rng.IntN(2) == 0 {
		d.call(60, func() { _ = first.cmd.Process.Kill() })
		<-first.ended
	} else {
		d.fail(faults{Sync: 0.5 + 0.5*rng.Float64()})
		wait(c.t, first, out, "a failed sync", 20*time.Second, func() bool { return d.failed() > 0 })
		time.Sleep(time.Duration(rng.IntN(4)) * time.Millisecond)
		first.kill()
	}
	<-out.end

	d.fail(faults{})
	d.mu.Lock()
	d.acks.cache = nil // of the second writer only; what the first one wrote is in the steps it begins with
	d.mu.Unlock()
	j.Round, j.Seed = 2, rng.Uint64()
	second, err := spawn("writer", j, 0)
	if err != nil {
		return err
	}
	out = second.collect()
	defer func() {
		close(d.stop)
		second.kill()
		<-out.end
	}()
	d.cutEvery(c.gap)
	for range 4 {
		select {
		case img := <-d.cuts:
			c.check(j, img, false)
		case <-time.After(20 * time.Second):
			c.t.Error("the second writer stands still")
			return nil
		}
	}
	return nil
}

// TestCutWhileRecovering cuts the power, and in another run kills the process,
// while a damaged file is being replaced by a snapshot. At every single moment
// what is left must come out as the snapshot: never as nothing.
func TestCutWhileRecovering(t *testing.T) {
	needFuse(t)
	t.Parallel()
	seed := seeds(t)
	rng := random(t)
	rs := newReaders(t, 2, 0)
	base := ram(t)
	var cuts int
	damaged := bytes.Clone(seed[2])
	clear(damaged[:2*page])
	for _, main := range [][]byte{damaged, seed[2][:5*page], {}} {
		for run := range scale(4, 40) {
			d := newDisk(rand.New(rand.NewPCG(rng.Uint64(), 8)), map[string][]byte{
				cutFile: main, cutFile + ".snapshot-1": seed[1], cutFile + ".snapshot-2": seed[0],
			})
			dir, unmount := mount(t, d)
			d.cutEvery(1)
			p, err := spawn("writer", job{Path: filepath.Join(dir, cutFile), Acks: filepath.Join(dir, ackFile), Mode: "group", Writers: 1, Window: time.Hour, Round: 1}, 0)
			if err != nil {
				t.Fatal(err)
			}
			out := p.collect()
			idle := time.NewTimer(20 * time.Second)
			for open := true; open; {
				select {
				case img := <-d.cuts:
					if strings.Contains(img.acks, ackGroup) {
						open = false
						break
					}
					cuts++
					recovered(t, rs, base, img, run)
				case <-out.ready: // no more operations, or those of the writer at work
					open = false
				case <-out.end:
					t.Fatalf("the writer ended: %s", p.trace())
				case <-idle.C:
					t.Fatal("the writer stands still")
				}
			}
			close(d.stop)
			p.kill()
			<-out.end
			unmount()
		}
	}
	t.Logf("%d power cuts while a damaged file was replaced", cuts)
	if cuts < 30 {
		t.Errorf("only %d cuts", cuts)
	}
}

// recovered opens what is left of a half-way recovery and wants a generation
// of the seed, whole.
func recovered(t *testing.T, rs readers, base string, img image, run int) {
	t.Helper()
	dir, err := os.MkdirTemp(base, "recover")
	if err == nil {
		defer os.RemoveAll(dir)
		err = img.save(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	a, death := rs.ask(question{Kind: "damaged", Path: filepath.Join(dir, cutFile), Died: 1})
	if death != "" {
		t.Fatalf("the reader %s", death)
	}
	for _, p := range a.Problems {
		t.Error(p)
	}
	if a.Error != "" || a.Trouble != "" || len(a.Generations) != 4 || a.Generations[1] != seedKeys {
		var names []string
		for n, text := range img.files {
			names = append(names, n, "of", strings.TrimSpace(string(rune('0'+len(text)/100000)))+"00 KB")
		}
		t.Errorf("run %d: %d keys of the newest snapshot, want %d; %s %s; events %v; the disk held %v", run, a.Generations[1], seedKeys, a.Error, a.Trouble, a.Events, names)
	}
}
