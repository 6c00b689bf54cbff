package lib

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.starlark.net/starlark"

	"edged/starlark/value"
	"edged/workflow/graph"
)

// An Ask is a question to people: of a Human node of a graph, or of a turn
// that HUMAN has in a society. Nobody but a person answers it.
type Ask struct {
	By      string // who asks: "graph:request", "society:home"
	Run     string // id of the run; with Path it is the same question after a restart
	Path    string // of the step in it
	Node    string // of the graph that asks, if one does
	Prompt  string
	Options []string        // what can be answered; nil is any words
	Form    json.RawMessage // the answer is JSON of this schema; nil: it is words
	Asked   time.Time
	Until   time.Time // when the answer comes too late; zero is never
	Default string    // what is taken then; empty is nothing
}

var humanRows = []row{{value.Func{
	Name: "Human", Doc: "A question to a person, as a node of a graph. It is asked at the terminal, over MQTT and by edged answer, and waits through a restart. Nobody but a person answers it. The answer is what the node puts out.",
	Example: "ask = Human(\"That leaves the fence. Go anyway?\", options = [\"yes\", \"no\"], timeout = \"30s\")",
	Params: []value.Param{
		{Name: "prompt", Type: value.String, Required: true, Positional: true, Doc: "What is asked."},
		{Name: "options", Type: value.ListOf(value.String), Positional: true, Doc: "What can be answered; anything if missing. Other answers are not taken."},
		{Name: "timeout", Type: value.Duration, Doc: "How long the answer may take, also while the robot is off; for ever if missing."},
		{Name: "on_timeout", Type: value.String, Doc: "What is taken then; the last option if missing, so write the safe one last."}},
	Returns: "a node for graphs",
}, func(_ *Behaviour, c *value.Call) (starlark.Value, error) {
	h := &graph.Human{Prompt: c.String("prompt"), Options: c.Strings("options"), Timeout: c.Duration("timeout"), OnTimeout: c.String("on_timeout")}
	switch {
	case strings.TrimSpace(h.Prompt) == "":
		return nil, c.Errorf("prompt", "argument \"prompt\": nothing is asked")
	case len(h.Options) > 0 && h.OnTimeout != "" && !slices.Contains(h.Options, h.OnTimeout):
		return nil, &value.Error{Arg: "on_timeout", Msg: fmt.Sprintf("on_timeout %q is none of the options", h.OnTimeout), Hint: fmt.Sprintf("there are %q", h.Options)}
	case len(h.Options) == 0 && h.Timeout > 0 && h.OnTimeout == "":
		return nil, &value.Error{Arg: "timeout", Msg: "the question has a timeout and no answer for it", Hint: "add on_timeout = \"…\", or options, the safe one last"}
	case h.OnTimeout != "" && h.Timeout <= 0:
		return nil, &value.Error{Arg: "on_timeout", Msg: "the question has an on_timeout and waits for ever", Hint: "add timeout = \"30s\""}
	}
	return humanKind.Wrap(h), nil
}}}

var humanKind = &value.Kind[*graph.Human]{
	Name: "human", Doc: "A question to a person, see Human.",
	Attrs: []value.Attr[*graph.Human]{
		{Name: "prompt", Doc: "What is asked.", Type: value.String, Get: func(h *graph.Human) (any, error) { return h.Prompt, nil }},
		{Name: "options", Doc: "What can be answered.", Get: func(h *graph.Human) (any, error) { return slices.Clone(h.Options), nil }},
	},
	String: func(h *graph.Human) string { return fmt.Sprintf("<human %q>", h.Prompt) },
}

// asker asks people for graphs.
type asker struct{ b *Behaviour }

// Ask implements graph.Asker.
func (a asker) Ask(ctx context.Context, q graph.Question) (string, error) {
	return a.b.askPeople(ctx, Ask{By: "graph:" + q.Graph, Run: q.Run, Path: q.Path, Node: q.Node, Prompt: q.Prompt, Options: q.Options, Asked: q.Asked, Until: q.Until, Default: q.Default})
}

// answered is the cause that a question ends with that a handler answered with
// a person's words.
type answered struct{ text string }

func (*answered) Error() string { return "it was answered" }

// openAsk is a question that waits.
type openAsk struct {
	Ask
	end  context.CancelCauseFunc
	live *liveRun // the run that waits with it, nil if nobody follows that
	said bool     // it is answered; asking.mu guards it
}

// asking are the questions that wait now.
type asking struct {
	mu   sync.Mutex    // guards the rest
	open []*openAsk    // the oldest first
	more chan struct{} // closed when there is another one; nil: nobody waits for that
}

// of gives the questions of a run.
func (a *asking) of(run string) (list []*openAsk) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, q := range a.open {
		if q.Run == run && run != "" && !q.said {
			list = append(list, q)
		}
	}
	return list
}

// besides gives the oldest of the other questions of a question's run, and what
// is closed when somebody asks another one.
func (a *asking) besides(q *openAsk) (*openAsk, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.more == nil {
		a.more = make(chan struct{})
	}
	if i := slices.IndexFunc(a.open, func(x *openAsk) bool { return x != q && x.Run == q.Run && !x.said }); i >= 0 {
		return a.open[i], a.more
	}
	return nil, a.more
}

// take answers a question, once.
func (a *asking) take(q *openAsk, said string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if q.said {
		return false
	}
	q.said = true
	q.end(&answered{said})
	return true
}

// add notes a question.
func (a *asking) add(q *openAsk) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open = append(a.open, q)
	if a.more != nil {
		close(a.more)
		a.more = nil
	}
}

// askPeople puts a question to people, who may also answer by way of a handler,
// and waits.
func (b *Behaviour) askPeople(ctx context.Context, q Ask) (string, error) {
	if b.host.Ask == nil {
		return "", graph.ErrLater
	}
	inner, end := context.WithCancelCause(ctx)
	defer end(nil)
	one := &openAsk{Ask: q, end: end}
	one.live, _ = ctx.Value(liveRunKey{}).(*liveRun)
	b.asking.add(one)
	defer func() {
		b.asking.mu.Lock()
		defer b.asking.mu.Unlock()
		b.asking.open = slices.DeleteFunc(b.asking.open, func(x *openAsk) bool { return x == one })
	}()
	said, err := b.host.Ask(inner, q)
	var by *answered
	if ctx.Err() == nil && errors.As(context.Cause(inner), &by) {
		return by.text, nil
	}
	return said, err
}

// mayAnswer returns the error for an answer that is not a person's: scripts may
// hand on what a person said, and say nothing themselves.
func mayAnswer(c *value.Call) error {
	r := runOf(c.Context())
	if r != nil && (r.trusted || r.main) {
		return nil
	}
	if r != nil {
		if e := r.handled(); e != nil && !e.Retained && fromPerson(e.Source, e.Topic) {
			return nil // what was kept somewhere was said before the question
		}
	}
	return &value.Error{Arg: "answer", Msg: "nobody but a person answers a question", Hint: "resume with an answer in a handler of what a person said or sent, or use 'edged answer'"}
}

// fromPerson reports whether an event is what a person said or sent.
func fromPerson(source, topic string) bool {
	kind, _, _ := strings.Cut(source, ":")
	switch kind {
	case "mqtt", "cli", "voice", "page", "test":
		return true
	case "hw": // a person speaks to the robot's own microphone
		return strings.HasPrefix(topic, "voice/")
	}
	return false
}
