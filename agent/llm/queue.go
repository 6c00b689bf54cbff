package llm

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"time"
)

// Nothing in this file starts a goroutine: who waits, waits on its own.

// QueueOptions of a [Queue]; the zero value is right for one local server.
type QueueOptions struct {
	InFlight int // requests that run at a time; 0 is 1
	Limit    int // requests that wait; 0 is 64
	// Patience is how often a request may be passed over by a later one of its
	// priority whose prompt begins as the last one did; 0 is 4, below 0 never.
	Patience int
}

// A Queue stands in front of one model server. It lets few requests run at a
// time; the rest wait, [Safety] before [Person] before [Workflow] before
// [Background] (see [WithPriority]). So a society of long turns delays a
// person by no more than the request that is running.
//
// Priorities are strict: background work waits as long as there is other work.
// Among equals the oldest is next, unless a later one is warm: the server has
// just read the beginning of its prompt and needs not read it again. When the
// queue is full a request takes the place of the youngest of the lowest
// priority below its own, which gets [ErrQueueFull]; if there is none it gets
// that error itself.
//
// A request waits no longer than its context, so time in the queue counts in
// every timeout. A Queue may be used concurrently, but not by a model from
// within its own Chat.
type Queue struct {
	opt  QueueOptions
	seed maphash.Seed

	mu      sync.Mutex // guards the rest
	running int
	waiting int
	lines   [Safety + 1][]*waiter // oldest first
	recent  []prefix              // of the last InFlight requests, newest last
	stats   [Safety + 1]QueueLine
}

// QueueLine is what is known about the requests of one priority.
type QueueLine struct {
	Priority  string        `json:"priority"`
	Waiting   int           `json:"waiting"`
	Served    uint64        `json:"served"`    // ran to an end, well or not
	Refused   uint64        `json:"refused"`   // the queue was full
	Cancelled uint64        `json:"cancelled"` // their context ended while they waited
	Warm      uint64        `json:"warm"`      // taken before their turn, because they were warm
	Waited    time.Duration `json:"waited"`    // all together, of those that ran
	Longest   time.Duration `json:"longest"`   // of those that ran
}

// QueueStatus is the state of a [Queue], for people who look.
type QueueStatus struct {
	InFlight int         `json:"in_flight"` // how many may run
	Limit    int         `json:"limit"`     // how many may wait
	Running  int         `json:"running"`
	Waiting  int         `json:"waiting"`
	Lines    []QueueLine `json:"lines"` // from Safety to Background
}

// A waiter is a request whose turn has not come.
type waiter struct {
	prefix prefix
	since  time.Time
	passed int        // how often a later one was taken instead
	turn   chan error // nil: it runs; else it lost its place
}

// NewQueue makes a queue for one server.
func NewQueue(o QueueOptions) *Queue {
	if o.InFlight <= 0 {
		o.InFlight = 1
	}
	if o.Limit <= 0 {
		o.Limit = 64
	}
	if o.Patience == 0 {
		o.Patience = 4
	}
	return &Queue{opt: o, seed: maphash.MakeSeed()}
}

// Front puts the queue in front of a model of its server. All models of one
// server belong behind the same queue, each once.
func (q *Queue) Front(m Model) Model { return &queued{q, m} }

// Status says who runs, who waits and who has waited.
func (q *Queue) Status() QueueStatus {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := QueueStatus{InFlight: q.opt.InFlight, Limit: q.opt.Limit, Running: q.running, Waiting: q.waiting}
	for p := Safety; p >= Background; p-- {
		l := q.stats[p]
		l.Priority, l.Waiting = p.String(), len(q.lines[p])
		s.Lines = append(s.Lines, l)
	}
	return s
}

// String is the priority's name as scripts write it.
func (p Priority) String() string {
	switch p {
	case Background:
		return "background"
	case Workflow:
		return "workflow"
	case Person:
		return "person"
	case Safety:
		return "safety"
	}
	return fmt.Sprintf("priority %d", int(p))
}

// enter returns when the request may run; then leave must follow.
func (q *Queue) enter(ctx context.Context, p Priority, pre prefix) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q.mu.Lock()
	if q.running < q.opt.InFlight {
		q.start(p, pre, 0)
		q.mu.Unlock()
		return nil
	}
	if q.waiting >= q.opt.Limit && !q.displace(p) {
		q.stats[p].Refused++
		q.mu.Unlock()
		return q.full()
	}
	w := &waiter{prefix: pre, since: time.Now(), turn: make(chan error, 1)}
	q.lines[p] = append(q.lines[p], w)
	q.waiting++
	q.mu.Unlock()

	select {
	case err := <-w.turn:
		return err
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.lines[p], w); i >= 0 {
		q.remove(p, i)
	} else if err := <-w.turn; err != nil {
		return err // lost its place in the same moment
	} else {
		q.running-- // its turn came in the same moment
		q.next()
	}
	q.stats[p].Cancelled++
	return fmt.Errorf("llm: waited %v in the queue: %w", time.Since(w.since).Round(time.Millisecond), ctx.Err())
}

func (q *Queue) leave(p Priority) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stats[p].Served++
	q.running--
	q.next()
}

// start counts a request as running. q.mu is held, as in all below.
func (q *Queue) start(p Priority, pre prefix, waited time.Duration) {
	q.running++
	s := &q.stats[p]
	s.Waited += waited
	s.Longest = max(s.Longest, waited)
	if len(q.recent) == q.opt.InFlight {
		copy(q.recent, q.recent[1:])
		q.recent = q.recent[:len(q.recent)-1]
	}
	q.recent = append(q.recent, pre)
}

