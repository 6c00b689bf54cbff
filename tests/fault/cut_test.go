package fault

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const cutFile = "robot.db"

// cutter runs writers on disks that lose power and has the images checked.
type cutter struct {
	t      *testing.T
	rs     readers
	ram    string
	role   string // of the writer
	kind   string // of the question
	gap    int
	every  int // cuts per writer
	faulty faults
	bear   bool // bad cuts are expected: go on

	mu     sync.Mutex // guards the rest
	cuts   int
	busy   int // cuts with something pending
	hits   int // faults of the disk
	bad    int // cuts that lost something or did not open
	dead   int // readers that died or hung
	acks   int
	first  []string // problems
	broken bool     // the test itself does not work
	slow   time.Duration
}

// run makes cuts, lanes writers at a time.
func (c *cutter) run(rng *rand.Rand, j job, cuts, lanes int) {
	c.t.Helper()
	var all sync.WaitGroup
	for range lanes {
		seed := rng.Uint64()
		all.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 2))
			var start image // where the last writer ended
			for round := 1; ; round++ {
				c.mu.Lock()
				over := c.cuts >= cuts || c.bad > 20 && !c.bear || c.broken
				c.mu.Unlock()
				if over {
					return
				}
				if rng.IntN(3) == 0 || c.bear {
					start = image{}
				}
				j := j
				j.Round, j.Seed = round, rng.Uint64()
				if rng.IntN(2) == 0 {
					j.Snapshot = 0
				}
				next, err := c.round(rng, j, start)
				if err != nil {
					c.note(err.Error())
				}
				start = next
			}
		})
	}
	all.Wait()
}

func (c *cutter) note(problem string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.first = append(c.first, problem)
	c.broken = true
}

// round lets one writer work on a disk and cuts its power several times. It
// gives the last image.
func (c *cutter) round(rng *rand.Rand, j job, start image) (last image, err error) {
	d := newDisk(rand.New(rand.NewPCG(rng.Uint64(), 3)), start.files)
	d.faults = c.faulty
	dir, unmount := mount(c.t, d)
	defer unmount()
	j.Path, j.Acks = filepath.Join(dir, cutFile), filepath.Join(dir, ackFile)
	d.cutEvery([]int{10, 40, c.gap, 3 * c.gap}[rng.IntN(4)])
	p, err := spawn(c.role, j, 0)
	if err != nil {
		return last, err
	}
	out := p.collect()
	defer func() {
		close(d.stop)
		p.kill()
		<-out.end
		c.mu.Lock()
		c.hits += d.failed()
		c.mu.Unlock()
	}()
	for range c.every {
		select {
		case last = <-d.cuts:
		case <-out.end:
			return last, fmt.Errorf("the writer ended by itself: %s\n%s", p.trace(), strings.Join(out.told(tellEvent), "\n"))
		case <-time.After(30 * time.Second):
			return last, fmt.Errorf("the writer stands still")
		}
		c.check(j, last, start.files[cutFile] == nil)
	}
	if said := out.told(tellFail); len(said) > 0 && c.faulty == (faults{}) {
		return last, fmt.Errorf("the writer said %q", said[0])
	}
	return last, nil
}

// check has an image opened; made says that the writer has made the file.
func (c *cutter) check(j job, img image, made bool) {
	dir, err := os.MkdirTemp(c.ram, "cut")
	if err == nil {
		defer os.RemoveAll(dir)
		err = img.save(dir)
	}
	if err != nil {
		c.note(err.Error())
		return
	}
	c.mu.Lock()
	n := c.cuts
	c.mu.Unlock()
	a, death := c.rs.ask(question{Kind: c.kind, Path: filepath.Join(dir, cutFile), Acks: img.acks, Round: j.Round, Writers: j.Writers, Snapshots: n%10 == 0, Made: made})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cuts++
	if img.pending > 0 {
		c.busy++
	}
	c.acks += strings.Count(img.acks, "\n")
	c.slow = max(c.slow, a.Opened)
	if death != "" {
		c.dead++
		a.Problems = append(a.Problems, "the reader "+death)
	}
	if len(a.Problems) > 0 {
		c.bad++
		if len(c.first) < 20 {
			c.first = append(c.first, a.Problems...)
		}
		c.keep(img, a.Problems)
	}
}

