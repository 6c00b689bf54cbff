package fault

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"edged/blackboard"
	"edged/tests/peer"
)

// readyLimit is how long a board may take to be ready, whatever it finds.
const readyLimit = 6 * time.Second

// damaged opens a file that may be damaged in any way and says what came out.
func (a *answer) damaged(q *question) {
	a.Generations = make([]int, 4)
	b, board := a.open(q.Path)
	if board == nil {
		shut(a, b, nil)
		return
	}
	for i := range seedKeys {
		v, ok := board.Get(fmt.Sprintf("k/%03d", i))
		if !ok {
			continue
		}
		gen := generation(i, v)
		if gen < 0 {
			a.problem("key %d has a wrong value", i)
			continue
		}
		a.Generations[gen]++
	}
	st := board.Status()
	a.Damaged, a.Trouble = int(st.Checksum), st.Trouble
	_ = board.Pending("")
	if log, err := board.Journal("log", blackboard.JournalOptions{}); err == nil {
		for _, rec := range log.All() {
			if !bytes.HasPrefix(rec, []byte("record ")) {
				a.problem("the journal holds %q", rec)
			}
		}
	}
	_, err := board.Set(context.Background(), "reader", "probe", q.Died, blackboard.SetOptions{Mode: blackboard.Sync})
	if _, err2 := board.Set(context.Background(), "reader", "memory", q.Died, blackboard.SetOptions{Mode: blackboard.Memory}); err2 != nil {
		a.problem("a memory key can't be set: %v", err2)
	}
	if err != nil {
		a.Writable = err.Error()
		_ = board.Close()
		shut(a, b, nil)
		return
	}
	shut(a, b, board)
	// What was repaired must stay so.
	var again answer
	b, board = again.open(q.Path)
	defer shut(a, b, board)
	if board == nil {
		a.problem("does not open again: %s", again.Error)
		return
	}
	if v, _ := board.Get("probe"); v != q.Died {
		a.problem("opened again, the value written is %v", v)
	}
	if slices.Contains(again.Events, "corrupt") && a.Damaged == 0 {
		a.problem("opened again, it is damaged again")
	}
}

// tally counts what became of the damaged files.
type tally struct {
	mu                                    sync.Mutex
	files, whole, records, snapshot, anew int
	deaths                                int
	slowest                               time.Duration
}

// TestCorrupt opens files that are damaged in many ways. Whatever they hold
// must not kill the process; a file is either found to be whole, or kept aside
// and replaced by the newest whole snapshot.
func TestCorrupt(t *testing.T) {
	t.Parallel()
	seed := seeds(t)
	rs := newReaders(t, 2, 15*time.Second)
	base := ram(t)
	var n tally
	var all sync.WaitGroup
	lanes := make(chan struct{}, 2)
	for k, d := range damages() {
		for i := range d.n * scale(1, 10) {
			lanes <- struct{}{}
			all.Go(func() {
				defer func() { <-lanes }()
				rng := rand.New(rand.NewPCG(uint64(k), uint64(i)))
				c := corrupt{name: fmt.Sprintf("%s %d", d.name, i), main: d.do(bytes.Clone(seed[2]), rng, i%d.n)}
				switch i % 4 { // what lies beside it
				case 1:
					c.snapshots, c.want = [][]byte{seed[1], seed[0]}, 1
				case 2:
					c.snapshots, c.want = [][]byte{d.do(bytes.Clone(seed[1]), rng, i%d.n), seed[0]}, -2
				case 3:
					c.snapshots, c.want = [][]byte{d.do(bytes.Clone(seed[1]), rng, i%d.n)}, -2
				default:
					c.want = -1
				}
				c.check(t, filepath.Join(base, fmt.Sprintf("%d-%d", k, i)), rs, &n)
			})
		}
	}
	all.Wait()
	t.Logf("%d damaged files: %d were whole where it counts, %d lost single records, %d replaced by a snapshot, %d begun anew; %d deaths, slowest open %v",
		n.files, n.whole, n.records, n.snapshot, n.anew, n.deaths, n.slowest)
	if n.files < 300 {
		t.Errorf("%d files, want 300", n.files)
	}
}

// corrupt is one damaged file and what lies beside it.
type corrupt struct {
	name      string
	main      []byte
	snapshots [][]byte
	want      int // generation that must come out if the file is given up; -1 none, -2 any
}

func (c *corrupt) check(t *testing.T, dir string, rs readers, n *tally) {
	fail := func(format string, a ...any) { t.Errorf("%s: %s", c.name, fmt.Sprintf(format, a...)) }
	path := filepath.Join(dir, "robot.db")
	if err := os.Mkdir(dir, 0o700); err != nil {
		fail("%v", err)
		return
	}
	defer os.RemoveAll(dir)
	files := map[string][]byte{path: c.main}
	for i, s := range c.snapshots {
		files[fmt.Sprintf("%s.snapshot-%d", path, i+1)] = s
	}
	for name, text := range files {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			fail("%v", err)
			return
		}
	}
	a, death := rs.ask(question{Kind: "damaged", Path: path, Died: 1})
	n.mu.Lock()
	defer n.mu.Unlock()
	n.files++
	if death != "" {
		n.deaths++
		fail("the reader %s", death)
		return
	}
	n.slowest = max(n.slowest, a.Opened)
	if a.Opened > readyLimit {
		fail("ready after %v", a.Opened)
	}
	if a.Error != "" || a.Writable != "" || a.Trouble != "" {
		fail("no board: %s %s %s", a.Error, a.Trouble, a.Writable)
	}
	for _, p := range a.Problems {
		fail("%s", p)
	}
	c.outcome(path, a, n, fail)
}

