package society

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"edged/agent"
	"edged/agent/llm"
	"edged/agent/llm/schema"
	"edged/bus/origin"
)

// A Call is what a peer asked: a message of [KindCall] or [KindRequest].
type Call struct {
	Message map[string]any
	Origin  origin.Label // whose words it is
	Foreign bool         // they are not to be trusted: they stay quoted
}

// Answer lets an agent take the turn that another robot's society asks of it,
// and gives the message that answers it: [KindPropose] or [KindInform] with an
// answer that fits the form that came with the call, [KindRefuse],
// [KindFailure], or [KindNotUnderstood]. Answer may be called concurrently.
func (a *Agent) Answer(ctx context.Context, c Call) map[string]any {
	out := map[string]any{"id": c.Message["id"], "from": a.Name}
	p, err := a.prompted(c)
	if err != nil {
		out["kind"], out["reason"] = KindNotUnderstood, reasonOf(err)
		return out
	}
	v, err := a.turn(ctx, p)
	switch {
	case err == ErrRefused:
		out["kind"], out["reason"] = KindRefuse, ""
	case errors.Is(err, ErrRefused):
		out["kind"], out["reason"] = KindRefuse, trim(err)
	case err != nil:
		out["kind"], out["reason"] = KindFailure, trim(err)
	case called(p.Kind):
		out["kind"], out["answer"] = KindPropose, v
	default:
		out["kind"], out["answer"] = KindInform, v
	}
	return out
}

// asks gives what a speaker is asked in a turn of others, and what it may use;
// "" is no turn.
func asks(k Kind) (string, ToolUse) {
	switch k {
	case ToBid:
		return "Make an offer for the task.", ReadTools
	case ToSubmit:
		return "Do the task.", ReadTools
	case ToWork:
		return "Do the task.", AllTools
	case ToAgree:
		return "Agree, or give a whole new version.", ReadTools
	case ToReview:
		return "Review it.", NoTools
	case ToAccept:
		return "Accept it or reject it.", NoTools
	case ToJudge:
		return "Pick one, or none.", NoTools
	case ToVote:
		return "Vote for one.", NoTools
	case ToMerge:
		return "Put the drafts together into one.", NoTools
	case ToEscalate:
		return "Decide.", NoTools
	}
	return "", NoTools
}

// prompted makes a prompt of a call. What is in it stays quoted.
func (a *Agent) prompted(c Call) (Prompt, error) {
	text := func(key string) string { s, _ := c.Message[key].(string); return s }
	p := Prompt{To: a.Name, Role: a.Role, Round: 1, Origin: c.Origin, Task: agent.Task{Input: c.Message["task"], Origin: c.Origin}}
	p.Kind = Kind(text("turn"))
	switch kind := text("kind"); {
	case kind == KindCall && p.Kind == "":
		p.Kind = ToBid
	case kind == KindRequest && p.Kind == "":
		p.Kind = ToWork
	case kind != KindCall && kind != KindRequest:
		return p, fmt.Errorf("its kind is %s", render(kind))
	}
	if p.Ask, p.Tools = asks(p.Kind); p.Ask == "" || called(p.Kind) != (text("kind") == KindCall) {
		return p, fmt.Errorf("a %s of a turn to %s", text("kind"), render(text("turn")))
	}
	if n, ok := c.Message["round"].(int64); ok {
		p.Round = int(n)
	}
	if form := c.Message["form"]; form != nil {
		b, err := json.Marshal(form)
		if err == nil {
			p.Form, err = boundForm(b)
		}
		if err != nil {
			return p, fmt.Errorf("form: %w", err)
		}
	}
	p.Sections = shown(c)
	if said := text("ask"); said != "" {
		p.Sections = append(p.Sections, plainSection("ask", "What is asked", render(clip(said, wordsLength))))
	}
	return p, nil
}

// mostShown bounds what a call may show.
const mostShown = 32

// shown gives what a call shows, quoted if it is in words of others.
func shown(c Call) (list []Section) {
	all, _ := c.Message["sections"].([]any)
	for _, x := range all[:min(len(all), mostShown)] {
		m, _ := x.(map[string]any)
		word := func(key string) string { w, _ := m[key].(string); return w }
		s := Section{Title: word("title"), Text: word("text"), Topic: word("topic"), From: word("from"), Value: m["value"]}
		if s.Title == "" || s.Text == "" {
			continue
		}
		if c.Foreign {
			s.Title = llm.Line(clip(s.Title, 80))
			if s.Text = llm.Line(s.Text); !json.Valid([]byte(s.Text)) {
				s.Text = render(s.Text)
			}
		}
		list = append(list, s)
	}
	isTask := func(s Section) bool { return s.Topic == TopicTask || strings.HasPrefix(s.Title, "Task") }
	if task := c.Message["task"]; task != nil && !slices.ContainsFunc(list, isTask) {
		s := plainSection(TopicTask, "Task", agent.Task{Input: task}.Text())
		if c.Foreign {
			s = plainSection(TopicTask, "Task, in words from "+clip(string(c.Origin), 60), render(s.Text))
		}
		list = slices.Insert(list, 0, s)
	}
	return list
}

// turn asks the speaker, once more if what it says can't be used.
func (a *Agent) turn(ctx context.Context, p Prompt) (any, error) {
	for try := 0; ; try++ {
		ans, err := protected(func() (Answer, error) { return a.Speaker.Speak(ctx, p) })
		if err == nil {
			var v any
			if v, err = p.Form.any(ans); err == nil {
				return v, nil
			}
		}
		if try > 0 || !errors.Is(err, ErrMalformed) || p.Form == nil || !repairs(a.Speaker, p.Kind) || ctx.Err() != nil {
			return nil, err
		}
		p.Bad, p.Repair = said(ans), trim(err)
	}
}

// any reads an answer for whoever asked without a form, too.
func (f *Form) any(a Answer) (any, error) {
	switch {
	case f != nil:
		return f.read(a)
	case a.Value != nil:
		return a.Value, nil
	case strings.TrimSpace(a.Text) == "":
		return nil, fmt.Errorf("%w: it is empty", ErrMalformed)
	}
	if v, err := schema.Decode([]byte(a.Text)); err == nil {
		return v, nil
	}
	return a.Text, nil
}
