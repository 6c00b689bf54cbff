package lib

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"edged/bus/origin"

	"go.starlark.net/starlark"

	"edged/starlark/script"
	"edged/starlark/value"
)

// A Session is a person at a behaviour's prompt: what they define stays for
// the next line. The operator may do everything. Its methods may be called
// concurrently; lines run one after the other.
type Session struct {
	b       *Behaviour
	mu      sync.Mutex // held while a line runs
	globals starlark.StringDict
	n       int // lines
}

// remembered is of how many lines an error can show the code.
const remembered = 1000

// chunkName is what messages call the nth line.
func chunkName(n int) string { return fmt.Sprintf("prompt[%d]", n) }

// NewSession opens a session that sees the names of main.star, read only,
// unless that is isolated.
func (b *Behaviour) NewSession() *Session {
	return &Session{b: b, globals: make(starlark.StringDict)}
}

// Eval runs one line, an expression or statements, under the limits of a
// handler, and gives its value as text: empty for None.
func (s *Session) Eval(ctx context.Context, line string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &run{Context: origin.With(script.WithRole(ctx, "the prompt"), "cli"), b: s.b, source: "cli", trusted: true}
	v, err := s.b.engine.Call(r, &prompt{s, line}, nil, nil, script.Limits{})
	if err != nil || v == starlark.None {
		return "", err
	}
	if err := value.Measure(v, 100_000, 1<<20); err != nil {
		return "", err
	}
	return v.String(), nil
}

func (s *Session) names() starlark.StringDict {
	all := script.Universe()
	var globals starlark.StringDict
	if s.b.program != nil {
		globals = s.b.program.Main().Globals
	}
	for _, d := range []starlark.StringDict{s.b.predeclared, globals, s.globals} {
		for k, v := range d {
			all[k] = v
		}
	}
	return all
}

// prompt is a line as something that can be called.
type prompt struct {
	s    *Session
	text string
}

var _ starlark.Callable = (*prompt)(nil)

// CallInternal implements starlark.Callable.
func (p *prompt) CallInternal(t *starlark.Thread, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	s := p.s
	s.n++
	s.b.engine.Forget(chunkName(s.n - remembered))
	c, err := s.b.engine.Chunk(chunkName(s.n), p.text, s.names())
	if err != nil {
		return nil, err
	}
	v, defined, err := c.Run(t)
	if v != nil {
		v.Freeze() // handlers may be handed it
	}
	defined.Freeze()
	for k, d := range defined {
		s.globals[k] = d
	}
	return v, err
}

func (p *prompt) Name() string          { return "prompt" }
func (p *prompt) String() string        { return "prompt" }
func (p *prompt) Type() string          { return "prompt" }
func (p *prompt) Freeze()               {}
func (p *prompt) Truth() starlark.Bool  { return true }
func (p *prompt) Hash() (uint32, error) { return 0, errors.New("unhashable: prompt") }
