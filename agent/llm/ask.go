package llm

import (
	"context"
	"errors"
	"strings"

	"edged/agent"
)

// Ask makes one request as an agent of these options would, for whoever puts
// prompts together itself: the agent's hooks look at it, and those of ctx. No
// tool runs, nothing is said aloud, and an answer that can't be used is not
// asked for again. Of the options it takes name, model, hooks and report; the
// task is what hooks are told that the agent is asked. Whose words the answer is,
// are those of the task, of the messages and of the run that ctx belongs to.
func Ask(ctx context.Context, o Options, task agent.Task, r Request) (answer Message, err error) {
	a := &Agent{o: o, hooks: newChain(o.Hooks)}
	if a.o.Trusted == nil {
		a.o.Trusted = Trusted
	}
	ctx, t := a.begin(ctx, task)
	t.Notes = nil
	for _, m := range r.Messages {
		if m.Origin != "" {
			t.scope.Raise(m.Origin)
		}
	}
	answer, err = t.ask1(ctx, r)
	res := agent.Result{Reply: answer.Text, Usage: t.Usage, Origin: t.Origin()}
	res, err = t.fireEnd(ctx, res, err)
	answer.Text, answer.Usage, answer.Origin = res.Reply, t.Usage, t.Origin()
	return answer, err
}

// ask1 is the request with the hooks before and after it.
func (t *turn) ask1(ctx context.Context, r Request) (Message, error) {
	s := Step{Task: t.Task, Request: r}
	err := t.fire(ctx, OnRunStart, &s)
	if err == nil && len(t.Notes) > 0 {
		s.Request.Messages = withNote(s.Request.Messages, strings.Join(t.Notes, "\n"))
	}
	if err == nil {
		err = t.fire(ctx, BeforeModel, &s)
	}
	if err == nil {
		s.Answer, err = Forms(t.a.o.Model).Chat(ctx, s.Request, nil)
		t.count(s.Answer.Usage)
		t.Hop++
		if err == nil {
			s.Answer.Text, s.Answer.Thinking = spoken(s.Answer.Text), ""
			err = t.fire(ctx, AfterModel, &s)
		}
	}
	var end *End
	if errors.As(err, &end) {
		return Message{Role: Assistant, Text: end.Reply}, end.Err
	}
	return s.Answer, err
}

// Apart returns a context whose agents know nothing of the dialogue and the
// notes that came along. They are limited as before.
func Apart(ctx context.Context) context.Context {
	c := carriedBy(ctx)
	if c.dialogue == nil && c.pending == nil && c.notes == nil {
		return ctx
	}
	c.dialogue, c.pending, c.notes, c.whose = nil, nil, nil, ""
	return context.WithValue(ctx, carriedKey{}, c)
}
