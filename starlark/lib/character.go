package lib

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"go.starlark.net/starlark"

	"edged/agent"
	"edged/bus"
	"edged/starlark/script"
	"edged/starlark/value"
	"edged/workflow/graph"
)

// Moods and traits of agents: what personality edges of graphs go by.

// character makes that of an agent.
func character(c *value.Call, id *identity) error {
	half := c.Duration("mood_half_life")
	ch, err := graph.NewCharacter(id.name, floats(id.traits), floats(id.mood), half)
	if err != nil {
		return err // scale has said it before
	}
	id.character = ch
	return nil
}

func floats(m map[string]any) map[string]float64 {
	out := make(map[string]float64, len(m))
	for k, v := range m {
		switch n := v.(type) {
		case float64:
			out[k] = n
		case int64:
			out[k] = float64(n)
		}
	}
	return out
}

// moodNow is the mood of an agent as it is now.
func moodNow(a agent.Agent) any {
	ch := aboutAgent(a).character
	if ch == nil {
		return map[string]any{}
	}
	out := map[string]any{}
	for k, v := range ch.Mood() {
		out[k] = v
	}
	return out
}

var moodParams = []value.Param{
	{Name: "valence", Type: value.Between(value.Number, -1, 1), Doc: "How pleasant."},
	{Name: "arousal", Type: value.Between(value.Number, -1, 1), Doc: "How excited."},
	{Name: "dominance", Type: value.Between(value.Number, -1, 1), Doc: "How much in command."},
}

var moodMethods = []value.Method[agent.Agent]{
	{
		Func: value.Func{
			Name: "set_mood", Doc: "Changes parts of its mood, which personality edges of graphs go by. With mood_half_life it goes back to what it was at first.",
			Example: "on(\"guard/alarm\", lambda ev: body.set_mood(arousal = 0.8, valence = -0.4))",
			Params:  moodParams,
		},
		Do: setMood,
	},
	{
		Func: value.Func{
			Name: "feel", Doc: "Lets events change its mood: the function says what an event adds to it. The sum stays from -1 to 1.",
			Example: "body.feel(\"guard/praise\", lambda ev: {\"valence\": 0.2})",
			Params: []value.Param{
				{Name: "filter", Type: value.String, Required: true, Positional: true, Doc: "An MQTT topic filter."},
				{Name: "fn", Type: value.Callable, Required: true, Positional: true, Doc: "Called with the event and ctx; returns a dict of valence, arousal, dominance, or None."}},
		},
		Do: feel,
	},
}

func characterOf(c *value.Call, a agent.Agent) (*identity, error) {
	id := aboutAgent(a)
	if id.character == nil {
		return nil, &value.Error{Msg: fmt.Sprintf("%s has no mood", a.Name()), Hint: "agents made with Agent(…) have one"}
	}
	return id, nil
}

func setMood(a agent.Agent, c *value.Call) (starlark.Value, error) {
	if err := effect(c); err != nil {
		return nil, err
	}
	id, err := characterOf(c, a)
	if err != nil {
		return nil, err
	}
	mood := map[string]float64{}
	for _, p := range moodParams {
		if c.Has(p.Name) {
			mood[p.Name] = c.Float(p.Name)
		}
	}
	if err := id.character.SetMood(mood); err != nil {
		return nil, err
	}
	id.tellMood(c.Context())
	return nil, nil
}

// tellMood says on the bus what the mood is now.
func (a *identity) tellMood(ctx context.Context) {
	now := map[string]any{}
	for k, v := range a.character.Mood() {
		now[k] = v
	}
	a.b.tell(ctx, "agent:"+a.name, "edged/agent/"+a.name+"/mood", now)
}

// feeling lets events change a mood.
type feeling struct {
	id     *identity
	filter string
	cb     *callback
	at     script.Position

	mu   sync.Mutex // guards the rest
	sub  *bus.Subscription
	runs uint64
}

func feel(a agent.Agent, c *value.Call) (starlark.Value, error) {
	id, err := characterOf(c, a)
	if err != nil {
		return nil, err
	}
	f := &feeling{id: id, filter: c.String("filter"), at: where(c)}
	if err := id.b.mayHear(c, f.filter); err != nil {
		return nil, err
	}
	if f.cb, err = newCallback(c, "fn", "event"); err != nil {
		return nil, err
	}
	return nil, id.b.attach(c, f)
}

func (f *feeling) start() (err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sub, err = f.id.b.host.Bus.Handle(f.filter, bus.Queue{Name: "mood of " + f.id.name}, f.hear)
	return err
}

func (f *feeling) close() {
	f.mu.Lock()
	sub := f.sub
	f.sub = nil
	f.mu.Unlock()
	if sub != nil {
		sub.Close()
	}
}

// stands implements standing.
func (f *feeling) stands() stance { return stance{"feel", f.filter, f.id.name} }

func (f *feeling) idle() bool             { return true }
func (f *feeling) hold() (release func()) { return func() {} }

// handTo implements standing.
func (f *feeling) handTo(to standing) (moved int, lost []string) {
	var heir *bus.Subscription
	if next, ok := to.(*feeling); ok {
		next.mu.Lock()
		heir = next.sub
		next.mu.Unlock()
	}
	f.mu.Lock()
	sub := f.sub
	f.mu.Unlock()
	return handQueue(sub, heir)
}

func (f *feeling) summary() HandlerSummary {
	f.mu.Lock()
	defer f.mu.Unlock()
	return HandlerSummary{Kind: "feel", What: []string{f.filter}, Handler: f.id.name, At: f.at.String(), Listens: f.sub != nil, Runs: f.runs}
}

func (f *feeling) hear(ctx context.Context, e bus.Event) error {
	b := f.id.b
	f.mu.Lock()
	f.runs++
	f.mu.Unlock()
	r := &run{Context: ctx, life: b.life, b: b, source: "agent:" + f.id.name, reads: true, more: &more{name: f.id.name}}
	v, err := b.do(r, f.cb, eventValue(e))
	if err != nil || v == starlark.None {
		return err
	}
	tree, err := value.ToGo(v)
	m, ok := tree.(map[string]any)
	if err != nil || !ok || len(floats(m)) != len(m) {
		return fmt.Errorf("%s returned %s: want a dict of %s, or None", b.fnName(f.cb), shown(v), strings.Join(graph.Moods(), ", "))
	}
	if err := f.id.character.AddMood(floats(m)); err != nil {
		return err
	}
	f.id.tellMood(ctx)
	return nil
}
