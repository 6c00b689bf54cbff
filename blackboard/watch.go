package blackboard

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"edged/bus"
	"edged/bus/origin"
)

// On says which sets a watcher hears of.
type On uint8

// A watcher hears of every set, or only of those that changed the value.
const (
	OnSet On = iota
	OnChange
)

// WatchOptions of one watcher; the zero value hears of every set through a
// queue of 64.
type WatchOptions struct {
	On    On
	Sync  bool // the handler runs on the setter's goroutine before Set returns
	Queue int
	Name  string // who watches, for status and error events
}

// A Change is what a watcher is told. For a posted request New is a *[Request]
// and everything else but Key and Writer is zero.
type Change struct {
	Key      string
	Old, New any
	Version  uint64
	Time     time.Time
	Writer   string
	Created  bool // there was no value
	Deleted  bool // there is no value any more
	Repeated bool // set to the value it had
}

// A Watch is one watcher of a pattern of keys.
type Watch struct {
	b       *Board
	pattern string
	o       WatchOptions
	h       func(context.Context, Change) error
	sub     *bus.Subscription // of an asynchronous one
	closed  atomic.Bool
	queue   syncQueue

	mu        sync.Mutex // guards collapsed
	collapsed map[uint64]collapse
}

// collapse is what a queue's overflow took out in front of an event.
type collapse struct {
	old      any
	created  bool
	whose    origin.Label // of old; "" = there is none
	requests []*Request
}

// Watch calls h for every committed change of the keys that match: a key, a
// prefix and a star, or "*". Per key the calls come in the order of the
// commits, each change exactly once; if the queue overflows, a key's waiting
// changes become one whose Old is the last value delivered. An error or panic
// of h is an edged/error event. Requests posted to a matching key come too,
// those that wait already first; h may answer them with [Board.Reply].
//
// With Sync, h runs before Set returns, on the setter's goroutine, and what it
// takes the setter waits for.
func (b *Board) Watch(pattern string, o WatchOptions, h func(ctx context.Context, c Change) error) (*Watch, error) {
	if err := checkPattern(pattern); err != nil {
		return nil, fmt.Errorf("blackboard: watch: %w", err)
	}
	if o.Name == "" {
		o.Name = "watch " + pattern
	}
	w := &Watch{b: b, pattern: pattern, o: o, h: h}
	if o.Sync {
		b.watches.add(b, w)
	} else {
		s, err := b.bus.Handle(filter(boardRoom, pattern), bus.Queue{
			Limit: o.Queue, Overflow: bus.Collapse, Merge: w.merge, Where: w.wants,
			Also: []string{filter(requestRoom, pattern)}, Name: o.Name,
		}, w.handle)
		if err != nil {
			return nil, fmt.Errorf("blackboard: watch %s: %w", pattern, err)
		}
		w.sub = s
		b.watches.keep(w)
	}
	b.offerWaiting(w)
	return w, nil
}

// Close ends the watch: nothing is delivered after it returns, but a handler
// that is running is not waited for. It may be called more than once.
func (w *Watch) Close() {
	if w.closed.Swap(true) {
		return
	}
	if w.sub != nil {
		w.sub.Close()
	}
	w.b.watches.remove(w.b, w)
}

// Hand ends the watch and lets another one take over the changes that waited, as
// far as it watches for them; lost are the keys of the others. Requests are not
// among them: those that are open were offered to the other one when it began.
func (w *Watch) Hand(to *Watch) (moved int, lost []string) {
	if w.sub == nil {
		w.Close()
		return 0, nil
	}
	defer w.b.watches.remove(w.b, w)
	for _, e := range w.sub.Hand() {
		w.mu.Lock()
		c, merged := w.collapsed[e.Seq]
		delete(w.collapsed, e.Seq)
		w.mu.Unlock()
		n, change := e.Value().(*note)
		switch {
		case !change:
		case to == nil || to.sub == nil || !to.wants(e):
			lost = append(lost, n.key)
		default:
			to.mu.Lock()
			if merged {
				if to.collapsed == nil {
					to.collapsed = map[uint64]collapse{}
				}
				to.collapsed[e.Seq] = collapse{old: c.old, created: c.created}
			}
			to.mu.Unlock()
			if to.sub.Push(e) {
				moved++
			} else {
				lost = append(lost, n.key)
			}
		}
	}
	return moved, lost
}

// Hold lets the handler begin nothing more until release is called.
func (w *Watch) Hold() (release func()) {
	if w.sub == nil {
		return func() {}
	}
	return w.sub.Hold()
}

// Idle reports that the handler is through with everything that was committed;
// one with Sync always is.
func (w *Watch) Idle() bool { return w.sub == nil || w.sub.Idle() }

// Collapsed is the number of changes that an overflow merged into later ones.
func (w *Watch) Collapsed() uint64 {
	if w.sub == nil {
		return 0
	}
	return w.sub.Stats().Replaced
}

