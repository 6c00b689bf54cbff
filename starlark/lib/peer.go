package lib

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"sync"

	"go.starlark.net/starlark"

	"edged/agent"
	"edged/background"
	"edged/bus"
	"edged/bus/origin"
	"edged/starlark/script"
	"edged/starlark/value"
	"edged/workflow/society"
)

// Peers give each other tasks by events, which a bridge may carry to other
// robots: <topic> takes {"id", "task", "conversation"} and {"id", "cancel"},
// <topic>/reply/<id> brings {"status", "reply", "output", "reason", "by"}.
// Messages with a kind are turns of a society, see peerturn.go.

// peer is an agent somewhere else.
type peer struct {
	identity
	topic string
}

var _ agent.Agent = (*peer)(nil)

func newPeer(c *value.Call, id identity) (agent.Agent, error) {
	if err := withoutModel(c); err != nil {
		return nil, err
	}
	p := &peer{id, c.String("topic")}
	if err := bus.ValidTopic(p.topic); err != nil {
		return nil, c.Errorf("topic", "argument \"topic\": %v", err)
	}
	if err := p.b.mayPublish(c, p.topic); err != nil {
		return nil, err
	}
	return p, p.b.mayHear(c, p.topic+"/reply/#") // which covers /reply, too
}

// Run implements agent.Agent.
func (p *peer) Run(ctx context.Context, t agent.Task) (agent.Result, error) {
	within := cmp.Or(p.timeout, society.PeerTime)
	ctx, cancel := context.WithTimeout(p.run(ctx, t), within)
	defer cancel()
	id := rand.Text()
	answers, err := p.b.host.Bus.Subscribe(p.topic+"/reply/"+id, bus.Queue{Limit: 1, Overflow: bus.DropNew, Name: p.name + ": reply"})
	if err != nil {
		return agent.Result{}, err
	}
	defer answers.Close()
	source := "agent:" + p.name
	ask := map[string]any{"id": id, "task": t.Input}
	if t.Conversation != "" {
		ask["conversation"] = t.Conversation
	}
	if _, err := p.b.host.Bus.Publish(ctx, source, p.topic, ask); err != nil {
		return agent.Result{}, err
	}
	e, err := answers.Next(ctx)
	if err != nil {
		p.b.tell(context.WithoutCancel(ctx), source, p.topic, map[string]any{"id": id, "cancel": true})
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return agent.Result{}, fmt.Errorf("%w: nobody answered on %s within %v", agent.ErrTimeout, p.topic, within)
		}
		return agent.Result{}, err
	}
	m, ok := e.Payload().(map[string]any)
	if !ok {
		return agent.Result{}, fmt.Errorf("%w: the answer of %s is no dict", agent.ErrFailed, p.topic)
	}
	text := func(key string) string { s, _ := m[key].(string); return s }
	r := agent.Result{Status: agent.Status(text("status")), Reply: text("reply"), Output: m["output"], Reason: text("reason"), By: text("by"),
		Origin: origin.Merge(origin.From(ctx), e.Origin(), origin.Of("agent:"+p.name))}
	if r.Status == "" {
		return agent.Result{}, fmt.Errorf("%w: the answer of %s has no status", agent.ErrFailed, p.topic)
	}
	return r, nil
}

// server lets an agent be a peer.
type server struct {
	b      *Behaviour
	a      agent.Agent
	member *society.Agent // a, as it takes turns
	topic  string
	at     script.Position

	mu      sync.Mutex // guards the rest
	sub     *bus.Subscription
	running map[string]context.CancelCauseFunc
	runs    uint64
}

// mostServed is how many tasks of peers run at a time.
const mostServed = 16

func serveAgent(c *value.Call, a agent.Agent) (starlark.Value, error) {
	b, err := homeOf(c, a)
	if err != nil {
		return nil, err
	}
	s := &server{b: b, a: a, member: &society.Agent{Name: a.Name(), Role: roleOf(a), Speaker: b.speaker(a)}, topic: c.String("topic"), at: where(c), running: make(map[string]context.CancelCauseFunc)}
	if err := bus.ValidTopic(s.topic); err != nil {
		return nil, c.Errorf("topic", "argument \"topic\": %v", err)
	}
	if err := b.mayHear(c, s.topic); err != nil {
		return nil, err
	}
	for _, reply := range []string{"/reply", "/reply/x"} {
		if err := b.mayPublish(c, s.topic+reply); err != nil {
			return nil, err
		}
	}
	return nil, b.attach(c, s)
}

