package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"edged/background"
	"edged/bus"
)

// What agents did last, for their cards on the page.

// deeds keeps the last run of each agent. It is on the bus for events of agents
// alone, and keeps the events as they are: what is in them is read when
// somebody looks.
type deeds struct {
	tap *bus.Subscription

	mu sync.Mutex // guards of
	of map[string]*deed
}

// deed is the last run of an agent.
type deed struct {
	start, end, model bus.Event
	tools             [lastTools]bus.Event
	called, proved    int // tools, since the start
	running           int
}

const (
	lastTools  = 8
	mostAgents = 256 // that are remembered; helpers come and go under new names
)

func watchDeeds(b *bus.Bus) (*deeds, error) {
	d := &deeds{of: map[string]*deed{}}
	var err error
	d.tap, err = b.Tap("edged/agent/#", func(e bus.Event) { d.take(b, e) })
	return d, err
}

func (d *deeds) close() {
	if d != nil {
		d.tap.Close()
	}
}

// take is called by whoever publishes.
func (d *deeds) take(b *bus.Bus, e bus.Event) {
	topic := strings.TrimPrefix(e.Topic, "edged/agent/")
	at := strings.LastIndexByte(topic, '/')
	if at < 0 {
		return
	}
	name, what := topic[:at], topic[at+1:]
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.of[name]
	if one == nil {
		if len(d.of) >= mostAgents {
			return
		}
		one = &deed{}
		d.of[name] = one
	}
	switch what {
	case "start":
		one.start, one.end, one.called, one.proved = b.Stamp(e), bus.Event{}, 0, 0
		one.running++
	case "end":
		one.end = b.Stamp(e)
		one.running = max(0, one.running-1)
	case "model":
		one.model = e
	case "tool":
		one.tools[one.called%lastTools] = e
		one.called++
		if m, ok := e.Payload().(map[string]any); ok && m["ran"] == true && m["error"] == nil {
			one.proved++
		}
	}
}

// agentCard is an agent as the page shows it.
type agentCard struct {
	Name         string    `json:"name"`
	Role         string    `json:"role,omitempty"`
	Models       []string  `json:"models,omitempty"`
	Capabilities []string  `json:"capabilities,omitempty"`
	Busy         bool      `json:"busy"`
	State        string    `json:"state,omitempty"` // of its service, if it is one
	Started      time.Time `json:"started,omitzero"`
	Ended        time.Time `json:"ended,omitzero"`
	Task         any       `json:"task,omitempty"`
	Origin       string    `json:"origin,omitempty"`
	Status       string    `json:"status,omitempty"` // how the last run ended
	Reply        string    `json:"reply,omitempty"`
	Reason       string    `json:"reason,omitempty"`
	Elapsed      float64   `json:"elapsed,omitempty"` // seconds

	Tokens int `json:"tokens,omitempty"` // read and written in the last request
	Limit  int `json:"limit,omitempty"`  // of a request

	Asked  int       `json:"asked,omitempty"`  // tools that the last run called
	Proved int       `json:"proved,omitempty"` // of them, that ran and did not fail
	Tools  []askTool `json:"tools,omitempty"`

	Queue    int               `json:"queue,omitempty"`
	MaxQueue int               `json:"max_queue,omitempty"`
	Drops    map[string]uint64 `json:"drops,omitempty"`
	Runs     uint64            `json:"runs,omitempty"`
	Restarts int               `json:"restarts,omitempty"`
	Left     *int              `json:"restarts_left,omitempty"`
	Trouble  string            `json:"last_error,omitempty"`
}

func (r *robot) handleAgents(_ context.Context, _ json.RawMessage, send func(any) error) error {
	return send(r.cards())
}

// cards are those of all agents: who was made first comes first, then those
// that were only seen.
func (r *robot) cards() []agentCard {
	running, _ := r.scripts.behaviour()
	list := []agentCard{}
	card := func(name string) *agentCard {
		i := slices.IndexFunc(list, func(c agentCard) bool { return c.Name == name })
		if i < 0 {
			list, i = append(list, agentCard{Name: name}), len(list)
		}
		return &list[i]
	}
	for _, a := range running.Agents() {
		c := card(a.Name())
		if m, ok := a.(interface{ Role() string }); ok {
			c.Role = m.Role()
		}
		if m, ok := a.(interface{ Models() []string }); ok {
			c.Models = m.Models()
		}
		if m, ok := a.(interface{ Capabilities() []string }); ok {
			c.Capabilities = m.Capabilities()
		}
		if slices.ContainsFunc(c.Models, func(n string) bool { return strings.HasPrefix(n, kindOllama+":") }) {
			c.Limit = int(r.cfg.Models.Context)
		}
	}
	sum := running.Summary()
	for _, name := range sum.Agents {
		card(name)
	}
	if sum.Background != nil {
		supervised(*sum.Background, nil, card)
	}
	if r.page.deeds != nil {
		r.page.deeds.tell(card)
	}
	return list
}

// supervised fills in what the supervision tree knows.
func supervised(t background.Status, left *int, card func(string) *agentCard) {
	if t.Left != nil {
		left = t.Left
	}
	if d, ok := t.Detail.(background.AgentDetail); ok && t.Kind == "agent" {
		c := card(t.Name)
		c.State, c.Restarts, c.Left, c.Trouble = string(t.State), t.Restarts, left, t.LastError
		c.Queue, c.MaxQueue, c.Drops, c.Runs, c.Busy = d.Queue, d.MaxQueue, d.Drops, d.Runs, d.Busy
	}
	for _, child := range t.Children {
		supervised(child, left, card)
	}
}

// tell fills in what was done.
func (d *deeds) tell(card func(string) *agentCard) {
	d.mu.Lock()
	all := make(map[string]deed, len(d.of))
	for name, one := range d.of {
		all[name] = *one
	}
	d.mu.Unlock()
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		all[name].tell(card(name))
	}
}

func (d deed) tell(c *agentCard) {
	var start struct {
		Task   any
		Origin string
	}
	var end struct {
		Status, Reason, Reply string
		Elapsed               float64
	}
	var model struct {
		Prompt int `json:"prompt_tokens"`
		Output int `json:"output_tokens"`
	}
	if d.start.Seq > 0 {
		read(d.start, &start)
		c.Task, c.Origin, c.Started = start.Task, start.Origin, d.start.Time()
	}
	if d.end.Seq > 0 {
		read(d.end, &end)
		c.Status, c.Reason, c.Reply, c.Elapsed, c.Ended = end.Status, end.Reason, end.Reply, end.Elapsed, d.end.Time()
	}
	if d.model.Seq > 0 {
		read(d.model, &model)
		c.Tokens = model.Prompt + model.Output
	}
	c.Busy = c.Busy || d.running > 0
	c.Asked, c.Proved = d.called, d.proved
	for i := max(0, d.called-lastTools); i < d.called; i++ {
		var t struct {
			askTool
			Ran bool
		}
		read(d.tools[i%lastTools], &t)
		if !t.Ran && t.Error == "" {
			t.Error = "it did not run"
		}
		c.Tools = append(c.Tools, t.askTool)
	}
}

// read decodes a payload; what doesn't fit stays empty.
func read(e bus.Event, v any) {
	if b, err := e.JSON(); err == nil {
		_ = json.Unmarshal(b, v)
	}
}
