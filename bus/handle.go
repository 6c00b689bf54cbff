package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"

	"edged/bus/origin"
)

// ErrorTopic is where failures of handlers, predicates and everything else
// that can't be returned to a caller are published.
const ErrorTopic = "edged/error"

// Handle starts listening with a queue and one worker that calls h for one
// event at a time, in order. The context names the event as the cause of
// whatever h does and ends when the bus is closed. An error or a panic of h
// becomes an edged/error event, and the worker goes on.
func (b *Bus) Handle(filter string, q Queue, h func(ctx context.Context, e Event) error) (*Subscription, error) {
	s, err := b.subscription(filter, q, nil)
	if err != nil {
		return nil, err
	}
	s.worker = true
	b.workers.Add(1)
	b.attach(s)
	go func() {
		defer b.workers.Done()
		for s.work(h) {
		}
		b.over(s)
	}()
	return s, nil
}

// work calls h for one event after the other. It returns true when h panicked:
// one recover serves for all calls up to then.
func (s *Subscription) work(h func(context.Context, Event) error) (again bool) {
	var (
		e   Event
		ctx context.Context
	)
	defer func() {
		if p := recover(); p != nil {
			again = true
			s.failed(ctx, e, panicError(p))
		}
	}()
	for {
		ok, more := s.take(&e)
		if ok {
			ok = s.handed(&e)
		} else if more {
			ctx, e = nil, Event{} // what is done may be collected while it sleeps
			s.makeContexts(1)
			e = <-s.wake
			ok = s.handed(&e)
		}
		switch {
		case ok:
			ctx = s.cause(&e)
			if err := h(ctx, e); err != nil {
				s.failed(ctx, e, err)
			}
		case !more:
			return false
		}
	}
}

// cause makes the handler's context. While events queue up, contexts are made
// by the handful; a handler that keeps one keeps its neighbours too.
func (s *Subscription) cause(e *Event) context.Context {
	s.makeContexts(1 + s.hand.left())
	c := &s.contexts[0]
	s.contexts = s.contexts[1:]
	c.Context, c.link = s.ctx, linkOf(e, s.origin(e))
	return c
}

// origin is e.Origin; most events come from where the one before came from.
func (s *Subscription) origin(e *Event) origin.Label {
	if e.origin != "" {
		return e.origin
	}
	if s.source == "" || s.source != e.Source {
		s.source, s.label = e.Source, origin.Of(e.Source)
	}
	return s.label
}

// makeContexts sees to it that there is a context to take.
func (s *Subscription) makeContexts(n int) {
	if len(s.contexts) == 0 {
		s.contexts = make([]Caused, n)
	}
}

func (s *Subscription) failed(ctx context.Context, e Event, err error) {
	s.mu.Lock()
	s.stats.Errors++
	s.mu.Unlock()
	s.b.Report(ctx, s.opt.Name, err, e)
}

// Report publishes a failure as an edged/error event: source, error, the topic
// and seq of the event it is about (if any), and what the error's Fields()
// add, a script's line and backtrace say.
func (b *Bus) Report(ctx context.Context, source string, err error, about Event) {
	m := map[string]any{"source": source, "error": err.Error()}
	if about.Topic != "" {
		m["topic"], m["seq"] = about.Topic, int64(about.Seq)
	}
	var f interface{ Fields() map[string]any }
	if errors.As(err, &f) {
		maps.Copy(m, f.Fields())
	}
	b.counters.errors.Add(1)
	if _, err := b.Publish(ctx, source, ErrorTopic, m); err != nil {
		b.counters.unreported.Add(1)
	}
}

// paniced is a recovered panic with the stack it came from.
type paniced struct {
	value any
	stack []byte
}

func panicError(p any) error { return &paniced{p, debug.Stack()} }

func (p *paniced) Error() string          { return fmt.Sprintf("panic: %v", p.value) }
func (p *paniced) Fields() map[string]any { return map[string]any{"backtrace": string(p.stack)} }
