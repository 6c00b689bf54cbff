package llm

import (
	"context"
	"fmt"
	"strings"

	"edged/agent"
	"edged/agent/llm/schema"
)

// structured asks for the output; a first one that doesn't fit is asked for
// again with what is wrong about it.
func (t *turn) structured(ctx context.Context) (agent.Result, error) {
	r := Request{Schema: t.a.o.Output, Sampling: t.a.o.Sampling}
	r.Think = false
	for {
		r.Messages = withNote(t.prompt(nil), "Answer with JSON alone: "+t.a.output.Prose()+".")
		answer, err := t.ask(ctx, r)
		if err != nil {
			return agent.Result{}, err
		}
		res, err := t.accept(answer)
		if err == nil {
			return res, nil
		}
		if !t.once("output") {
			return agent.Result{}, fmt.Errorf("%w: %w: %w", agent.ErrFailed, ErrSchema, err)
		}
		t.add(answer, Message{Role: User, Text: "That does not fit: " + Line(err.Error()) + ". Answer with JSON of: " + t.a.output.Prose() + "."})
	}
}

// structuredFrom turns an answer that came after tools into the output: it may
// be that already, or the model puts it into that form.
func (t *turn) structuredFrom(ctx context.Context, answer Message) (agent.Result, error) {
	if r, err := t.accept(answer); err == nil {
		return r, nil
	}
	t.add(answer, Message{Role: User, Text: "Give that in the form asked for."})
	return t.structured(ctx)
}

func (t *turn) accept(answer Message) (agent.Result, error) {
	v, text, err := t.a.output.Accept([]byte(unfence(answer.Text)))
	if err != nil {
		return agent.Result{}, err
	}
	answer.Text = string(text)
	t.add(answer)
	return agent.Result{Reply: string(text), Output: v}, nil
}

// inWords tells a JSON text as one would say it: "t 31.5, room hall".
func inWords(text string) string {
	v, err := schema.Decode([]byte(text))
	if err != nil {
		return ""
	}
	return clip(tell(v), 300)
}

func tell(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case bool:
		if v {
			return "yes"
		}
		return "no"
	case []any:
		words := make([]string, 0, len(v))
		for _, x := range v {
			words = append(words, tell(x))
		}
		return strings.Join(words, ", ")
	case map[string]any:
		words := make([]string, 0, len(v))
		for _, k := range sortedKeys(v) {
			words = append(words, strings.ReplaceAll(k, "_", " ")+" "+tell(v[k]))
		}
		return strings.Join(words, ", ")
	}
	return fmt.Sprint(v)
}