// keep leaves an image that shows a fault where envKeep says.
func (c *cutter) keep(img image, problems []string) {
	dir := os.Getenv(envKeep)
	if dir == "" {
		return
	}
	dir = filepath.Join(dir, fmt.Sprintf("cut-%d", c.cuts))
	if err := os.MkdirAll(dir, 0o700); err == nil {
		_ = img.save(dir)
		_ = os.WriteFile(filepath.Join(dir, ackFile), []byte(img.acks), 0o600)
		_ = os.WriteFile(filepath.Join(dir, "problems"), []byte(strings.Join(problems, "\n")), 0o600)
	}
}

// TestPowerCut cuts the power at random operations of the disk. Every cut must
// leave a file that opens, with all that was acknowledged, in order.
func TestPowerCut(t *testing.T) {
	needFuse(t)
	t.Parallel()
	rng := random(t)
	c := &cutter{t: t, rs: newReaders(t, 2, 0), ram: ram(t), role: "writer", kind: "board", gap: 120, every: 25}
	begin := time.Now()
	c.run(rng, job{Mode: "mixed", Writers: 3, Window: 5 * time.Millisecond, Snapshot: 30 * time.Millisecond}, scale(1500, 20000), 2)
	t.Logf("%d power cuts (%d with writes pending) in %v: %d bad, %d readers died, %d acknowledgements checked, slowest open %v",
		c.cuts, c.busy, time.Since(begin).Round(time.Millisecond), c.bad, c.dead, c.acks, c.slow)
	for _, p := range c.first {
		t.Error(p)
	}
	if c.cuts < 1000 {
		t.Errorf("%d cuts, want 1000", c.cuts)
	}
}

// TestLyingDisk measures what a disk does that says it has written and has not.
// No software on top can keep a promise then; but whatever comes out must not
// kill the process or keep it from starting.
func TestLyingDisk(t *testing.T) {
	needFuse(t)
	t.Parallel()
	rng := random(t)
	for _, lie := range []float64{0.05, 0.5, 1} {
		c := &cutter{t: t, rs: newReaders(t, 1, 0), ram: ram(t), role: "writer", kind: "board", gap: 120, every: 10, faulty: faults{Lie: lie}, bear: true}
		c.run(rng, job{Mode: "mixed", Writers: 3, Window: 5 * time.Millisecond, Snapshot: 30 * time.Millisecond}, scale(60, 1000), 1)
		t.Logf("a disk that ignores %.0f %% of the syncs: %d of %d cuts lost something, %d readers died, slowest open %v", 100*lie, c.bad, c.cuts, c.dead, c.slow)
		if c.dead > 0 || c.broken || c.slow > 6*time.Second {
			t.Errorf("%d readers died, slowest open %v: %q", c.dead, c.slow, c.first)
		}
		if lie == 1 && c.bad == 0 {
			t.Error("a disk that never syncs lost nothing: these tests see nothing")
		}
	}
}

// TestPowerCutControl does the same to a database that does not sync: the cuts
// must ruin it.
func TestPowerCutControl(t *testing.T) {
	needFuse(t)
	t.Parallel()
	rng := random(t)
	for _, mode := range []string{"nosync", "sync"} {
		c := &cutter{t: t, rs: newReaders(t, 1, 3*time.Second), ram: ram(t), role: "bolt", kind: "bolt", gap: 120, every: 10, bear: mode == "nosync"}
		c.run(rng, job{Mode: mode, Writers: 1}, scale(30, 300), 1)
		t.Logf("plain bbolt, %s: %d of %d cuts bad, %d readers died", mode, c.bad, c.cuts, c.dead)
		if mode == "nosync" && c.bad < c.cuts/4 {
			t.Errorf("without syncing only %d of %d cuts lost something: these tests see nothing", c.bad, c.cuts)
		}
		if mode == "sync" && c.bad > 0 {
			t.Errorf("with syncing: %q", c.first)
		}
	}
}
