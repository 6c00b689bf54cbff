package llm

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"edged/agent"
	"edged/agent/llm/schema"
	"edged/bus/origin"
)

// turn is one run of an agent.
type turn struct {
	Turn
	a       *Agent
	from    carried
	hooks   *chain
	history []Message // of the conversation, before this run
	msgs    []Message // of this run: the user's first
	offer   []Tool
	asked   []Message       // the newest prompt; only ever appended to
	kept    int             // messages of the history in it
	shown   int             // messages of msgs in it
	room    int             // tokens a request may have; 0 = nobody says
	hinted  map[string]bool // repairs that are allowed once
	handed  bool            // another agent answered
	unsaid  []string        // tools in offer without their servers' words
	heard   bool            // a server's tool gave something
	spoke   bool            // the reply has been said aloud
	thought string          // the newest answer, if it is nothing but thoughts
	ledger  ledger
	calls   int // for ids that a server left out
}

// begin takes what came along with ctx, and gives the context of the run. Its
// label is that of the prompt: whatever is read on behalf of the run raises it.
func (a *Agent) begin(ctx context.Context, task agent.Task) (context.Context, *turn) {
	t := &turn{a: a, hooks: a.hooks.forRun(ctx), from: carriedBy(ctx)}
	whose := origin.From(ctx)
	if task.Origin == "" { // it is of whoever runs it
		task.Origin = whose.Join(whose)
	}
	if whose == "" {
		whose = task.Origin
	}
	ctx = origin.With(ctx, origin.Merge(whose.Join(task.Origin), t.from.whose))
	t.Agent, t.Task, t.Started = a.o.Name, task, time.Now()
	t.Notes = slices.Clip(t.from.notes)
	t.scope, t.trusted = origin.ScopeOf(ctx), a.o.Trusted
	return ctx, t
}

// barred reports whether the run may act no more.
func (t *turn) barred() bool { return !t.a.o.TaintedWrites && t.Tainted() }

// reads notes whose words come into the prompt.
func (t *turn) reads(list []Message) {
	for i := range list {
		t.scope.Raise(list[i].Origin)
	}
}

// add puts a message into the prompt. It is of whatever stands there by now.
func (t *turn) add(list ...Message) {
	for _, m := range list {
		if m.Origin == "" {
			m.Origin = t.Origin()
		}
		t.msgs = append(t.msgs, m)
	}
}

// guarded is the run; a panic in it is a failure like any other.
func (t *turn) guarded(ctx context.Context) (r agent.Result, err error) {
	defer func() {
		if v := recover(); v != nil {
			r, err = agent.Result{}, &agent.Panic{Value: v, Stack: debug.Stack()}
		}
		var end *End
		if errors.As(err, &end) {
			r.Reply, err = end.Reply, end.Err
			t.spoke = false
		}
	}()
	if err := t.open(ctx); err != nil {
		return agent.Result{}, err
	}
	return t.loop(ctx)
}

// open prepares the prompt: hooks first, then what is remembered, then the words.
func (t *turn) open(ctx context.Context) error {
	s := Step{Task: t.Task}
	if err := t.fire(ctx, OnRunStart, &s); err != nil {
		return err
	}
	t.Task = s.Task
	t.scope.Raise(t.Task.Origin)
	if m := t.a.o.Memory; m != nil {
		note, err := m(ctx, t.Task)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			t.a.report(ctx, fmt.Errorf("llm: memory: %w", err))
		case note != "":
			t.Notes = append(t.Notes, note)
		}
	}
	switch {
	case t.from.dialogue != nil:
		t.history = t.from.dialogue
	case t.a.o.Session != Fresh && t.Task.Conversation != "":
		t.history = t.a.sessions.Messages(t.Task.Conversation)
	}
	if len(t.history) > 0 {
		t.room = t.a.room(ctx)
	}
	words := t.Task.Text()
	if !t.a.o.Quoted && !t.Task.Origin.Trusted(t.a.o.Trusted) {
		words = Quote(string(t.Task.Origin.Untrusted(t.a.o.Trusted)), words)
	}
	if t.a.acts && !t.barred() {
		t.history = t.masked(t.history)
	}
	t.reads(t.history)
	t.reads(t.from.pending)
	t.add(Message{Role: User, Text: words, Origin: t.Task.Origin, Notes: strings.Join(t.Notes, "\n")})
	t.add(t.from.pending...)
	t.choose()
	return nil
}