func (s *server) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	s.sub, err = s.b.host.Bus.Handle(s.topic, bus.Queue{Limit: 64, Name: "serve " + s.a.Name()}, s.hear)
	return err
}

func (s *server) close() {
	s.mu.Lock()
	sub := s.sub
	s.sub = nil
	s.mu.Unlock()
	if sub != nil {
		sub.Close()
	}
}

// stands implements standing.
func (s *server) stands() stance { return stance{"serve", s.topic, s.a.Name()} }

func (s *server) idle() bool             { return true } // it runs tasks side by side
func (s *server) hold() (release func()) { return func() {} }

// handTo implements standing.
func (s *server) handTo(to standing) (moved int, lost []string) {
	var heir *bus.Subscription
	if next, ok := to.(*server); ok {
		next.mu.Lock()
		heir = next.sub
		next.mu.Unlock()
	}
	s.mu.Lock()
	sub := s.sub
	s.mu.Unlock()
	return handQueue(sub, heir)
}

func (s *server) summary() HandlerSummary {
	s.mu.Lock()
	defer s.mu.Unlock()
	return HandlerSummary{Kind: "serve", What: []string{s.topic}, Handler: s.a.Name(), At: s.at.String(), Listens: s.sub != nil, Runs: s.runs}
}

// goodID is what may become a level of a topic.
func goodID(id string) bool {
	ok, _ := regexp.MatchString(`^[A-Za-z0-9_-]{1,64}$`, id)
	return ok
}

func (s *server) hear(_ context.Context, e bus.Event) error {
	m, _ := e.Payload().(map[string]any)
	id, _ := m["id"].(string)
	if !goodID(id) {
		return nil // nobody could be answered
	}
	kind, _ := m["kind"].(string)
	over, _ := m["cancel"].(bool)
	if isNews(kind) {
		return nil // scripts hear it as they hear any event
	}
	s.mu.Lock()
	if over || kind == society.KindCancel {
		cancel := s.running[id]
		s.mu.Unlock()
		if cancel != nil {
			cancel(errGivenUp)
		}
		return nil
	}
	if s.running[id] != nil { // delivered twice
		s.mu.Unlock()
		return nil
	}
	life, cancel := context.WithCancelCause(s.b.life)
	busy := len(s.running) >= mostServed
	if !busy {
		s.running[id] = cancel
		s.runs++
	}
	s.mu.Unlock()
	ctx := &run{Context: bus.WithCause(context.Background(), e), life: life, b: s.b, source: "agent:" + s.a.Name()}
	t := agent.Task{Input: m["task"], Origin: e.Origin().Join(origin.Of(e.Source))}
	if t.Conversation, _ = m["conversation"].(string); t.Conversation != "" {
		t.Conversation = s.topic + ":" + t.Conversation
	}
	work := func() {
		defer cancel(nil)
		if kind != "" {
			s.takeTurn(ctx, id, m, t)
			return
		}
		s.serve(ctx, id, t)
	}
	if !busy && s.b.spawn(work) {
		return nil
	}
	if kind != "" {
		s.say(ctx, map[string]any{"kind": society.KindRefuse, "id": id, "from": s.a.Name(), "reason": "busy"})
	} else {
		s.answer(ctx, id, agent.Result{Status: agent.Failed, Reason: "busy"})
	}
	cancel(nil)
	if !busy {
		s.done(id)
	}
	return nil
}

func (s *server) done(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, id)
}

func (s *server) serve(ctx context.Context, id string, t agent.Task) {
	r, _ := background.Perform(ctx, s.b.host.Bus, s.a, t) // the result says it
	s.done(id)
	s.answer(context.WithoutCancel(ctx), id, r)
}

func (s *server) answer(ctx context.Context, id string, r agent.Result) {
	m := map[string]any{"id": id, "status": string(r.Status), "reply": r.Reply, "by": r.By}
	if r.Output != nil {
		m["output"] = r.Output
	}
	if r.Reason != "" {
		m["reason"] = r.Reason
	}
	s.b.tell(ctx, "agent:"+s.a.Name(), s.topic+"/reply/"+id, m)
}
