package blackboard

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// One commit carries everything that is not on disk yet, so what is on disk is
// always a beginning of what happened. Group changes wait for the window's
// timer; whoever needs the disk now leads a commit on its own goroutine, and
// those who come while it writes share the next one.

// committer collects what goes to the file.
type committer struct {
	running sync.Mutex // held by the one commit that writes; taken before Board.mu

	// guarded by running
	news   []news
	unread bool      // the file could not even be read
	tried  time.Time // when opening the file failed last

	// guarded by Board.mu
	dirty   []*entry // keys whose record in the file is not current
	extra   []put    // everything else that is not written yet, in order
	next    *batch   // collecting those who wait for the disk
	window  *time.Timer
	armed   bool
	retry   *time.Timer
	pause   time.Duration // until the next retry
	trouble *StoreError   // why nothing can be written now

	// doubt has the records of commits that failed. The file may hold them
	// or not, so the next commit writes them as memory has them.
	doubt map[record]struct{}

	snapshot *time.Timer
	changed  bool // since the last snapshot
	snapping sync.Mutex
}

// batch is one commit and those who wait for it.
type batch struct {
	ops     []*op
	wants   bool          // somebody needs it
	applied chan struct{} // closed when the outcome is visible

	staged  map[*entry][]state // what ops make of keys, in order
	overlay map[*entry]state   // the last of them
	keys    []capture
	puts    []put // of ops
	settled []put // records in doubt
	extra   []put // taken from committer.extra
}

// op is one caller's part of a commit. Both functions run under Board.mu.
type op struct {
	name    string
	prepare func(*batch) error // says what to write; an error takes the op out
	finish  func(error)        // after the commit, in the order of the ops
	err     error
	out     bool
}

// capture is a key as it goes into a commit.
type capture struct {
	e     *entry
	s     state
	was   bool    // the key was dirty
	saves []state // history to add
	drops []uint64
}

// stage puts a write of an op into the commit; the caller holds mu.
func (t *batch) stage(w write) {
	if t.overlay == nil {
		t.overlay, t.staged = map[*entry]state{}, map[*entry][]state{}
	}
	w.e.flight = t
	if !w.repeat {
		t.wants = true
		t.overlay[w.e] = w.s
		t.staged[w.e] = append(t.staged[w.e], w.s)
		return
	}
	if _, ok := t.overlay[w.e]; !ok {
		t.overlay[w.e] = w.e.state
		t.wants = t.wants || w.e.dirty
	}
}

// add puts a record into the commit; the caller holds mu.
func (t *batch) add(p put) {
	t.wants = true
	t.puts = append(t.puts, p)
}

// soil marks a key for the next commit; the caller holds mu.
func (b *Board) soil(e *entry) {
	if e.dirty {
		return
	}
	e.dirty = true
	b.commits.dirty = append(b.commits.dirty, e)
	b.arm()
}

// later adds puts to the next commit; the caller holds mu.
func (b *Board) later(p ...put) {
	if b.store == nil {
		return
	}
	b.commits.extra = append(b.commits.extra, p...)
	b.arm()
}

// arm starts the window's timer at the first change; the caller holds mu.
func (b *Board) arm() {
	c := &b.commits
	if c.armed || c.trouble != nil {
		return
	}
	c.armed = true
	if c.window == nil {
		c.window = time.AfterFunc(b.opt.Window, func() { _ = b.lead(nil) })
	} else {
		c.window.Reset(b.opt.Window)
	}
}

// refuse gives the error of a change that can't be made durable now; the
// caller holds mu.
func (c *committer) refuse(op, key string) error {
	if c.trouble == nil {
		return nil
	}
	return fmt.Errorf("blackboard: %s %s: %w", op, key, c.trouble)
}

// commitOp takes part in the next commit and waits for it. If the op made it,
// then is called, without a lock, even when the caller has given up waiting.
func (b *Board) commitOp(ctx context.Context, o *op, then func()) error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return fmt.Errorf("blackboard: %s: %w", o.name, ErrClosed)
	}
	t := b.commits.next
	lead := t == nil
	if lead {
		t = &batch{applied: make(chan struct{})}
		b.commits.next = t
	}
	t.ops = append(t.ops, o)
	b.mu.Unlock()
	if lead {
		_ = b.lead(t)
	} else {
		select {
		case <-t.applied:
		case <-ctx.Done():
			time.AfterFunc(0, func() {
				<-t.applied
				o.after(then)
			})
			return fmt.Errorf("blackboard: %s: gave up waiting for the disk: %w", o.name, ctx.Err())
		}
	}
	o.after(then)
	return o.err
}

