package lib

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"edged/agent"
	"edged/agent/llm/schema"
	"edged/workflow"
	"edged/workflow/graph"
	"edged/workflow/society"
)

// personTime bounds what a person may take to decide: in fact nothing does.
const personTime = 366 * 24 * time.Hour

// person is HUMAN as an agent.
type person struct{ identity }

var _ agent.Agent = (*person)(nil)

// Run implements agent.Agent: the person is asked, and says something.
func (p *person) Run(ctx context.Context, t agent.Task) (agent.Result, error) {
	ctx, over := p.b.turn(ctx)
	defer over()
	run, path := workflow.RunOf(ctx)
	said, err := p.b.askPeople(ctx, Ask{By: "agent:" + p.name, Run: run, Path: path, Prompt: t.Text(), Asked: time.Now().UTC()})
	if err != nil {
		return agent.Result{}, fmt.Errorf("%w: nobody answered: %w", agent.ErrEscalated, err)
	}
	return agent.Result{Reply: said, Output: said}, nil
}

// placeKey is where an interaction stands in its run, for what it asks people.
type placeKey struct{}

// people lets the person take turns of a society. A question of a durable run
// is a step of it: it waits through a restart, and its answer is not asked for
// again.
func (b *Behaviour) people(name string) society.Speaker {
	return society.Func(func(ctx context.Context, p society.Prompt) (any, error) {
		q := personal(p)
		q.By = "society:" + name
		ask := agent.Func(society.HUMAN, func(ctx context.Context, _ agent.Task) (agent.Result, error) {
			said, err := b.askOnce(ctx, q, func(said string) bool { _, err := q.read(p, said); return err == nil })
			return agent.Result{Reply: said}, err
		})
		place, _ := ctx.Value(placeKey{}).(*workflow.Place)
		_, n := society.SeatOf(ctx)
		var r agent.Result
		var err error
		if place == nil {
			r, err = agent.Run(ctx, ask, agent.Task{})
		} else {
			r, err = place.Step(ctx, 0, fmt.Sprintf("turn%d", n), ask, agent.Task{})
		}
		if err != nil {
			return nil, err
		}
		return q.read(p, r.Reply)
	})
}

// question is what a person is asked in a turn.
type question struct {
	Ask
	field string   // of the form that the answer is; "" is all of it
	words []string // that decide
}

// personal makes a question of a turn: a decision has options, a draft in words
// is words, and anything else JSON.
func personal(p society.Prompt) question {
	var b strings.Builder
	for _, s := range p.Sections {
		fmt.Fprintf(&b, "%s: %s\n", s.Title, s.Text)
	}
	b.WriteString(p.Ask)
	q := question{Ask: Ask{Prompt: b.String(), Asked: time.Now().UTC()}}
	form, err := schema.Parse(p.Form.Schema())
	if err != nil {
		return q
	}
	for _, name := range []string{"verdict", "winner", "agree"} {
		if f := form.Property(name); f != nil {
			q.field = name
			for _, w := range f.Schema.Enum {
				if s, ok := w.(string); ok {
					q.Options = append(q.Options, s)
				}
			}
			switch {
			case name == "agree":
				q.Prompt += " Say \"yes\" to agree, or give the whole new version."
			case p.Kind == society.ToReview || p.Kind == society.ToAccept:
				q.words, q.Options = q.Options, nil
				q.Prompt += fmt.Sprintf(" Say one of %s; what is to change goes after a colon.", strings.Join(q.words, ", "))
			default:
				q.words = q.Options
			}
			return q
		}
	}
	if f := form.Property("draft"); f != nil {
		q.field = "draft"
		if f.Schema.Kind == schema.String {
			return q
		}
	}
	q.Form = p.Form.Schema()
	return q
}

// read makes the answer of a turn of what a person said.
func (q question) read(p society.Prompt, said string) (any, error) {
	switch q.field {
	case "verdict", "winner":
		word, more, _ := strings.Cut(said, ":")
		if pick, ok := graph.Pick(word, q.words); ok {
			why := "comments"
			if q.field == "winner" {
				why = "because"
			}
			return map[string]any{q.field: pick, why: strings.TrimSpace(more)}, nil
		}
		return nil, fmt.Errorf("%w: %q is none of %q", society.ErrMalformed, said, q.words)
	case "agree":
		if yes, ok := graph.Pick(said, []string{"yes", "agree", "true"}); ok && yes != "" {
			return map[string]any{"agree": true}, nil
		}
		return map[string]any{"agree": false, "draft": spokenTree(said)}, nil
	case "draft":
		if q.Form == nil {
			return said, nil
		}
	}
	return spokenTree(said), nil
}

// spokenTree is JSON as data, and anything else as it is.
func spokenTree(said string) any {
	if tree, err := schema.Decode([]byte(said)); err == nil {
		return tree
	}
	return said
}

// mostAsked is how often a person is asked who says what is no answer.
const mostAsked = 3

// askOnce asks a question of a step, or finds its answer.
func (b *Behaviour) askOnce(ctx context.Context, q question, fits func(string) bool) (string, error) {
	type asked struct {
		Prompt  string    `json:"prompt"`
		Options []string  `json:"options,omitempty"`
		Asked   time.Time `json:"asked"`
	}
	old, err := workflow.Remember(ctx, workflow.QuestionOf, func() (asked, error) { return asked{q.Prompt, q.Options, q.Asked}, nil })
	if err != nil {
		return "", err
	}
	if said, ok, err := workflow.Recall[string](ctx, workflow.AnswerTo); ok || err != nil {
		return said, err
	}
	q.Run, q.Path = workflow.RunOf(ctx)
	q.Asked = old.Asked
	var said string
	for range mostAsked {
		if said, err = b.askPeople(ctx, q.Ask); err != nil || fits(said) {
			break
		}
	}
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, graph.ErrLater) && workflow.Durable(ctx):
		return "", &workflow.WaitError{Run: q.Run, Path: q.Path, Prompt: q.Prompt}
	case err != nil:
		return "", fmt.Errorf("nobody answered: %w", err)
	}
	return said, nil
}