// loop asks and runs tools until there is an answer.
func (t *turn) loop(ctx context.Context) (agent.Result, error) {
	direct := t.a.output != nil && len(t.a.o.Tools)+len(t.a.o.Handoffs) == 0
	if direct {
		return t.structured(ctx)
	}
	most := max(t.a.o.MaxToolHops, 0)
	for rounds := 0; ; {
		r := t.request(rounds, most)
		answer, err := t.ask(ctx, r)
		if err != nil {
			return agent.Result{}, err
		}
		if len(answer.Calls) == 0 {
			again, err := t.settleWords(ctx, r, answer)
			if err != nil {
				return agent.Result{}, err
			}
			if again {
				continue
			}
			if t.a.output != nil {
				return t.structuredFrom(ctx, answer)
			}
			t.add(answer)
			return agent.Result{Reply: answer.Text}, nil
		}
		if rounds >= most {
			return agent.Result{}, fmt.Errorf("%w: max_tool_hops", agent.ErrFailed)
		}
		rounds++
		if r, over, err := t.run(ctx, answer); over || err != nil {
			return r, err
		}
	}
}

// request puts the prompt together: what never changes first.
func (t *turn) request(rounds, most int) Request {
	r := Request{Tools: t.offer, Choice: ChoiceAuto, Sampling: t.a.o.Sampling}
	switch c := t.a.o.ToolChoice; {
	case rounds >= most:
		r.Choice = ChoiceNone
	case c == CallAlways, c == CallFirst && rounds == 0:
		r.Choice = ChoiceRequired
	}
	r.Messages = t.prompt(r.Tools)
	return r
}

// prompt is the system's text, as much of the history as there is room for,
// and this run.
func (t *turn) prompt(tools []Tool) []Message {
	history := t.history
	if limit := t.room; limit > 0 && len(history) > 0 {
		room := limit - tokens(t.a.system) - tokensOf(t.msgs)
		for _, tool := range tools {
			room -= tokens(tool.Name) + tokens(tool.Doc) + tokens(string(tool.Params))
		}
		history = newest(history, room)
	}
	if n := len(t.asked); n > 0 && len(history) == t.kept { // the same as before, and more
		t.asked = append(t.asked, t.msgs[t.shown:]...)
		t.shown = len(t.msgs)
		return slices.Clip(t.asked)
	}
	t.kept, t.shown = len(history), len(t.msgs)
	t.asked = make([]Message, 0, 1+len(history)+len(t.msgs)+4)
	if t.a.system != "" {
		t.asked = append(t.asked, Message{Role: System, Text: t.a.system})
	}
	t.asked = append(append(t.asked, history...), t.msgs...)
	return slices.Clip(t.asked)
}

// ask makes one request, hooks before and after.
func (t *turn) ask(ctx context.Context, r Request) (Message, error) {
	s := Step{Request: r}
	if err := t.fire(ctx, BeforeModel, &s); err != nil {
		return Message{}, err
	}
	answer, spoke, err := t.chat(ctx, s.Request)
	t.Hop++
	if err != nil {
		return Message{}, err
	}
	said := answer.Text
	s.Answer = answer
	if err := t.fire(ctx, AfterModel, &s); err != nil {
		return Message{}, err
	}
	answer = s.Answer
	if len(answer.Calls) == 0 && spoke && answer.Text == said {
		t.spoke = true
	}
	for i := range answer.Calls {
		if t.calls++; answer.Calls[i].ID == "" {
			if i == 0 {
				answer.Calls = slices.Clone(answer.Calls)
			}
			answer.Calls[i].ID = fmt.Sprintf("c%d", t.calls)
		}
	}
	return answer, nil
}

