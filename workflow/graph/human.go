package graph

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"edged/agent"
	"edged/workflow"
)

// A Human is a question to a person. Its answer is the node's reply and output.
type Human struct {
	Prompt  string
	Options []string // what can be answered; nil = anything
	// Timeout is how long the answer may take, also while the process is gone;
	// 0 = for ever.
	Timeout time.Duration
	// OnTimeout is the answer that is taken then; "" = the last of Options:
	// write the safe one last.
	OnTimeout string
}

// A Question is asked of a person.
type Question struct {
	Run, Path   string // of the step, in a durable run
	Graph, Node string
	Prompt      string
	Options     []string
	Asked       time.Time
	Until       time.Time // zero = for ever
	Default     string    // what is taken then
}

// An Asker asks people, by voice, on a page or over MQTT. ctx ends when it is
// too late. ErrLater says that nobody can be asked now: a durable run then
// ends, waiting for [Graph.Resume] with the answer.
type Asker interface {
	Ask(ctx context.Context, q Question) (answer string, err error)
}

// ErrLater is the error of an [Asker] that has nobody to ask now.
var ErrLater = errors.New("graph: nobody can be asked now")

// person is a Human as a node.
type person struct {
	id string
	h  Human
	g  *Graph
}

// Name is the node's.
func (p *person) Name() string { return p.id }

// asked is what a run remembers of a question.
type asked struct {
	Node    string    `json:"node,omitempty"`
	Prompt  string    `json:"prompt"`
	Options []string  `json:"options,omitempty"`
	Asked   time.Time `json:"asked"`
	Until   time.Time `json:"until,omitzero"`
	Default string    `json:"default,omitempty"`
}

// Run asks and waits.
func (p *person) Run(ctx context.Context, _ agent.Task) (agent.Result, error) {
	old, err := workflow.Remember(ctx, workflow.QuestionOf, func() (asked, error) {
		q := asked{Node: p.id, Prompt: p.h.Prompt, Options: p.h.Options, Asked: time.Now().UTC(), Default: p.h.OnTimeout}
		if q.Default == "" && len(q.Options) > 0 {
			q.Default = q.Options[len(q.Options)-1]
		}
		if p.h.Timeout > 0 {
			q.Until = q.Asked.Add(p.h.Timeout)
		}
		return q, nil
	})
	if err != nil {
		return agent.Result{}, err
	}
	said, ok, err := workflow.Recall[string](ctx, workflow.AnswerTo)
	if err != nil {
		return agent.Result{}, err
	}
	missing := "" // why it is not the person's own
	if !ok {
		p.g.tell(ctx, "interrupt", map[string]any{"node": p.id, "prompt": old.Prompt})
		said, missing, err = p.ask(ctx, old)
	}
	if err != nil {
		return agent.Result{}, err
	}
	r := agent.Result{Reply: said, Output: said}
	told := map[string]any{"node": p.id, "answer": said}
	if missing != "" {
		r.Reason = fmt.Sprintf("default: %s: %q was taken, nobody said it", missing, said)
		r.Proceedings = &agent.Proceedings{Degraded: true}
		told["default"], told["reason"] = true, missing
	}
	p.g.tell(ctx, "answer", told)
	return r, nil
}

const maxAsked = 3

// ask gives what was said, or the default and why that is taken.
func (p *person) ask(ctx context.Context, old asked) (said, missing string, err error) {
	run, path := workflow.RunOf(ctx)
	q := Question{run, path, p.g.name, p.id, old.Prompt, old.Options, old.Asked, old.Until, old.Default}
	inTime, cancel := ctx, context.CancelFunc(func() {})
	if !q.Until.IsZero() {
		inTime, cancel = context.WithDeadline(ctx, q.Until)
	}
	defer cancel()
	for range maxAsked {
		if ctx.Err() != nil || inTime.Err() != nil {
			break
		}
		said, err := p.once(inTime, q)
		switch {
		case inTime.Err() != nil:
		case errors.Is(err, ErrLater) && workflow.Durable(ctx):
			return "", "", &workflow.WaitError{Run: run, Path: path, Prompt: q.Prompt}
		case err != nil:
			return "", "", fmt.Errorf("%w: nobody answered %s: %w", agent.ErrEscalated, p.id, err)
		default:
			if a, ok := Pick(said, q.Options); ok {
				return a, "", nil
			}
		}
	}
	switch {
	case ctx.Err() != nil:
		return "", "", ctx.Err()
	case q.Default == "":
		return "", "", fmt.Errorf("%w: %s has no answer", agent.ErrTimeout, p.id)
	case inTime.Err() != nil:
		return q.Default, "no answer in time", nil
	}
	return q.Default, fmt.Sprintf("%d answers were none of the options", maxAsked), nil
}

// once asks once; an asker that ignores its context is not waited for.
func (p *person) once(ctx context.Context, q Question) (string, error) {
	if p.g.opt.Asker == nil {
		return "", ErrLater
	}
	type answer struct {
		said string
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		var a answer
		a.err = safely(func() (err error) { a.said, err = p.g.opt.Asker.Ask(ctx, q); return err })
		got <- a
	}()
	select {
	case a := <-got:
		return a.said, a.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Pick finds what was said among the options of a question, whatever its case;
// without options anything but nothing is an answer.
func Pick(said string, options []string) (string, bool) {
	said = strings.TrimSpace(said)
	if len(options) == 0 {
		return said, said != ""
	}
	i := slices.IndexFunc(options, func(o string) bool { return strings.EqualFold(o, said) })
	if i < 0 {
		return "", false
	}
	return options[i], true
}
