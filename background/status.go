package background

import (
	"maps"
	"time"
)

// A State is what a child or a supervisor is doing.
type State string

// The states.
const (
	Starting   State = "starting"
	Running    State = "running"
	BackingOff State = "backing_off" // waits for its restart
	Stopping   State = "stopping"
	Stopped    State = "stopped" // told to, or finished by itself
	Failed     State = "failed"  // given up, or crashed and not restarted
)

// A Status is a tree as it stands, for the operator's page.
type Status struct {
	Name      string     `json:"name"`
	Kind      string     `json:"kind"` // supervisor, agent, service
	State     State      `json:"state"`
	Restart   string     `json:"restart,omitempty"`
	Strategy  string     `json:"strategy,omitempty"`
	Since     *time.Time `json:"since,omitempty"` // of the last start
	Restarts  int        `json:"restarts"`
	LastError string     `json:"last_error,omitempty"`
	Backtrace string     `json:"backtrace,omitempty"`
	NextRetry *time.Time `json:"next_retry,omitempty"`
	Left      *int       `json:"restarts_left,omitempty"` // that a supervisor allows now
	GiveUps   int        `json:"give_ups,omitempty"`      // ever, of a supervisor or an agent that has its own
	GaveUp    *time.Time `json:"last_give_up,omitempty"`
	Abandoned int        `json:"abandoned,omitempty"` // children that ignored their stop, ever
	Lingering bool       `json:"lingering,omitempty"` // an abandoned run is still there
	Detail    any        `json:"detail,omitempty"`
	Children  []Status   `json:"children,omitempty"`
}

// A Describer is a service that adds something to its status; the value must
// have a JSON form. Describe may be called at any time.
type Describer interface {
	Describe() any
}

// State is what the supervisor itself is doing.
func (s *Supervisor) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life == nil {
		return Stopped
	}
	return s.life.state
}

// Status is the tree below the supervisor, in start order.
func (s *Supervisor) Status() Status {
	s.mu.Lock()
	st := Status{Name: s.name, Kind: "supervisor", State: Stopped, Strategy: s.opt.Strategy.String(), Abandoned: s.abandoned}
	if l := s.life; l != nil {
		left := l.window.left(time.Now())
		st.State, st.Restarts, st.Since, st.Left = l.state, l.restarts, &l.since, &left
		if l.reason != nil {
			st.LastError = l.reason.Error()
		}
	}
	s.gaveUps(&st)
	var services []Service
	for _, c := range s.children {
		if !c.gone {
			st.Children = append(st.Children, c.status())
			services = append(services, c.Service)
		}
	}
	s.mu.Unlock()
	for i := range st.Children {
		describe(&st.Children[i], services[i])
	}
	return st
}

// gaveUps adds how often the supervisor gave up. The caller holds mu.
func (s *Supervisor) gaveUps(st *Status) {
	if s.past.GiveUps > 0 {
		at := s.past.LastGiveUp
		st.GiveUps, st.GaveUp = s.past.GiveUps, &at
	}
}

// status is the supervisor's part of a child's status. The caller holds mu.
func (c *child) status() Status {
	st := Status{Name: c.Name, Kind: "service", State: c.state, Restart: c.Restart.String(), Restarts: c.restarts, Lingering: c.old != nil}
	if !c.began.IsZero() {
		began := c.began
		st.Since = &began
	}
	if c.lastErr != nil {
		st.LastError, st.Backtrace = c.lastErr.Error(), backtrace(c.lastErr)
	}
	if c.pending != nil {
		at := c.pending.at
		st.NextRetry = &at
	}
	return st
}

// describe adds the service's part.
func describe(st *Status, svc Service) {
	switch v := svc.(type) {
	case *Agent:
		st.Kind, st.Detail = "agent", v.detail()
	case *Supervisor:
		inner := v.Status()
		st.Kind, st.Strategy, st.Left, st.Abandoned, st.Children = inner.Kind, inner.Strategy, inner.Left, inner.Abandoned, inner.Children
		st.GiveUps, st.GaveUp = inner.GiveUps, inner.GaveUp
	case Describer:
		st.Detail = v.Describe()
	}
}

// AgentStatus is an agent as it stands.
type AgentStatus struct {
	Status
	AgentDetail
}

// AgentDetail is what an agent adds to its status in a tree.
type AgentDetail struct {
	Queue    int               `json:"queue"` // tasks that wait
	MaxQueue int               `json:"max_queue"`
	Drops    map[string]uint64 `json:"drops,omitempty"` // by cause: overflow, replaced, crash, trigger, stop, exit, gave_up
	Busy     bool              `json:"busy"`
	Runs     uint64            `json:"runs"`
	LastRun  *LastRun          `json:"last_run,omitempty"`
}

// LastRun is the run of an agent that ended last.
type LastRun struct {
	Time    time.Time `json:"time"` // of its end
	Status  string    `json:"status"`
	Reason  string    `json:"reason,omitempty"`
	Elapsed float64   `json:"elapsed"` // seconds
}

// Status is the agent as it stands.
func (a *Agent) Status() AgentStatus {
	a.mu.Lock()
	last := a.last
	a.mu.Unlock()
	st := AgentStatus{Status: Status{Name: a.name, State: Stopped, Restart: a.o.Restart.String()}, AgentDetail: a.detail()}
	if last != nil {
		last.s.mu.Lock()
		st.Status = last.c.status()
		last.s.mu.Unlock()
	}
	a.tree.mu.Lock()
	if l := a.tree.life; last == nil && l != nil && l.state == Failed { // in the process before
		st.State, st.LastError = Failed, l.reason.Error()
	}
	a.tree.gaveUps(&st.Status)
	a.tree.mu.Unlock()
	st.Kind = "agent"
	return st
}

func (a *Agent) detail() AgentDetail {
	a.mu.Lock()
	defer a.mu.Unlock()
	return AgentDetail{
		Queue: a.queue.n, MaxQueue: a.o.MaxQueue, Drops: maps.Clone(a.log.drops), Busy: a.working,
		Runs: a.log.runs, LastRun: a.log.last,
	}
}

// Alive reports whether something in this state runs or will by itself.
func (s State) Alive() bool { return s != Stopped && s != Failed }
