package fault

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"edged/blackboard"
	"edged/bus"
)

// The writer: a process that works on a board and acknowledges what it did.
//
// Each of its goroutines g makes steps 1, 2, 3 … and step n sets the key
// o/<g>/<n mod 5>, so the five newest steps can be read back and the newest
// tells which ones must be there. The value repeats what else the step changed
// and names a step of another goroutine that was visible before.

// job is what a writer is to do.
type job struct {
	Path     string
	Acks     string        // file for the acknowledgements; "" = standard output
	Mode     string        // mixed, sync, group, requests, journal
	Writers  int           // goroutines
	Window   time.Duration // of the board
	Snapshot time.Duration // of the board
	Pause    time.Duration // after each step
	Round    int           // marks what this process writes
	Seed     uint64
	Beat     time.Duration // how often a memory key is set, to see that the rest of the robot goes on; 0 = never
}

// slots is how many of its newest steps a goroutine leaves on the board.
const slots = 5

// An acknowledgement is a line "<what> <round> <g> <n> <Unix nanoseconds>".
const (
	ackSync    = "s" // all steps up to n are on disk
	ackGroup   = "v" // step n is visible
	ackRequest = "r" // request n is on disk
	ackAppend  = "j" // journal record n is on disk
	ackRemove  = "x" // journal record n is about to be removed
	ackHistory = "h" // value n of the key with history is on disk
	ackRecord  = "p" // named record n is on disk
)

// And what the writer tells its parent on standard output.
const (
	tellReady = "R" // the board is open
	tellEvent = "E" // <topic> <payload>: about the board
	tellFail  = "F" // <what> <error>: a step failed and is tried again
	tellBeat  = "B" // a memory key was set
	tellDone  = "D" // the board is closed
)

type writer struct {
	job
	b     *bus.Bus
	board *blackboard.Board
	log   *blackboard.Journal
	room  *blackboard.Records
	done  []atomic.Int64 // by goroutine: the newest step that is visible

	mu   sync.Mutex // guards out, acks
	out  io.Writer
	acks io.Writer
}

