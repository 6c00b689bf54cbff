package lib

import (
	"context"
	"errors"
	"slices"
	"sync"

	"go.starlark.net/starlark"

	"edged/starlark/value"
	"edged/workflow/graph"
)

// testPerson answers questions in a test.
type testPerson struct {
	mu        sync.Mutex // guards the rest
	answers   []personAnswer
	words     []personAnswer
	more      chan struct{} // closed when there are more words
	questions []any
}

type personAnswer struct {
	yes   bool
	text  string
	delay func(ctx context.Context) error
}

func newTestPerson() *testPerson { return &testPerson{more: make(chan struct{})} }

func (p *testPerson) add(c *value.Call) {
	d := c.Duration("delay")
	a := personAnswer{delay: func(ctx context.Context) error { return sleep(ctx, d) }}
	p.mu.Lock()
	defer p.mu.Unlock()
	if yes, ok := c.Value("answer").(starlark.Bool); ok {
		a.yes = bool(yes)
		p.answers = append(p.answers, a)
		return
	}
	a.text, _ = starlark.AsString(c.Value("answer"))
	p.words = append(p.words, a)
	close(p.more)
	p.more = make(chan struct{})
}

func (p *testPerson) asked(c *value.Call) (starlark.Value, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return c.Return(slices.Clone(p.questions))
}

// confirm is Host.Confirm.
func (p *testPerson) confirm(ctx context.Context, q Question) error {
	p.mu.Lock()
	p.questions = append(p.questions, map[string]any{"agent": q.Agent, "tool": q.Tool, "text": q.Text, "args": decoded(q.Args), "origin": q.Origin})
	if len(p.answers) == 0 {
		p.mu.Unlock()
		<-ctx.Done()
		return ctx.Err()
	}
	a := p.answers[0]
	p.answers = p.answers[1:]
	p.mu.Unlock()
	if err := a.delay(ctx); err != nil {
		return err
	}
	if !a.yes {
		return errors.New("the person said no")
	}
	return nil
}

// ask is Host.Ask. What the test itself waits for, for ever, nobody could
// answer any more: then nobody is there.
func (p *testPerson) ask(ctx context.Context, q Ask) (string, error) {
	options := []any{}
	for _, o := range q.Options {
		options = append(options, o)
	}
	p.mu.Lock()
	p.questions = append(p.questions, map[string]any{"by": q.By, "run": q.Run, "prompt": q.Prompt, "options": options, "default": q.Default})
	for len(p.words) == 0 {
		more := p.more
		p.mu.Unlock()
		if q.Until.IsZero() && ofTest(ctx) {
			return "", graph.ErrLater
		}
		select {
		case <-more:
		case <-ctx.Done():
			return "", ctx.Err()
		}
		p.mu.Lock()
	}
	a := p.words[0]
	p.words = p.words[1:]
	p.mu.Unlock()
	return a.text, a.delay(ctx)
}

// ofTest reports whether the test itself waits for what is done here.
func ofTest(ctx context.Context) bool {
	for r := runOf(ctx); r != nil; r = runOf(r.Context) {
		if r.main {
			return true
		}
	}
	return false
}
