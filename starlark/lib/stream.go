package lib

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.starlark.net/starlark"

	"edged/agent"
	"edged/background"
	"edged/bus/origin"
	"edged/starlark/value"
)

// stream is a run whose answer is heard while it comes.
type stream struct {
	name   string
	clock  value.Runner // of the script that listens; nil for none
	cancel context.CancelFunc
	done   chan struct{} // closed when the run is over

	mu     sync.Mutex // guards the rest
	queue  []string
	more   chan struct{} // has one element if something was queued
	result starlark.Value
}

var streamKind = &value.Kind[*stream]{
	Name: "stream", Doc: "An answer while it comes: for sentence in stream.",
	Methods: []value.Method[*stream]{
		{
			Func: value.Func{Name: "next", Doc: "Waits for the next sentence.", Returns: "text, or None at the end", Blocks: true},
			Do: func(s *stream, c *value.Call) (starlark.Value, error) {
				if text, ok := s.next(c.Context()); ok {
					return starlark.String(text), nil
				}
				return nil, context.Cause(c.Context())
			},
		},
		{
			Func: value.Func{Name: "result", Doc: "Waits for the end of the run.", Returns: "a result", Blocks: true},
			Do: func(s *stream, c *value.Call) (starlark.Value, error) {
				select {
				case <-s.done:
					return s.result, nil
				case <-c.Context().Done():
					return nil, context.Cause(c.Context())
				}
			},
		},
		{
			Func: value.Func{Name: "cancel", Doc: "Ends the run."},
			Do: func(s *stream, c *value.Call) (starlark.Value, error) {
				s.cancel()
				return nil, nil
			},
		},
	},
	Walk:   func(s *stream) starlark.Iterator { return (*streamWalk)(s) },
	String: func(s *stream) string { return fmt.Sprintf("<stream of %s>", s.name) },
}

// streamAgent begins a run on a goroutine of its own.
func streamAgent(c *value.Call, a agent.Agent) (starlark.Value, error) {
	ctx, t, err := taskOf(c)
	if err != nil {
		return nil, err
	}
	r := runOf(ctx)
	if r == nil {
		return nil, errors.New("a stream needs a run to be heard in")
	}
	s := &stream{name: a.Name(), clock: value.RunnerOf(c.Thread), done: make(chan struct{}), more: make(chan struct{}, 1)}
	ctx, s.cancel = context.WithCancel(ctx)
	ctx = agent.WithSay(ctx, s.put)
	if !r.b.spawn(func() {
		defer close(s.done)
		defer s.cancel()
		res, err := background.Perform(ctx, r.b.host.Bus, a, t)
		origin.Raise(ctx, res.Origin)
		s.result = performed(res, err)
	}) {
		s.cancel()
		return nil, errStopped
	}
	return streamKind.Wrap(s), nil
}

func (s *stream) put(text string) {
	s.mu.Lock()
	s.queue = append(s.queue, text)
	s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
}

func (s *stream) take() (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return "", false
	}
	text := s.queue[0]
	s.queue = s.queue[1:]
	return text, true
}

// next waits for a sentence; false at the end of the run or of ctx.
func (s *stream) next(ctx context.Context) (string, bool) {
	for {
		if text, ok := s.take(); ok {
			return text, true
		}
		select {
		case <-s.more:
		case <-s.done:
			return s.take()
		case <-ctx.Done():
			return "", false
		}
	}
}

// streamWalk is the iteration of a stream.
type streamWalk stream

func (w *streamWalk) Next(v *starlark.Value) bool {
	s := (*stream)(w)
	ctx := context.Background()
	if s.clock != nil {
		ctx = s.clock.Context()
		s.clock.Pause()
		defer s.clock.Resume()
	}
	text, ok := s.next(ctx)
	if ok {
		*v = starlark.String(text)
	}
	return ok
}

// Done ends the run if the loop was left before its end.
func (w *streamWalk) Done() { w.cancel() }
