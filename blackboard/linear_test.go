package blackboard

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"edged/bus"
)

// Whether the board behaves as if one thing happened after the other. Several
// clients work on it at once, each call is recorded with its beginning and its
// end, and a checker looks for an order of the calls that agrees with what each
// was told and with who was done before whom began. Then the board crashes, is
// opened again, and the history goes on. A call that the crash cut short may
// have happened at any time after it began, or never: it stays open to the end.

// ask is a call, reply what it gave.
type ask struct {
	Op      string
	Key     int
	Value   int64
	Version uint64
	Token   string // of a request
	Claim   int
}

type reply struct {
	Unknown bool
	OK      bool
	Value   int64
	Other   int64 // of a snapshot: the other key's
	Version uint64
}

// recorder writes down calls, in the order of their beginnings and ends.
type recorder interface {
	begin(client int, a ask) (id int)
	end(id int, b reply)
}

// history is a recorder in memory. Its clock is the number of entries.
type history struct {
	mu   sync.Mutex
	now  int64
	ends int
	ops  []porcupine.Operation
	at   int    // after so many ends
	do   func() // this is done
}

func (h *history) begin(client int, a ask) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now++
	return h.open(client, a, h.now)
}

// open adds a call that began then; the caller holds mu.
func (h *history) open(client int, a ask, then int64) int {
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: a, Call: then, Output: reply{Unknown: true}, Return: math.MaxInt64})
	return len(h.ops) - 1
}

func (h *history) end(id int, b reply) {
	h.mu.Lock()
	h.now++
	if !b.Unknown {
		h.ops[id].Output, h.ops[id].Return = b, h.now
	}
	h.ends++
	do := h.do
	if h.ends != h.at {
		do = nil
	}
	h.mu.Unlock()
	if do != nil {
		do()
	}
}

// cell is a key of the model, world the model: two keys.
type cell struct {
	present bool
	value   int64
	version uint64
}

type world [2]cell

func (c *cell) put(v int64) {
	c.present, c.value = true, v
	c.version++
}