// filter is the narrowest bus filter that covers a pattern in a room.
func filter(room, pattern string) string {
	p, prefix := strings.CutSuffix(pattern, "*")
	t := topic(room, p)
	if !prefix {
		return t
	}
	return t[:strings.LastIndexByte(t, '/')+1] + "#"
}

// wants is asked before the queue.
func (w *Watch) wants(e bus.Event) bool {
	switch p := e.Value().(type) {
	case *note:
		return w.hears(p)
	case *Request:
		return covers(w.pattern, p.Key)
	case *offer:
		return p.only == w
	}
	return false // somebody else's event under our topic
}

func (w *Watch) hears(n *note) bool {
	return (w.o.On != OnChange || !n.repeat) && covers(w.pattern, n.key)
}

// merge keeps of a queued event that gives way to a newer one of its key what
// the handler must still be told.
func (w *Watch) merge(queued, newer bus.Event) bus.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, again := w.collapsed[queued.Seq]
	delete(w.collapsed, queued.Seq)
	switch p := queued.Value().(type) {
	case *note:
		if !again {
			c.old, c.created, c.whose = p.old, p.created, queued.Origin()
		}
	default:
		c.requests = append(c.requests, requestOf(p))
	}
	if w.collapsed == nil {
		w.collapsed = map[uint64]collapse{}
	}
	w.collapsed[newer.Seq] = c
	return newer
}

func (w *Watch) handle(ctx context.Context, e bus.Event) error {
	var c collapse
	var merged bool
	w.mu.Lock()
	if len(w.collapsed) > 0 {
		c, merged = w.collapsed[e.Seq]
		delete(w.collapsed, e.Seq)
	}
	w.mu.Unlock()
	if w.closed.Load() {
		return nil
	}
	n, ok := e.Value().(*note)
	if !ok {
		var errs []error
		for _, r := range append(c.requests, requestOf(e.Value())) {
			errs = append(errs, w.h(ctx, r.change()))
		}
		return errors.Join(errs...)
	}
	ch := n.change()
	if merged {
		ch.Old, ch.Created = c.old, c.created
		if c.whose != "" {
			origin.Raise(ctx, c.whose)
		}
		ch.Repeated = false
		if w.o.On == OnChange && !ch.Deleted && !ch.Created && same(ch.Old, ch.New) {
			return nil // it went back to what the handler knows
		}
	}
	return w.h(ctx, ch)
}

func requestOf(payload any) *Request {
	if o, ok := payload.(*offer); ok {
		return o.Request
	}
	return payload.(*Request)
}

// A note is the payload of a board/<key> event.
type note struct {
	bus.Cell
	key      string
	old, new any
	version  uint64
	at       int64
	writer   string
	created  bool
	deleted  bool
	repeat   bool
}

// Tree is the payload that everybody but a watcher sees.
func (n *note) Tree() any {
	t := map[string]any{"old": n.old, "new": n.new, "version": int64(n.version), "writer": n.writer}
	if n.deleted {
		t["deleted"] = true
	}
	return t
}

func (n *note) change() Change {
	return Change{
		Key: n.key, Old: n.old, New: n.new, Version: n.version, Time: time.Unix(0, n.at).UTC(), Writer: n.writer,
		Created: n.created, Deleted: n.deleted, Repeated: n.repeat,
	}
}

// watches are the watchers of a board.
type watches struct {
	mu   sync.Mutex // guards all
	all  []*Watch
	sync []*Watch // guarded by Board.mu; copied on change
	gen  uint64   // guarded by Board.mu
}

func (ws *watches) keep(w *Watch) {
	ws.mu.Lock()
	ws.all = append(ws.all, w)
	ws.mu.Unlock()
}

func (ws *watches) add(b *Board, w *Watch) {
	ws.keep(w)
	b.mu.Lock()
	ws.sync = append(slices.Clone(ws.sync), w)
	ws.gen++
	b.mu.Unlock()
}

func (ws *watches) remove(b *Board, w *Watch) {
	is := func(o *Watch) bool { return o == w }
	ws.mu.Lock()
	ws.all = slices.DeleteFunc(ws.all, is)
	ws.mu.Unlock()
	if w.o.Sync {
		b.mu.Lock()
		ws.sync = slices.DeleteFunc(slices.Clone(ws.sync), is)
		ws.gen++
		b.mu.Unlock()
	}
}

func (ws *watches) close() {
	ws.mu.Lock()
	all := slices.Clone(ws.all)
	ws.mu.Unlock()
	for _, w := range all {
		w.Close()
	}
}

// matching lists the sync watches of a key; the caller holds mu.
func (ws *watches) matching(key string) []*Watch {
	var out []*Watch
	for _, w := range ws.sync {
		if covers(w.pattern, key) {
			out = append(out, w)
		}
	}
	return out
}

func recovered(p any) error { return &panicked{p, debug.Stack()} }

// panicked is a recovered panic of a handler.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string          { return fmt.Sprintf("panic: %v", p.value) }
func (p *panicked) Fields() map[string]any { return map[string]any{"backtrace": string(p.stack)} }
