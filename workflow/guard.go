package workflow

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"edged/agent"
)

// A Guard is a condition under which a node may run. Check is asked before the
// node starts, and again whenever something changes that it told of by [Read].
// It must be quick and without effects; an error counts as a failure of the
// node. Nothing is polled: a guard costs nothing while nothing changes.
type Guard struct {
	Name  string
	Check func(ctx context.Context) (bool, error)
}

// A Watcher calls changed whenever an event of one of the topics (filters may
// be among them) is published, until stop is called. changed may be called
// from any goroutine, does not block, and may come late or too often. The key
// k of the blackboard is the topic board/k.
type Watcher interface {
	Watch(topics []string, changed func()) (stop func())
}

// A GuardError is why a node was cancelled, or did not start: its guard is
// not true.
type GuardError struct {
	Name string
	of   *Guard // nil where it was read from a record
}

func (e *GuardError) reason() string { return "guard " + e.Name }
func (e *GuardError) Error() string  { return "cancelled: " + e.reason() }

// Unwrap makes it the outcome cancelled.
func (e *GuardError) Unwrap() error { return agent.ErrCancelled }

// brokenGuard is the error of a guard that could not answer.
type brokenGuard struct {
	name string
	err  error
}

func (e *brokenGuard) Error() string          { return fmt.Sprintf("failed: guard %s: %v", e.name, e.err) }
func (e *brokenGuard) Unwrap() []error        { return []error{agent.ErrFailed} }
func (e *brokenGuard) Fields() map[string]any { return noStatus{e.err}.Fields() }

// tracker collects what a guard reads.
type tracker struct {
	mu     sync.Mutex // guards topics
	topics []string
}

type trackerKey struct{}

// Read tells the guard that is being asked in this context, if any, that its
// answer depends on the topics. Whoever reads a key of the blackboard or the
// last event of a topic for a script calls it.
func Read(ctx context.Context, topics ...string) {
	t, ok := ctx.Value(trackerKey{}).(*tracker)
	if !ok {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range topics {
		if !slices.Contains(t.topics, s) {
			t.topics = append(t.topics, s)
		}
	}
}

// ask asks a guard and gives what it read.
func (g *Guard) ask(ctx context.Context) (ok bool, reads []string, err error) {
	t := &tracker{}
	err = guardedCall(func() (err error) {
		ok, err = g.Check(context.WithValue(ctx, trackerKey{}, t))
		return err
	})
	if err != nil {
		return false, t.topics, &brokenGuard{g.Name, err}
	}
	return ok, t.topics, nil
}

// hold asks the guard of a node and, if it is true, goes on watching it: halt
// is called with the reason as soon as it is not.
func (g *Guard) hold(f *frame, halt context.CancelCauseFunc) (*watch, error) {
	w := newWatch(f, g, func(ok bool, err error) {
		switch {
		case err != nil:
			halt(err)
		case !ok:
			halt(&GuardError{g.Name, g})
		}
	})
	ok, err := w.start(false)
	if err == nil && !ok {
		err = &GuardError{g.Name, g}
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// guardCause gives the guard's error that ended exactly this context, or nil.
func guardCause(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	switch e := context.Cause(ctx).(type) {
	case *GuardError:
		return e
	case *brokenGuard:
		return e
	}
	return nil
}

// A watch asks a guard again whenever something that it read changes, and
// tells each answer after the first. Idle it has no goroutine and no timer.
type watch struct {
	ctx  context.Context // its end is the end of a question under way
	end  context.CancelFunc
	g    *Guard
	by   Watcher
	tell func(ok bool, err error) // must not block
	wg   sync.WaitGroup

	mu                  sync.Mutex // guards the rest
	topics              []string
	stops               []func()
	asking, again, over bool
}

func newWatch(f *frame, g *Guard, tell func(bool, error)) *watch {
	ctx, end := context.WithCancel(f)
	return &watch{ctx: ctx, end: end, g: g, by: f.run.rt.Watcher, tell: tell}
}

// start asks for the first time. It watches if the answer is yes, or always.
func (w *watch) start(always bool) (bool, error) {
	for {
		ok, reads, err := w.g.ask(w.ctx)
		if (err != nil || !ok) && !always {
			return ok, err
		}
		if more, bad := w.follow(reads); bad != nil {
			return false, bad
		} else if !more {
			return ok, err
		}
	}
}

// follow watches what is not watched yet. If there was any, the answer may be
// out of date already.
func (w *watch) follow(reads []string) (more bool, err error) {
	w.mu.Lock()
	fresh := slices.DeleteFunc(slices.Clone(reads), func(s string) bool { return slices.Contains(w.topics, s) })
	w.topics = append(w.topics, fresh...)
	over := w.over
	w.mu.Unlock()
	switch {
	case len(fresh) == 0 || over:
		return false, nil
	case w.by == nil:
		return false, &brokenGuard{w.g.Name, fmt.Errorf("nobody watches %v", fresh)}
	}
	stop := w.by.Watch(fresh, w.changed)
	w.mu.Lock()
	if over = w.over; !over {
		w.stops = append(w.stops, stop)
	}
	w.mu.Unlock()
	if over {
		stop()
	}
	return true, nil
}

// changed is called by the watcher, from anywhere.
func (w *watch) changed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.again = true
	if !w.asking && !w.over {
		w.asking = true
		w.wg.Add(1)
		go w.answer()
	}
}

func (w *watch) answer() {
	defer w.wg.Done()
	for {
		w.mu.Lock()
		if w.over || !w.again {
			w.asking = false
			w.mu.Unlock()
			return
		}
		w.again = false
		w.mu.Unlock()
		ok, reads, err := w.g.ask(w.ctx)
		more, bad := w.follow(reads)
		if bad != nil {
			ok, err = false, bad
		}
		if more {
			w.mu.Lock()
			w.again = true
			w.mu.Unlock()
		}
		if w.ctx.Err() == nil {
			w.tell(ok, err)
		}
	}
}

// close ends the watch, and a question under way with it.
func (w *watch) close() {
	w.mu.Lock()
	w.over = true
	stops := w.stops
	w.stops = nil
	w.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
	w.end()
	w.wg.Wait()
}
