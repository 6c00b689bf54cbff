package fault

import (
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// TestKill kills writers at random moments. A killed process loses nothing it
// has written, so what is proved here is that the board acknowledges only what
// it has handed to the system, in order, and that what it leaves opens.
func TestKill(t *testing.T) {
	t.Parallel()
	rng := random(t)
	rs := newReaders(t, 2, 0)
	var mu sync.Mutex
	var kills, opening, acks int
	var slowest time.Duration
	t.Run("modes", func(t *testing.T) {
		for _, mode := range []string{"mixed", "sync", "group", "requests", "journal"} {
			seed := rng.Uint64()
			t.Run(mode, func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(seed, 1))
				// Half of the files lie on the disk of the machine.
				for _, dir := range []string{t.TempDir(), ram(t)} {
					k := killer{t: t, rng: rng, rs: rs, job: job{
						Path: filepath.Join(dir, "robot.db"), Mode: mode, Writers: 4, Window: 20 * time.Millisecond, Snapshot: 50 * time.Millisecond,
					}}
					if mode == "group" {
						k.Pause = 100 * time.Microsecond
					}
					for range scale(26, 130) {
						k.round(time.Duration(1+rng.IntN(60)) * time.Millisecond)
					}
					mu.Lock()
					kills, opening, acks, slowest = kills+k.Round, opening+k.opening, acks+k.acks, max(slowest, k.slowest)
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("%d kills (%d of them while opening), %d acknowledgements, slowest open %v", kills, opening, acks, slowest)
	if slowest > readyLimit {
		t.Errorf("a file took %v to open, want %v at most", slowest, readyLimit)
	}
	if kills < 200 {
		t.Errorf("%d kills, want 200", kills)
	}
}

// TestKillWindow lets writers run for longer than their window and checks that
// no group write older than that is lost. The file lies in memory, so that the
// time which a commit takes is not the disk's.
func TestKillWindow(t *testing.T) {
	t.Parallel()
	rng := random(t)
	rs := newReaders(t, 1, 0)
	const window = 100 * time.Millisecond
	k := killer{t: t, rng: rng, rs: rs, window: window + time.Second/2, job: job{
		Path: filepath.Join(ram(t), "robot.db"), Mode: "group", Writers: 4, Window: window, Pause: time.Millisecond,
	}}
	for range scale(10, 100) {
		k.round(time.Duration(1300+rng.IntN(400)) * time.Millisecond)
	}
	t.Logf("%d kills, window %v: the oldest group write lost was %v old", k.Round, window, k.lost)
	if k.lost == 0 {
		t.Error("no group write was ever lost: nothing was tested")
	}
}

// killer runs writers on one file, one after the other.
type killer struct {
	job
	t       *testing.T
	rng     *rand.Rand
	rs      readers
	window  time.Duration // how old a lost group step may be; 0 = any age
	opening int           // kills before the board was open
	slowest time.Duration
	lost    time.Duration
	acks    int
}

// round starts a writer, kills it after a time and checks what it leaves.
func (k *killer) round(after time.Duration) {
	t := k.t
	t.Helper()
	k.Round++
	k.Seed = k.rng.Uint64()
	c, err := spawn("writer", k.job, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := c.collect()
	if k.rng.IntN(8) == 0 {
		after = time.Duration(k.rng.IntN(15000)) * time.Microsecond // maybe before it is ready
	} else {
		select {
		case <-out.ready:
		case <-out.end:
			t.Fatalf("round %d: the writer ended by itself: %s", k.Round, c.trace())
		case <-time.After(20 * time.Second):
			c.kill()
			t.Fatalf("round %d: not ready within 20 s: %s", k.Round, c.trace())
		}
	}
	time.Sleep(after)
	died := time.Now()
	c.kill()
	<-out.end
	select {
	case <-out.ready:
	default:
		k.opening++
	}
	for _, word := range []string{tellFail, tellEvent} {
		if said := out.told(word); len(said) > 0 {
			t.Errorf("round %d: the writer said %s %q", k.Round, word, said[0])
		}
	}
	q := question{Path: k.Path, Acks: out.text(), Round: k.Round, Writers: k.Writers, Window: k.window, Died: died.UnixNano(), Snapshots: k.Round%5 == 0}
	a, death := k.rs.ask(q)
	if death != "" {
		t.Fatalf("round %d: the reader %s", k.Round, death)
	}
	for _, p := range a.Problems {
		t.Errorf("round %d, %s: %s", k.Round, k.Mode, p)
	}
	if len(a.Problems) > 0 {
		t.FailNow()
	}
	k.slowest, k.lost = max(k.slowest, a.Opened), max(k.lost, a.Lost)
	k.acks += len(out.lines)
}
