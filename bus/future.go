package bus

import (
	"context"
	"errors"
	"sync"

	"edged/bus/origin"
)

// ErrFutureCancelled is the result of a future that its owner cancelled.
var ErrFutureCancelled = errors.New("cancelled")

// A Future is a result that comes later: of [Bus.Ask], of a request on the
// blackboard. It is resolved once; all methods may be called concurrently. It
// costs no goroutine and no timer.
type Future struct {
	mu     sync.Mutex // guards everything below
	done   bool
	value  any
	err    error
	origin origin.Label
	ready  chan struct{}
	then   []func(any, error)
	cancel func()
}

// NewFuture makes an unresolved future; cancel, if not nil, is called once
// when its owner cancels it before it is resolved.
func NewFuture(cancel func()) *Future { return &Future{cancel: cancel} }

// Resolve gives the future its value or error. Only the first call counts; it
// returns true.
func (f *Future) Resolve(v any, err error) bool { return f.ResolveFrom("", v, err) }

// ResolveFrom is Resolve with words of somebody else: value or error are of
// that origin.
func (f *Future) ResolveFrom(whose origin.Label, v any, err error) bool {
	f.mu.Lock()
	if f.done {
		f.mu.Unlock()
		return false
	}
	f.done, f.value, f.err, f.origin = true, v, err, whose
	if f.ready != nil {
		close(f.ready)
	}
	then := f.then
	f.then, f.cancel = nil, nil
	f.mu.Unlock()
	for _, t := range then {
		t(v, err)
	}
	return true
}

// Result waits until the future is resolved or ctx ends. An ended ctx leaves
// the future as it is.
func (f *Future) Result(ctx context.Context) (any, error) {
	f.mu.Lock()
	if f.done {
		defer f.mu.Unlock()
		return f.value, f.err
	}
	f.mu.Unlock()
	select {
	case <-f.Ready():
		return f.value, f.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Origin says whose words the answer is, once it is there; "" is nobody else's.
func (f *Future) Origin() origin.Label {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.origin
}

// Ready is closed when the future is resolved.
func (f *Future) Ready() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ready == nil {
		f.ready = make(chan struct{})
		if f.done {
			close(f.ready)
		}
	}
	return f.ready
}

// Done reports whether the future is resolved.
func (f *Future) Done() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.done
}

// Cancel gives up waiting: the future is resolved with ErrFutureCancelled.
func (f *Future) Cancel() {
	f.mu.Lock()
	cancel := f.cancel
	f.cancel = nil
	f.mu.Unlock()
	if f.Resolve(nil, ErrFutureCancelled) && cancel != nil {
		cancel()
	}
}

// OnDone calls fn when the future is resolved, at once if it is. fn runs on
// the goroutine that resolves and must not block.
func (f *Future) OnDone(fn func(v any, err error)) {
	f.mu.Lock()
	if !f.done {
		f.then = append(f.then, fn)
		f.mu.Unlock()
		return
	}
	f.mu.Unlock()
	fn(f.value, f.err)
}
