package workflow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"edged/agent"
	"edged/agent/llm"
	"edged/bus"
)

// A Custom is a node whose body is somebody else's: it has the guard, the
// trace and the durable runs of all nodes, and runs its children in an order
// of its own.
type Custom struct {
	node
	run   func(ctx context.Context, p *Place, t agent.Task) (agent.Result, error)
	calls func() int
}

var _ agent.Agent = (*Custom)(nil)

// CustomOptions of a [Custom].
type CustomOptions struct {
	Options
	Kind     string // for outlines and traces: "graph"
	Detail   string // for outlines
	Children []agent.Agent
	Labels   []string // of the children; a durable run can be resumed only with the same
	// Calls is how often a run asks models at most, for [ModelCalls]; nil: as
	// often as each child does once.
	Calls func() int
}

// NewCustom makes a node of a body. The body runs its children by
// [Place.Step], also from several goroutines, and has ended all that it began
// when it returns.
func NewCustom(name string, o CustomOptions, body func(ctx context.Context, p *Place, t agent.Task) (agent.Result, error)) *Custom {
	return &Custom{node{name: name, kind: o.Kind, opt: o.Options, children: o.Children, labels: o.Labels, detail: o.Detail}, body, o.Calls}
}

// Run runs the body.
func (c *Custom) Run(ctx context.Context, t agent.Task) (agent.Result, error) { return run(ctx, c, t) }

func (c *Custom) body(ctx context.Context, f *frame, t agent.Task) (agent.Result, error) {
	return c.run(ctx, &Place{f: f}, t)
}

// A Place is where a custom node stands in the tree of a run.
type Place struct {
	f *frame
	// Lost reports whether the body has cancelled its children: how they end
	// then is no outcome of theirs. Nil is never.
	Lost func() bool
}

// Outcome gives the outcome that a step has already, in a durable run.
func (p *Place) Outcome(at int, key string) (r agent.Result, err error, ok bool) {
	j := p.f.run.journal
	if j == nil {
		return r, nil, false
	}
	path := p.Path(at, key)
	rec := j.get(path)
	if rec == nil || rec.Result == nil {
		return r, nil, false
	}
	j.recall(p.f, path)
	r, err = rec.outcome()
	return r, err, true
}

// Durable reports whether the run is recorded.
func (p *Place) Durable() bool { return p.f.run.journal != nil }

// Run gives the id of the run, as [RunOf] does.
func (p *Place) Run() string { return p.f.run.id }

// Path gives the place of a step: what [Place.Step] records it under.
func (p *Place) Path(at int, key string) string {
	return (&frame{up: p.f, run: p.f.run, at: int32(at), key: key}).path()
}

// Step runs an agent as the child at an index; key tells several runs of that
// child apart and is the same whenever the run is resumed. In a durable run a
// step that has ended is not run again: it has the outcome that it had. A key
// has no characters of . / ? and ~.
func (p *Place) Step(ctx context.Context, at int, key string, c agent.Agent, t agent.Task) (agent.Result, error) {
	f := p.f
	if f.run.journal == nil && f.run.rt.Trace == nil && nodeOf(c) == nil {
		return agent.Run(ctx, c, t)
	}
	cf := &frame{Context: ctx, up: f, run: f.run, agent: c, at: int32(at), key: key, lost: p.Lost}
	if f.run.journal != nil {
		return f.run.journal.step(cf, c, t)
	}
	return cf.do(c, t)
}

// Recall gives a value that was stored for a step by [Runs.ForkWith], and
// whether there is one.
func (p *Place) Recall(at int, key, what string) (v any, ok bool, err error) {
	j := p.f.run.journal
	if j == nil {
		return nil, false, nil
	}
	r := j.get(p.Path(at, key) + "?" + what)
	if r == nil {
		return nil, false, nil
	}
	return treeOf(r.Value), true, nil
}

