package lib

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"edged/agent"
	"edged/agent/llm"
	"edged/agent/llm/schema"
	"edged/starlark/value"
	"edged/workflow"
)

// Forms that answers must have, besides those that agents are made with.

// inForm holds a child to a form. A model is held to it while it writes; what
// anybody else answers is read, and has failed if it does not fit.
func (b *Behaviour) inForm(child agent.Agent, form *schema.Schema) (agent.Agent, error) {
	if m, ok := child.(*member); ok {
		if x, ok := m.Agent.(*modelAgent); ok {
			a, err := x.inForm(form)
			return &member{b, a}, err
		}
	}
	return &formed{child, form}, nil
}

// inForm gives the agent with a form for its answers. One that has a form of
// its own must have all the parts in it.
func (a *modelAgent) inForm(form *schema.Schema) (*modelAgent, error) {
	if a.o.Output != nil {
		own, err := schema.Parse(a.o.Output)
		if err != nil {
			return nil, err
		}
		return a, holdsParts(a.name, own, form)
	}
	text, err := json.Marshal(form)
	if err != nil {
		return nil, err
	}
	f := &modelAgent{identity: a.identity, choice: a.choice, o: a.o, tools: a.tools, sets: a.sets, handoffs: a.handoffs}
	f.o.Output = text
	if len(f.sets) == 0 {
		f.a, err = llm.New(f.o)
	}
	return f, err
}

// holdsParts says what a form lacks of another one.
func holdsParts(name string, own, form *schema.Schema) error {
	for _, want := range form.Properties {
		if p := own.Property(want.Name); p == nil || !p.Required || p.Schema.Kind != want.Schema.Kind {
			return fmt.Errorf("%s has an output of its own, which must have a %s %q", name, want.Schema.Kind, want.Name)
		}
	}
	return nil
}

// formed is an agent whose answers are read.
type formed struct {
	agent.Agent
	form *schema.Schema
}

var _ workflow.Wrapper = (*formed)(nil)

// Unwrap implements workflow.Wrapper.
func (f *formed) Unwrap() agent.Agent { return f.Agent }

// Run implements agent.Agent.
func (f *formed) Run(ctx context.Context, t agent.Task) (agent.Result, error) {
	r, err := f.Agent.Run(ctx, t)
	if err != nil || r.Status != "" && r.Status != agent.Done {
		return r, err
	}
	text := []byte(r.Reply)
	if r.Output != nil {
		if text, err = value.EncodeJSON(r.Output); err != nil {
			return agent.Result{}, err
		}
	}
	out, text, err := f.form.Accept(text)
	if err != nil {
		why := strings.TrimPrefix(err.Error(), "schema: ")
		return agent.Result{Usage: r.Usage, Receipts: r.Receipts, Children: r.Children},
			fmt.Errorf("%w: the answer is not what was asked for (%s): %s", agent.ErrFailed, f.form.Prose(), why)
	}
	r.Output, r.Reply = out, string(text)
	return r, nil
}