// boardModel says what each call does to the world, and whether it may have
// been answered as it was.
var boardModel = porcupine.Model{
	Init: func() any { return world{} },
	Step: func(state, in, out any) (bool, any) {
		w, a, b := state.(world), in.(ask), out.(reply)
		c := &w[a.Key]
		want := reply{Unknown: b.Unknown}
		switch a.Op {
		case "get":
			if c.present {
				want.OK, want.Value, want.Version = true, c.value, c.version
			}
		case "set":
			c.put(a.Value)
			want.Version = c.version
		case "incr":
			c.put(c.value*truth(c.present) + 1)
			want.Value = c.value
		case "cas":
			if want.OK = c.present && c.version == a.Version || !c.present && a.Version == 0; want.OK {
				c.put(a.Value)
			}
		case "delete":
			if want.OK = c.present; want.OK {
				c.present, c.version = false, c.version+1
			}
		case "update":
			w[0].put(a.Value)
			w[1].put(a.Value + 1)
		case "move": // from one key to the other
			w[0].put(w[0].value*truth(w[0].present) - 1)
			w[1].put(w[1].value*truth(w[1].present) + 1)
		case "snapshot":
			want.Value, want.Other = w[0].value*truth(w[0].present), w[1].value*truth(w[1].present)
		}
		return b.Unknown || b == want, w
	},
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// linearBoard is what the clients use; a broken one shows that it is noticed.
type linearBoard interface {
	Entry(key string) (Entry, bool)
	Snapshot(prefix string) map[string]any
}

var linearKeys = [2]string{"k0", "k1"}

// work does n random calls; it ends at the first that a crash has cut short.
func linearWork(d *Board, read linearBoard, rec recorder, client, n int, r *rand.Rand, ops []string) {
	next := int64(client)*1000 + r.Int64N(1<<40)*10_000 // a value is written once
	for range n {
		next += 10
		a := ask{Op: ops[r.IntN(len(ops))], Key: r.IntN(2), Value: next}
		if a.Op == "cas" {
			e, _ := read.Entry(linearKeys[a.Key])
			a.Version = e.Version
		}
		id := rec.begin(client, a)
		b, err := linearCall(d, read, a)
		b.Unknown = err != nil
		rec.end(id, b)
		if err != nil {
			return
		}
	}
}

func linearCall(d *Board, read linearBoard, a ask) (b reply, err error) {
	key := linearKeys[a.Key]
	switch a.Op {
	case "get":
		e, ok := read.Entry(key)
		if b.OK = ok; ok {
			b.Value, b.Version = e.Value.(int64), e.Version
		}
	case "set":
		b.Version, err = d.Set(ctx, "test", key, a.Value, SetOptions{})
	case "incr":
		var v any
		v, err = d.Incr(ctx, "test", key, int64(1))
		b.Value, _ = v.(int64)
	case "cas":
		b.OK, err = d.CAS(ctx, "test", key, Compare{Version: &a.Version}, a.Value)
	case "delete":
		b.OK, err = d.Delete(ctx, "test", key)
	case "update":
		err = d.Update(ctx, "test", map[string]any{"k0": a.Value, "k1": a.Value + 1}, SetOptions{})
	case "move":
		err = d.Transact(ctx, "test", func(tx *Tx) error {
			for i, by := range []int64{-1, 1} {
				v, _ := tx.Get(linearKeys[i])
				n, _ := v.(int64)
				if err := tx.Set(linearKeys[i], n+by, SetOptions{}); err != nil {
					return err
				}
			}
			return nil
		})
	case "snapshot":
		m := read.Snapshot("k")
		b.Value, _ = m["k0"].(int64)
		b.Other, _ = m["k1"].(int64)
	}
	return b, err
}

var allOps = []string{"get", "get", "set", "incr", "cas", "delete", "update", "move", "snapshot"}

// quick is a file in memory: what crashes here is the process, not the machine.
func quick(t *testing.T) Options {
	dir, err := os.MkdirTemp("/dev/shm", "linear")
	if err != nil {
		return file(t)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return Options{Path: filepath.Join(dir, "b.db")}
}

// crash makes a board as one whose process was killed: from a moment between
// two commits on nothing is written any more, and whoever waits has no answer.
func crash(d *Board) {
	d.commits.running.Lock()
	d.done = true
	_ = d.store.close()
	d.commits.running.Unlock()
}

// together lets clients work side by side.
func together(n int, f func(client int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

func checkLinear(t *testing.T, name string, m porcupine.Model, ops []porcupine.Operation) {
	t.Helper()
	if got := porcupine.CheckOperationsTimeout(m, ops, time.Minute); got == porcupine.Illegal {
		var b strings.Builder
		for _, o := range ops {
			fmt.Fprintf(&b, "%d: %+v from %d to %d: %+v\n", o.ClientId, o.Input, o.Call, o.Return, o.Output)
		}
		t.Fatalf("%s: no order explains\n%s", name, b.String())
	}
}

// TestLinearInMemory: 600 histories of a board without a file, or with one that
// is written by the window.
func TestLinearInMemory(t *testing.T) {
	for seed := range uint64(600) {
		o := Options{}
		if seed%5 == 0 {
			o = quick(t)
		}
		h := &history{}
		d := open(t, o)
		together(4, func(client int) {
			linearWork(d, d, h, client, 8, rand.New(rand.NewPCG(seed, uint64(client))), allOps)
		})
		checkLinear(t, fmt.Sprint("seed ", seed), boardModel, h.ops)
	}
}

// TestLinearOverCrashes: 150 histories of a board whose keys are on disk before
// anybody sees them, with two crashes in each. The version of a key that was
// deleted is not known after a crash, so nothing is deleted.
func TestLinearOverCrashes(t *testing.T) {
	cut := 0
	for seed := range uint64(150) {
		o, h := quick(t), &history{}
		for life := range uint64(3) {
			hub := bus.New(bus.Options{})
			d, err := Open(hub, o)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Declare("*", Rule{Mode: Sync}); err != nil {
				t.Fatal(err)
			}
			h.at, h.do = h.ends+1+rand.New(rand.NewPCG(seed, life)).IntN(16), func() { crash(d) }
			together(4, func(client int) {
				linearWork(d, d, h, client, 5, rand.New(rand.NewPCG(seed*10+life, uint64(client))), syncOps)
			})
			_ = d.Close() // after a crash it writes nothing
			_ = hub.Close(ctx)
		}
		for _, o := range h.ops {
			cut += int(truth(o.Output.(reply).Unknown))
		}
		checkLinear(t, fmt.Sprint("seed ", seed), boardModel, h.ops)
	}
	if cut < 100 {
		t.Errorf("%d calls were cut short: the test tests too little", cut)
	}
}

var syncOps = []string{"get", "get", "set", "incr", "cas", "update", "move", "snapshot"}

// stale is a board that gives out again what it gave out once.
type stale struct {
	*Board
	mu   sync.Mutex
	seen map[string]Entry
}

func (s *stale) Entry(key string) (Entry, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.seen[key]; ok {
		return e, true
	}
	e, ok := s.Board.Entry(key)
	if ok {
		s.seen[key] = e
	}
	return e, ok
}

// A board that gives stale answers is found out.
func TestLinearNoticesStaleReads(t *testing.T) {
	caught := 0
	for seed := range uint64(50) {
		h := &history{}
		d := open(t, Options{})
		s := &stale{Board: d, seen: map[string]Entry{}}
		together(4, func(client int) {
			linearWork(d, s, h, client, 8, rand.New(rand.NewPCG(seed, uint64(client))), allOps)
		})
		if porcupine.CheckOperationsTimeout(boardModel, h.ops, time.Minute) == porcupine.Illegal {
			caught++
		}
	}
	if caught < 40 {
		t.Errorf("%d of 50 histories with stale reads were found out", caught)
	}
}