// runWriter works until standard input ends.
func runWriter() int {
	w := &writer{out: os.Stdout, acks: os.Stdout}
	err := json.Unmarshal([]byte(os.Getenv(envConfig)), &w.job)
	if err == nil {
		err = w.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (w *writer) run() error {
	if w.Acks != "" {
		f, err := os.OpenFile(w.Acks, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		w.acks = f
	}
	w.b = bus.New(bus.Options{})
	if _, err := w.b.Tap("edged/#", func(e bus.Event) {
		text, _ := e.JSON()
		w.tell("%s %s %s\n", tellEvent, e.Topic, text)
	}); err != nil {
		return err
	}
	var err error
	if w.board, err = blackboard.Open(w.b, blackboard.Options{Path: w.Path, Window: w.Window, Snapshot: w.Snapshot}); err != nil {
		return err
	}
	if err := w.start(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, bufio.NewReader(os.Stdin))
		cancel()
	}()
	w.tell("%s\n", tellReady)
	var all sync.WaitGroup
	for g := range w.Writers {
		all.Go(func() { w.work(ctx, g) })
	}
	if w.Beat > 0 {
		all.Go(func() { w.beat(ctx) })
	}
	all.Wait()
	if err := w.board.Close(); err != nil {
		w.tell("%s close %v\n", tellFail, err)
	}
	w.tell("%s\n", tellDone)
	return nil
}

// start declares the rules and takes over what earlier rounds left.
func (w *writer) start() error {
	w.done = make([]atomic.Int64, w.Writers)
	for g := range w.Writers {
		for _, c := range newest(w.board, g) {
			w.done[g].Store(c.n)
		}
	}
	if err := w.board.Declare("h/*", blackboard.Rule{Mode: blackboard.Sync, History: slots}); err != nil {
		return err
	}
	var err error
	if w.log, err = w.board.Journal("log", blackboard.JournalOptions{}); err != nil {
		return err
	}
	w.room = w.board.Records("room")
	for id := range w.log.All() {
		if err := w.log.Remove(id); err != nil {
			return err
		}
	}
	// Half of the requests of this round are left for whoever comes after.
	_, err = w.board.Volunteer("work", blackboard.VolunteerOptions{Concurrency: 2, Accept: func(task any) (bool, error) {
		t := readTask(task)
		return t.round != int64(w.Round) || t.n%2 == 0, nil
	}}, func(_ context.Context, r *blackboard.Request) (any, error) { return r.Task, nil })
	return err
}

func (w *writer) tell(format string, a ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(w.out, format, a...)
}

func (w *writer) ack(what string, g int, n int64) {
	line := fmt.Sprintf("%s %d %d %d %d\n", what, w.Round, g, n, time.Now().UnixNano())
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = io.WriteString(w.acks, line)
}

func (w *writer) beat(ctx context.Context) {
	for n := int64(0); ctx.Err() == nil; n++ {
		if _, err := w.board.Set(ctx, "beat", "beat", n, blackboard.SetOptions{Mode: blackboard.Memory}); err != nil {
			w.tell("%s beat %v\n", tellFail, err)
		}
		w.tell("%s %d\n", tellBeat, n)
		time.Sleep(w.Beat)
	}
}

// hand is one goroutine's view of its own past.
type hand struct {
	*writer
	g       int
	rng     *rand.Rand
	n       int64 // last step
	u       int64 // step that set u/<g>
	d       bool  // d/<g> is there
	posted  int64
	append  int64
	ids     []uint64 // of the journal, oldest first
	numbers []int64
	history int64
	record  int64
}

func (w *writer) work(ctx context.Context, g int) {
	h := &hand{writer: w, g: g, rng: rand.New(rand.NewPCG(w.Seed, uint64(g)))}
	if all := newest(w.board, g); len(all) > 0 {
		last := all[len(all)-1]
		h.n, h.u, h.d = last.n, last.u, last.d
		w.ack(ackSync, g, h.n)
	}
	if v, ok := w.board.Get(fmt.Sprintf("h/%d", g)); ok {
		h.history, _ = v.(int64)
	}
	for ctx.Err() == nil {
		var err error
		switch w.Mode {
		case "sync":
			err = h.step(ctx, blackboard.Sync)
		case "group":
			err = h.step(ctx, blackboard.Group)
		case "requests":
			err = h.post(ctx)
		case "journal":
			err = h.log1()
		default:
			err = h.any(ctx)
		}
		pause := w.Pause
		if err != nil {
			w.tell("%s %v\n", tellFail, strings.ReplaceAll(err.Error(), "\n", " | "))
			pause = 5 * time.Millisecond
		}
		if pause > 0 {
			time.Sleep(pause)
		}
	}
}

// any does one thing of all that a board can do.
func (h *hand) any(ctx context.Context) error {
	switch k := h.rng.IntN(100); {
	case k < 8:
		return h.post(ctx)
	case k < 20:
		return h.log1()
	case k < 26:
		return h.remember(ctx)
	case k < 32:
		return h.note(ctx)
	case k < 60:
		return h.step(ctx, blackboard.Sync)
	}
	return h.step(ctx, blackboard.Group)
}

// cell is what a step leaves in its slot.
type cell struct {
	n       int64
	u       int64
	d       bool
	other   int64 // a goroutine
	saw     int64 // its newest step that was visible before
	version uint64
}

func (h *hand) value(c cell) map[string]any {
	return map[string]any{"n": c.n, "u": c.u, "d": c.d, "other": c.other, "saw": c.saw, "pad": padding(h.g, c.n)}
}

// padding is mostly short, sometimes a page, rarely ten pages.
func padding(g int, n int64) string {
	k := int(n*7+int64(g)) % 20
	switch {
	case n%97 == 0:
		k = 4000
	case n%13 == 0:
		k = 400
	}
	return strings.Repeat(fmt.Sprintf("%d/%d ", g, n), k)
}

// step makes the next step in one of the ways to write several keys.
func (h *hand) step(ctx context.Context, mode blackboard.Mode) error {
	c := cell{n: h.n + 1, u: h.u, d: h.d, other: int64((h.g + 1) % h.Writers)}
	c.saw = h.done[c.other].Load()
	key := fmt.Sprintf("o/%d/%d", h.g, c.n%slots)
	ukey, dkey := fmt.Sprintf("u/%d", h.g), fmt.Sprintf("d/%d", h.g)
	me := fmt.Sprintf("hand:%d", h.g)
	o := blackboard.SetOptions{Mode: mode}
	var err error
	switch k := h.rng.IntN(10); {
	case h.Mode == "mixed" && k < 2:
		c.u = c.n
		err = h.board.Update(ctx, me, map[string]any{key: h.value(c), ukey: c.n}, o)
	case h.Mode == "mixed" && k < 4:
		c.d = !c.d
		err = h.board.Transact(ctx, me, func(t *blackboard.Tx) error {
			if c.d {
				if err := t.Set(dkey, c.n, o); err != nil {
					return err
				}
			} else {
				t.Delete(dkey)
			}
			return t.Set(key, h.value(c), o)
		})
	case h.Mode == "mixed" && k < 5 && mode == blackboard.Group:
		var version uint64
		if e, ok := h.board.Entry(key); ok {
			version = e.Version
		}
		var ok bool
		if ok, err = h.board.CAS(ctx, me, key, blackboard.Compare{Version: &version}, h.value(c)); err == nil && !ok {
			err = fmt.Errorf("cas of %s, version %d: somebody else writes it", key, version)
		}
	default:
		_, err = h.board.Set(ctx, me, key, h.value(c), o)
	}
	if err != nil {
		return err
	}
	h.n, h.u, h.d = c.n, c.u, c.d
	h.done[h.g].Store(h.n)
	if mode == blackboard.Sync {
		h.ack(ackSync, h.g, h.n)
	} else {
		h.ack(ackGroup, h.g, h.n)
		_, _ = h.board.Set(ctx, me, fmt.Sprintf("m/%d", h.g), h.n, blackboard.SetOptions{Mode: blackboard.Memory})
	}
	return nil
}

type task struct{ round, g, n int64 }

func readTask(v any) task {
	l, ok := v.([]any)
	if !ok || len(l) != 3 {
		return task{round: -1}
	}
	var t task
	t.round, _ = l[0].(int64)
	t.g, _ = l[1].(int64)
	t.n, _ = l[2].(int64)
	return t
}

func (h *hand) post(ctx context.Context) error {
	n := h.posted + 1
	h.posted = n // a failed one may be on disk nevertheless
	_, err := h.board.Post(ctx, "writer", "work", []any{int64(h.Round), int64(h.g), n}, blackboard.PostOptions{Durable: true})
	if err != nil {
		return err
	}
	h.ack(ackRequest, h.g, n)
	return nil
}

func (h *hand) log1() error {
	n := h.append + 1
	h.append = n
	id, err := h.log.Append(fmt.Appendf(nil, "%d %d %d", h.Round, h.g, n))
	if err != nil {
		return err
	}
	h.ack(ackAppend, h.g, n)
	h.ids, h.numbers = append(h.ids, id), append(h.numbers, n)
	if len(h.ids) > 40 {
		h.ack(ackRemove, h.g, h.numbers[9])
		err = h.log.Remove(h.ids[:10]...)
		h.ids, h.numbers = h.ids[10:], h.numbers[10:]
	}
	return err
}

func (h *hand) remember(ctx context.Context) error {
	n := h.history + 1
	if _, err := h.board.Set(ctx, "writer", fmt.Sprintf("h/%d", h.g), n, blackboard.SetOptions{}); err != nil {
		return err
	}
	h.history = n
	h.ack(ackHistory, h.g, n)
	return nil
}

func (h *hand) note(ctx context.Context) error {
	n := h.record + 1
	h.record = n
	if err := h.room.Put(ctx, fmt.Sprint(h.g), fmt.Appendf(nil, "%d %d", h.Round, n), true); err != nil {
		return err
	}
	h.ack(ackRecord, h.g, n)
	return nil
}

// newest gives the steps of a goroutine that the board holds, oldest first.
func newest(b *blackboard.Board, g int) []cell {
	var all []cell
	for slot := range slots {
		e, ok := b.Entry(fmt.Sprintf("o/%d/%d", g, slot))
		if !ok {
			continue
		}
		m, _ := e.Value.(map[string]any)
		c := cell{n: -1, version: e.Version}
		if n, ok := m["n"].(int64); ok && m["pad"] == padding(g, n) {
			c.n = n
		}
		c.u, _ = m["u"].(int64)
		c.d, _ = m["d"].(bool)
		c.other, _ = m["other"].(int64)
		c.saw, _ = m["saw"].(int64)
		at := len(all)
		for at > 0 && all[at-1].n > c.n {
			at--
		}
		all = append(all[:at], append([]cell{c}, all[at:]...)...)
	}
	return all
}
