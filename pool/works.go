package pool

import (
	"context"
	"errors"
	"sync"
)

var errStopAll = errors.New("the pool was stopped")

// works are runs that StopAll ends: all that began between two of its calls.
type works struct {
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu      sync.Mutex // guards everything below
	n       int
	stopped bool
	idle    chan struct{} // closed when stopped and n is 0
}

func newWorks() *works {
	w := &works{idle: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancelCause(context.Background())
	return w
}

func (w *works) add() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
}

func (w *works) done() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n--
	w.check()
}

// stop cancels what runs; idle is closed when it has ended. Nothing is added
// after that.
func (w *works) stop() {
	w.cancel(errStopAll)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.check()
}

func (w *works) check() {
	if w.stopped && w.n == 0 {
		close(w.idle)
	}
}