// next gives a free place to who is to have it.
func (q *Queue) next() {
	for p := Safety; p >= Background; p-- {
		line := q.lines[p]
		if len(line) == 0 {
			continue
		}
		i := q.choose(line)
		for _, w := range line[:i] {
			w.passed++
		}
		if i > 0 {
			q.stats[p].Warm++
		}
		w := line[i]
		q.remove(p, i)
		q.start(p, w.prefix, time.Since(w.since))
		w.turn <- nil
		return
	}
}

// choose is who of one line is next: the oldest, or a warm one while the
// oldest has patience.
func (q *Queue) choose(line []*waiter) int {
	best := 0
	if len(line) == 1 || line[0].passed >= q.opt.Patience {
		return best
	}
	most := q.warmth(line[0]) + worthwhile - 1
	for i, w := range line[1:] {
		if n := q.warmth(w); n > most {
			best, most = i+1, n
		}
	}
	return best
}

func (q *Queue) remove(p Priority, i int) {
	q.lines[p] = slices.Delete(q.lines[p], i, i+1)
	q.waiting--
}

// displace takes the place of the youngest of the lowest priority below p.
func (q *Queue) displace(p Priority) bool {
	for low := Background; low < p; low++ {
		if n := len(q.lines[low]); n > 0 {
			w := q.lines[low][n-1]
			q.remove(low, n-1)
			q.stats[low].Refused++
			w.turn <- q.full()
			return true
		}
	}
	return false
}

func (q *Queue) full() error {
	return &Trouble{
		Err:    fmt.Errorf("llm: queue: %w: %d do", ErrQueueFull, q.opt.Limit),
		Remedy: "ask less often, give the work a higher priority, or raise the queue's limit",
	}
}

// A prefix is what a server has to read to answer a request, as far as that
// tells whether it has read it before. It shares no memory that may change.
type prefix struct {
	model *queued
	tools uint64
	texts []string
}

// worthwhile is by how many bytes a prompt must be warmer than the oldest to
// be taken first: below that reading it anew costs less than being unfair.
const worthwhile = 256

// sameModel makes a model that is in memory warmer than any prompt can.
const sameModel = 1 << 30

func (q *Queue) prefix(m *queued, r Request) prefix {
	p := prefix{model: m, texts: make([]string, len(r.Messages))}
	for i := range r.Messages {
		p.texts[i] = r.Messages[i].Text
	}
	if len(r.Tools) > 0 {
		var h maphash.Hash
		h.SetSeed(q.seed)
		for _, t := range r.Tools {
			h.WriteString(t.Name)
			h.WriteByte(0)
			h.WriteString(t.Doc)
			h.WriteByte(0)
			h.Write(t.Params)
			h.WriteByte(0)
		}
		p.tools = h.Sum64()
	}
	return p
}

// warmth is how many bytes of a prompt the server has read lately.
func (q *Queue) warmth(w *waiter) int {
	most := 0
	for _, r := range q.recent {
		most = max(most, w.prefix.shared(r))
	}
	return most
}

func (p prefix) shared(other prefix) int {
	if p.model != other.model {
		return 0
	}
	n := sameModel
	for i := range min(len(p.texts), len(other.texts)) {
		a, b := p.texts[i], other.texts[i]
		// Templates put the tools behind the first message.
		if a == b && p.tools == other.tools {
			n += len(a)
			continue
		}
		k := 0
		for k < len(a) && k < len(b) && a[k] == b[k] {
			k++
		}
		return n + k
	}
	return n
}

// queued is a model behind a queue.
type queued struct {
	q *Queue
	m Model
}

var (
	_ Describer = (*queued)(nil)
	_ Embedder  = (*queued)(nil)
	_ Warmer    = (*queued)(nil)
)

func (f *queued) Chat(ctx context.Context, r Request, say func(string) error) (Message, error) {
	p := min(max(PriorityOf(ctx), Background), Safety)
	if err := f.q.enter(ctx, p, f.q.prefix(f, r)); err != nil {
		return Message{}, err
	}
	defer f.q.leave(p)
	return f.m.Chat(ctx, r, say)
}

// Describe does not wait: a server tells what it can do while it works.
func (f *queued) Describe(ctx context.Context) (Info, error) { return Describe(ctx, f.m) }

func (f *queued) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	e, ok := f.m.(Embedder)
	if !ok {
		return nil, fmt.Errorf("llm: embed: %w", ErrNoEmbedding)
	}
	p := min(max(PriorityOf(ctx), Background), Safety)
	if err := f.q.enter(ctx, p, prefix{model: f}); err != nil {
		return nil, err
	}
	defer f.q.leave(p)
	return e.Embed(ctx, texts)
}

func (f *queued) Warm(ctx context.Context) error {
	w, ok := f.m.(Warmer)
	if !ok {
		return nil
	}
	p := min(max(PriorityOf(ctx), Background), Safety)
	if err := f.q.enter(ctx, p, prefix{model: f}); err != nil {
		return err
	}
	defer f.q.leave(p)
	return w.Warm(ctx)
}

// ErrNoEmbedding is what a model says that turns no text into vectors.
var ErrNoEmbedding = errors.New("model has no embeddings")

// Describe gives what a model says it can do. One that says nothing is taken
// to do all, and to embed if it has the method.
func Describe(ctx context.Context, m Model) (Info, error) {
	if d, ok := m.(Describer); ok {
		return d.Describe(ctx)
	}
	_, embeds := m.(Embedder)
	return Info{Tools: true, Thinking: true, Schema: true, Embed: embeds}, nil
}