// outcome compares what came out with what may.
func (c *corrupt) outcome(path string, a answer, n *tally, fail func(string, ...any)) {
	aside, _ := filepath.Glob(path + ".corrupt-*")
	told := slices.Contains(a.Events, "corrupt")
	if told != (len(aside) > 0) {
		fail("said %v but %d files are kept aside", a.Events, len(aside))
	}
	kept := false
	for _, f := range aside {
		text, err := os.ReadFile(f)
		kept = kept || err == nil && bytes.Equal(text, c.main)
	}
	if told && !kept {
		fail("the damaged file is not kept as it was")
	}
	total := 0
	for _, g := range a.Generations {
		total += g
	}
	switch {
	case a.Generations[2] == seedKeys && a.Damaged == 0:
		n.whole++
	case a.Generations[2] == total && total > 0 && a.Damaged >= seedKeys-total && told:
		n.records++
	case total == 0 && !slices.ContainsFunc(append(c.snapshots, c.main), func(b []byte) bool { return len(b) > 0 }): // as good as no file
		n.anew++
	case !told:
		fail("%d of %d keys, nothing was said", total, seedKeys)
	case a.Generations[0] == seedKeys || a.Generations[1] == seedKeys:
		n.snapshot++
		if c.want >= 0 && a.Generations[c.want] != seedKeys {
			fail("not the newest snapshot: %v", a.Generations)
		}
	case total == 0 && c.want < 0:
		n.anew++
	default:
		fail("keys by generation: %v, want %d", a.Generations, c.want)
	}
}

// TestStrangePlaces opens a board where there is no file, or none that can be
// had: a clear error or a board that says what is wrong, never a death.
func TestStrangePlaces(t *testing.T) {
	peer.Root(t, "making devices and being somebody else")
	t.Parallel()
	seed := seeds(t)[2]
	const nobody = 65534
	for _, c := range []struct {
		name string
		user uint32
		make func(path string) error
		want string // what the error, or the trouble, must contain; "" = the board works
	}{
		{"folder", 0, func(p string) error { return os.Mkdir(p, 0o700) }, "robot.db"},
		{"pipe", 0, func(p string) error { return syscall.Mkfifo(p, 0o600) }, "robot.db"},
		{"socket", 0, func(p string) error {
			l, err := net.Listen("unix", p)
			if err == nil {
				l.(*net.UnixListener).SetUnlinkOnClose(false)
				l.Close()
			}
			return err
		}, "robot.db"},
		{"device", 0, func(p string) error { return syscall.Mknod(p, syscall.S_IFCHR|0o600, 1<<8|3) }, "robot.db"},
		{"full device", 0, func(p string) error { return syscall.Mknod(p, syscall.S_IFCHR|0o600, 1<<8|7) }, "robot.db"},
		{"link to nothing", 0, func(p string) error { return os.Symlink("elsewhere.db", p) }, ""},
		{"link to itself", 0, func(p string) error { return os.Symlink("robot.db", p) }, "robot.db"},
		{"missing folders", 0, func(p string) error { return os.Remove(filepath.Dir(p)) }, ""},
		{"file as folder", 0, func(p string) error {
			if err := os.Remove(filepath.Dir(p)); err != nil {
				return err
			}
			return os.WriteFile(filepath.Dir(p), nil, 0o600)
		}, "robot.db"},
		{"file nobody may read", nobody, func(p string) error { return os.WriteFile(p, seed, 0) }, "robot.db"},
		{"file nobody may write", nobody, func(p string) error { return os.WriteFile(p, seed, 0o444) }, "robot.db"},
		{"damaged file in a folder nobody may write", nobody, func(p string) error {
			if err := os.WriteFile(p, seed[:5000], 0o666); err != nil {
				return err
			}
			return os.Chmod(filepath.Dir(p), 0o555)
		}, "robot.db"},
		{"no file in a folder nobody may write", nobody, func(p string) error { return os.Chmod(filepath.Dir(p), 0o555) }, "robot.db"},
		{"a terabyte of nothing", 0, func(p string) error {
			if err := os.WriteFile(p, seed, 0o600); err != nil {
				return err
			}
			return os.Truncate(p, 1<<40)
		}, ""},
		{"a terabyte of zeros", 0, func(p string) error {
			if err := os.WriteFile(p, nil, 0o600); err != nil {
				return err
			}
			return os.Truncate(p, 1<<40)
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(ram(t), "robot")
			if err := os.Mkdir(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			for _, d := range []string{dir, filepath.Dir(dir)} {
				if err := os.Chmod(d, 0o777); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(dir, "robot.db")
			if err := c.make(path); err != nil {
				t.Fatal(err)
			}
			r := &reader{user: c.user, limit: 15 * time.Second}
			defer r.close()
			a, death := r.ask(question{Kind: "damaged", Path: path, Died: 1})
			if death != "" {
				t.Fatalf("the reader %s", death)
			}
			if a.Opened > readyLimit {
				t.Errorf("ready after %v", a.Opened)
			}
			got := strings.TrimSpace(a.Error + " " + a.Trouble)
			t.Logf("%v, events %v, %v: %s", a.Opened.Round(time.Millisecond), a.Events, a.Generations, got)
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("said %q, want %q", got, c.want)
			}
			for _, p := range a.Problems {
				t.Error(p)
			}
		})
	}
}