// Remember makes a choice once: a durable run that is resumed finds it again.
// what names it within the step that ctx belongs to.
func Remember[T any](ctx context.Context, what string, choose func() (T, error)) (T, error) {
	if f := frameOf(ctx); f != nil {
		return decide(f, what, choose)
	}
	return protected(choose)
}

// A Tree is a JSON tree as runs store it: 3.0 stays apart from 3.
type Tree struct{ Of any }

// MarshalJSON writes the tree; what has no JSON form is null.
func (t Tree) MarshalJSON() ([]byte, error) {
	if text := treeText(t.Of); text != nil {
		return text, nil
	}
	return []byte("null"), nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (t *Tree) UnmarshalJSON(text []byte) (err error) {
	t.Of, err = bus.DecodeJSON(text)
	return err
}

// Recall gives a value that was stored for the step that ctx belongs to by
// [Remember], [Runs.Answer] or [Runs.ForkWith], and whether there is one.
func Recall[T any](ctx context.Context, what string) (v T, ok bool, err error) {
	f := frameOf(ctx)
	if f == nil || f.run.journal == nil {
		return v, false, nil
	}
	r := f.run.journal.get(f.path() + "?" + what)
	if r == nil {
		return v, false, nil
	}
	return v, true, decodeInto(r.Value, &v)
}

// Durable reports whether the run that a context belongs to is recorded.
func Durable(ctx context.Context) bool {
	f := frameOf(ctx)
	return f != nil && f.run.journal != nil
}

// Unsettled reports whether an error is of a durable run that can't go on now:
// nothing else is tried, and what gave it has no outcome yet.
func Unsettled(err error) bool { return unsettled(err) }

// Tell publishes what a custom node has to say of itself, if the trace of the
// context's runtime publishes anything, and gives the context of what it
// causes.
func Tell(ctx context.Context, kind, name, what string, v map[string]any) context.Context {
	f := frameOf(ctx)
	if f == nil {
		return ctx
	}
	t, ok := f.run.rt.Trace.(Teller)
	if !ok {
		return ctx
	}
	if f.run.id != "" {
		v["run"] = f.run.id
	}
	return t.Tell(ctx, kind, name, what, v)
}

// Telling reports whether anybody hears what is told in this context.
func Telling(ctx context.Context) bool {
	f := frameOf(ctx)
	if f == nil {
		return false
	}
	_, ok := f.run.rt.Trace.(Teller)
	return ok
}

// A Teller is a trace that publishes what custom nodes tell.
type Teller interface {
	Tell(ctx context.Context, kind, name, what string, v map[string]any) context.Context
}

// Tell publishes it as edged/<kind>/<name>/<what>.
func (o *onBus) Tell(ctx context.Context, kind, name, what string, v map[string]any) context.Context {
	_, _ = o.b.Publish(ctx, kind+":"+name, "edged/"+level(kind)+"/"+level(name)+"/"+level(what), v)
	return ctx
}

// Tell tells those that listen.
func (l traces) Tell(ctx context.Context, kind, name, what string, v map[string]any) context.Context {
	for _, t := range l {
		if t, ok := t.(Teller); ok {
			ctx = t.Tell(ctx, kind, name, what, v)
		}
	}
	return ctx
}

// Doubtful says what becomes of a part of the step that ctx belongs to, which
// was interrupted while it acted: what the nearest node with an opinion says, or
// what a person has decided with [Runs.Decide]. Without either the error is an
// [InDoubtError]: the run waits for a decision. part names it within the step.
// The result is that of a part that is taken as done, or as failed.
func Doubtful(ctx context.Context, part string, d Doubt) (Decision, agent.Result, error) {
	f := frameOf(ctx)
	if f == nil || f.run.journal == nil {
		return AskPerson, agent.Result{}, &InDoubtError{d}
	}
	j := f.run.journal
	path := f.path() + "?" + part
	have := j.get(path)
	switch {
	case have == nil:
		have = &record{Path: path, Name: d.Name, Effect: llm.Write, Started: d.Since, Task: taskOf(d.Task)}
		if err := j.write(f, have); err != nil {
			return AskPerson, agent.Result{}, err
		}
	case have.Result != nil:
		return have.Decision, have.Result.result(), nil
	case have.Decision == RunAgain:
		return RunAgain, agent.Result{}, j.drop(f, path) // another interruption is another doubt
	}
	r, err, again := j.settle(f, have)
	if again {
		return RunAgain, agent.Result{}, j.drop(f, path)
	}
	if have = j.get(path); have.Result == nil {
		return AskPerson, agent.Result{}, err
	}
	return have.Decision, r, nil
}

// StateWaiting is the state of a run that waits for an answer.
const StateWaiting = "waiting"

// A WaitError ends a durable run that waits for an answer: by [Runs.Answer],
// after which it is resumed.
type WaitError struct{ Run, Path, Prompt string }

func (e *WaitError) Error() string { return "escalated: waits for an answer: " + e.Prompt }

// Unwrap makes it the outcome escalated: a person is needed.
func (e *WaitError) Unwrap() error { return agent.ErrEscalated }

// QuestionOf is what a step remembers as its question; AnswerTo what it finds
// as the answer; PatchOf what whoever forked the run changed for it.
const (
	QuestionOf = "question"
	AnswerTo   = "answer"
	PatchOf    = "patch"
)

// An OpenQuestion is one that a run waits with.
type OpenQuestion struct {
	Path  string // of the step
	Asked time.Time
	About any // a JSON tree, as the step remembered it
}

// Questions gives the questions of a run that have no answer, the oldest first.
func (r *Runs) Questions(id string) ([]OpenQuestion, error) {
	if _, err := r.header(id); err != nil {
		return nil, err
	}
	steps := r.steps(id)
	over := map[string]bool{}
	for _, s := range steps {
		if path, ok := strings.CutSuffix(s.Path, "?"+AnswerTo); ok {
			over[path] = true
		}
		over[s.Path] = s.Result != nil
	}
	var list []OpenQuestion
	for _, s := range steps {
		if path, ok := strings.CutSuffix(s.Path, "?"+QuestionOf); ok && s.Value != nil && !over[path] {
			list = append(list, OpenQuestion{path, s.Started, treeOf(s.Value)})
		}
	}
	return list, nil
}

// Answer stores the answer to a question of a run that is not under way; an
// empty path is its oldest one. The run is then resumed.
func (r *Runs) Answer(ctx context.Context, id, path string, answer any) error {
	open, err := r.Questions(id)
	if err != nil {
		return err
	}
	if r.isLive(id) {
		return fmt.Errorf("%w: %s", ErrLive, id)
	}
	for _, q := range open {
		if path == "" || q.Path == path {
			return r.remember(ctx, id, q.Path, AnswerTo, answer)
		}
	}
	return fmt.Errorf("workflow: answer %s: %w %q", id, errNoQuestion, path)
}

var errNoQuestion = errors.New("no open question at")

// remember stores a value for a step of a run that is not under way.
func (r *Runs) remember(ctx context.Context, id, path, what string, v any) error {
	text, err := encode(stored(r.steps(id), path, what, v))
	if err == nil {
		err = r.store.Put(ctx, id+"/"+path+"?"+what, text, true)
	}
	if err != nil {
		return fmt.Errorf("workflow: run %s: %w", id, err)
	}
	r.noteStep(id, path+"?"+what)
	return nil
}

// stored is a value for a step, after others.
func stored(after []*record, path, what string, v any) *record {
	n := 0
	for _, s := range after {
		n = max(n, s.N)
	}
	now := time.Now().UTC()
	return &record{N: n + 1, Path: path + "?" + what, Name: what, Started: now, Ended: now, Value: treeText(v)}
}