func (o *op) after(then func()) {
	if o.err == nil && then != nil {
		then()
	}
}

// lead runs one commit: for the ops of t, if any, and for everything that is
// not written yet.
func (b *Board) lead(t *batch) error {
	b.commits.running.Lock()
	err := b.commit(t)
	news := b.commits.news
	b.commits.news = nil
	b.commits.running.Unlock()
	b.publish(news) // whoever hears of it may want the next commit
	b.bus.Deliver()
	return err
}

// commit is lead's work; the caller holds running.
func (b *Board) commit(t *batch) error {
	c := &b.commits
	b.mu.Lock()
	if t == nil {
		t = &batch{applied: make(chan struct{}), wants: len(c.dirty)+len(c.extra) > 0 || c.trouble != nil}
	} else {
		c.next = nil
	}
	for _, o := range t.ops {
		o.err = o.prepare(t)
		o.out = o.err != nil
	}
	var err error
	if t.wants {
		b.capture(t)
		b.mu.Unlock()
		err = b.writeOut(t)
		b.mu.Lock()
	}
	t.conclude(b, err)
	b.mu.Unlock()
	return err
}

// capture takes all that is not written yet; the caller holds mu.
func (b *Board) capture(t *batch) {
	c := &b.commits
	c.armed = false
	if c.window != nil {
		c.window.Stop()
	}
	t.keys = make([]capture, 0, len(c.dirty)+len(t.overlay))
	for _, e := range c.dirty {
		e.dirty = false
		s, ok := t.overlay[e]
		if !ok {
			s = e.state
		}
		t.keys = append(t.keys, e.capture(s, true, t.staged[e]))
		delete(t.staged, e)
	}
	clear(c.dirty)
	c.dirty = c.dirty[:0]
	for e, staged := range t.staged {
		t.keys = append(t.keys, e.capture(t.overlay[e], false, staged))
	}
	t.extra, c.extra = c.extra, nil
	t.settled = b.settle()
}

func (e *entry) capture(s state, dirty bool, staged []state) capture {
	k := capture{e: e, s: s, was: dirty}
	if s.present && s.keep {
		e.disk = true
	}
	if n := e.depth(); n > 0 && s.keep {
		k.saves, k.drops = e.historyToSave(n, staged)
	}
	return k
}

// conclude makes the outcome of a commit visible; the caller holds mu.
func (t *batch) conclude(b *Board, err error) {
	for e := range t.overlay {
		e.flight = nil
	}
	for _, k := range t.keys {
		switch {
		case err == nil && !(k.s.present && k.s.keep):
			k.e.disk = false
		case err != nil && k.was && !k.e.dirty:
			k.e.dirty = true
			b.commits.dirty = append(b.commits.dirty, k.e)
		}
		if err != nil {
			k.e.forget = append(k.drops, k.e.forget...)
		} else if len(k.saves) > 0 {
			k.e.saved(k.saves[len(k.saves)-1].version)
		}
	}
	if err != nil && len(t.extra) > 0 {
		b.commits.extra = append(t.extra, b.commits.extra...)
	}
	for _, o := range t.ops {
		if !o.out && err != nil {
			o.err = fmt.Errorf("blackboard: %s: %w", o.name, err)
		}
		o.finish(o.err)
	}
	for _, k := range t.keys {
		b.sweep(k.e)
	}
	if err == nil && b.commits.trouble == nil && len(b.commits.dirty)+len(b.commits.extra) > 0 {
		b.arm()
	}
	close(t.applied)
}

// Flush writes everything that is not on disk yet and waits for it.
func (b *Board) Flush(ctx context.Context) error {
	if b.store == nil {
		return nil
	}
	return b.commitOp(ctx, &op{
		name: "flush",
		prepare: func(t *batch) error {
			t.wants = t.wants || len(b.commits.dirty)+len(b.commits.extra) > 0
			return nil
		},
		finish: func(error) {},
	}, nil)
}
