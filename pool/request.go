package pool

import (
	"context"
	"fmt"
	"time"

	"edged/agent"
	"edged/background"
	"edged/blackboard"
	"edged/bus"
	"edged/bus/origin"
)

// requestKey is where requests for a capability wait.
func requestKey(capability string) string { return "capability/" + capability }

// Request gives a task to any agent that declares a capability, now or later:
// it waits until one takes it, for at most timeout (0 = for ever). The future
// gives the agent's [agent.Result] as [ResultOf] reads it. An agent that
// crashes on it leaves it to be offered again.
func (p *Pool) Request(ctx context.Context, from, capability string, task any, timeout time.Duration) (*bus.Future, error) {
	if p.o.Board == nil {
		return nil, fmt.Errorf("pool: request %q: %w", capability, ErrNoBoard)
	}
	f, err := p.o.Board.Post(ctx, from, requestKey(capability), task, blackboard.PostOptions{Timeout: timeout})
	if err != nil {
		return nil, fmt.Errorf("pool: request %q: %w", capability, err)
	}
	return f, nil
}

// volunteer has an agent answer requests for what it can do.
func (p *Pool) volunteer(m *member) error {
	if p.o.Board == nil {
		return nil
	}
	for _, c := range m.capabilities {
		o := blackboard.VolunteerOptions{Name: "agent:" + m.agent.Name(), Lease: p.o.Lease}
		v, err := p.o.Board.Volunteer(requestKey(c), o, func(ctx context.Context, r *blackboard.Request) (any, error) {
			res, err := p.perform(ctx, m.agent, agent.Task{Input: r.Task, Origin: r.Origin})
			origin.Raise(ctx, res.Origin) // the answer has its words
			if err != nil {
				return nil, err
			}
			return tree(res), nil
		})
		if err != nil {
			m.resign()
			return err
		}
		m.volunteers = append(m.volunteers, v)
	}
	return nil
}

// resign ends answering.
func (m *member) resign() {
	for _, v := range m.volunteers {
		v.Close()
	}
}

// tree is a result as a JSON tree, for the blackboard.
func tree(r agent.Result) map[string]any {
	t := map[string]any{"status": string(r.Status), "by": r.By, "elapsed": r.Elapsed.Seconds()}
	if r.Reply != "" {
		t["reply"] = r.Reply
	}
	if r.Reason != "" {
		t["reason"] = r.Reason
	}
	if r.Output != nil {
		t["output"] = r.Output
	}
	return t
}

// ResultOf reads the answer to a request. Whatever else a volunteer that is no
// agent may have answered is the output of a result that is done.
func ResultOf(answer any) agent.Result {
	t, _ := answer.(map[string]any)
	text := func(k string) string { s, _ := t[k].(string); return s }
	if text("status") == "" || text("by") == "" {
		return agent.Result{Status: agent.Done, Output: answer}
	}
	seconds, _ := t["elapsed"].(float64)
	return agent.Result{
		Status: agent.Status(text("status")), By: text("by"), Reply: text("reply"), Reason: text("reason"),
		Output: t["output"], Elapsed: time.Duration(seconds * float64(time.Second)),
	}
}

// Status is a pool as it stands.
type Status struct {
	Agents  []AgentStatus `json:"agents"`
	Running int           `json:"running"` // runs and answers in progress, background runs not counted
}

// AgentStatus is one agent of a pool.
type AgentStatus struct {
	Name         string                  `json:"name"`
	Capabilities []string                `json:"capabilities,omitempty"`
	Background   *background.AgentStatus `json:"background,omitempty"`
}

// Status tells about every agent, in the order they were registered.
func (p *Pool) Status() Status {
	p.mu.Lock()
	st := Status{Agents: make([]AgentStatus, len(p.order))}
	inBackground := make([]*background.Agent, len(p.order))
	for i, n := range p.order {
		m := p.members[n]
		st.Agents[i] = AgentStatus{Name: n, Capabilities: m.capabilities}
		inBackground[i] = m.background
	}
	w := p.works
	p.mu.Unlock()
	w.mu.Lock()
	st.Running = w.n
	w.mu.Unlock()
	for i, a := range inBackground {
		if a != nil {
			s := a.Status()
			st.Agents[i].Background = &s
		}
	}
	return st
}