// chat asks the model, once more where another try may help and nothing was
// said yet.
func (t *turn) chat(ctx context.Context, r Request) (Message, bool, error) {
	for try := 0; ; try++ {
		sp := t.speaker(ctx, r)
		answer, err := t.a.o.Model.Chat(ctx, r, sp.piece())
		if ctx.Err() != nil {
			return Message{}, false, ctx.Err()
		}
		if err == nil {
			t.count(answer.Usage)
			said := spoken(answer.Text)
			t.thought = ""
			if said == "" && len(answer.Calls) == 0 && strings.TrimSpace(answer.Thinking+answer.Text) != "" {
				t.thought = answer.Thinking + "\n" + answer.Text
				if !t.callInThoughts() {
					err = fmt.Errorf("%w: nothing but thoughts", ErrEmpty)
				}
			}
			answer.Text, answer.Thinking = said, ""
		} else {
			t.count(agent.Usage{})
		}
		if err == nil {
			answer.Role, answer.Name = Assistant, ""
			sp.end()
			return answer, sp.spoke, nil
		}
		switch {
		case sp.spoke || try > 0:
		case errors.Is(err, ErrNoThinking) && r.Think:
			r.Think = false
			continue
		case errors.Is(err, ErrNoDone), errors.Is(err, ErrEmpty), errors.Is(err, ErrSchema):
			warmer := 0.3
			if r.Temperature != nil {
				warmer += *r.Temperature
			}
			r.Temperature = &warmer
			continue
		}
		if errors.Is(err, ErrNoMatch) {
			return Message{}, false, fmt.Errorf("%w: declined: %w", agent.ErrFailed, err)
		}
		if agent.StatusOf(err) != agent.Failed || errors.Is(err, agent.ErrFailed) {
			return Message{}, false, err
		}
		return Message{}, false, fmt.Errorf("%w: %w", agent.ErrFailed, err)
	}
}

func (t *turn) count(u agent.Usage) {
	t.Usage.Calls += max(u.Calls, 1)
	t.Usage.PromptTokens += u.PromptTokens
	t.Usage.OutputTokens += u.OutputTokens
}

// once reports whether a repair is still allowed in this run.
func (t *turn) once(what string) bool {
	if t.hinted[what] {
		return false
	}
	if t.hinted == nil {
		t.hinted = map[string]bool{}
	}
	t.hinted[what] = true
	return true
}

// settleWords looks at an answer without calls: a call written as text never
// acts, and a call that was demanded is asked for once more.
func (t *turn) settleWords(ctx context.Context, r Request, answer Message) (again bool, err error) {
	hint, reason := "", ""
	switch {
	case t.callInText(answer.Text), answer.Text == "" && t.callInThoughts():
		hint, reason = "That was text and nothing was done. Make a real tool call, or answer in plain words.", "call_in_text"
	case r.Choice == ChoiceRequired && len(r.Tools) > 0:
		hint, reason = "You must call one of the tools now.", "no_tool_call"
	default:
		return false, nil
	}
	if !t.once(reason) {
		return false, fmt.Errorf("%w: %s", agent.ErrFailed, reason)
	}
	t.spoke = false
	if answer.Text == "" {
		answer.Text = "(nothing)" // servers refuse an empty answer in a dialogue
	}
	t.add(answer, Message{Role: User, Text: hint})
	return true, ctx.Err()
}

// callInText recognises an answer that is nothing but a call in writing.
func (t *turn) callInText(text string) bool {
	text = strings.TrimSpace(unfence(text))
	text = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(text, "<tool_call>"), "</tool_call>"))
	if strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") {
		v, err := schema.Decode([]byte(text))
		if err != nil {
			return false
		}
		if list, ok := v.([]any); ok && len(list) > 0 {
			v = list[0]
		}
		m, _ := v.(map[string]any)
		if f, ok := m["function"].(map[string]any); ok {
			m = f
		}
		for _, key := range []string{"name", "tool", "function"} {
			if name, ok := m[key].(string); ok && t.a.tools[name] != nil {
				return true
			}
		}
		return false
	}
	name, rest, ok := strings.Cut(text, "(")
	return ok && strings.HasSuffix(rest, ")") && t.a.tools[strings.TrimSpace(name)] != nil
}

// callInThoughts recognises an answer whose thoughts end with a call in writing,
// and that has nothing else.
func (t *turn) callInThoughts() bool {
	text := strings.TrimSpace(strings.NewReplacer(thinkOpen, "", thinkClose, "").Replace(t.thought))
	if text == "" {
		return false
	}
	if i := strings.LastIndex(text, "<tool_call>"); i >= 0 {
		text = text[i:]
	}
	return t.callInText(text) || t.callInText(text[strings.LastIndex(text, "\n")+1:])
}

// unfence gives what stands in a code fence, if a text is one.
func unfence(text string) string {
	text = strings.TrimSpace(text)
	rest, ok := strings.CutPrefix(text, "```")
	if !ok {
		return text
	}
	if _, body, ok := strings.Cut(rest, "\n"); ok {
		rest = body
	}
	return strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "```"))
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}
