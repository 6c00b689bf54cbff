package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"edged/bus/trace"
	"edged/hw"
)

// An Actuator moves nothing and answers as it did in the record.
type Actuator struct {
	name   string
	limits hw.Limits

	mu    sync.Mutex // guards the rest
	sets  []*set
	goals []*goal
}

var _ hw.Goer = (*Actuator)(nil)

// set is a recorded command.
type set struct {
	command string
	err     string
	given   bool
}

// goal is a recorded action.
type goal struct {
	action, args string
	at           time.Time
	steps        []step
	given        bool
}

// step is what became known of a goal so long after its start.
type step struct {
	after  time.Duration
	state  hw.State
	value  any
	reason string
}

// took notes a command of the record.
func (a *Actuator) took(l trace.Line) {
	var p struct {
		Command json.RawMessage `json:"command"`
		Goal    int64           `json:"goal"`
		Error   string          `json:"error"`
	}
	if json.Unmarshal(l.Payload, &p) != nil || p.Command == nil || p.Goal != 0 {
		return
	}
	for _, own := range []error{hw.ErrStopped, hw.ErrReplaced, hw.ErrOff, context.Canceled} {
		if strings.Contains(p.Error, own.Error()) { // not the device's
			p.Error = ""
		}
	}
	a.sets = append(a.sets, &set{command: canonical(p.Command), err: p.Error})
}

// went notes what the record says of a goal.
func (a *Actuator) went(l trace.Line, goals map[string]*goal) {
	var p struct {
		ID       int64           `json:"id"`
		Goal     string          `json:"goal"`
		State    hw.State        `json:"state"`
		Args     json.RawMessage `json:"args"`
		Feedback any             `json:"feedback"`
		Result   any             `json:"result"`
		Reason   string          `json:"reason"`
	}
	if json.Unmarshal(l.Payload, &p) != nil {
		return
	}
	id := fmt.Sprintf("%s %s %d", l.Run, p.Goal, p.ID)
	if p.Args != nil {
		g := &goal{action: strings.TrimPrefix(p.Goal, a.name+"."), args: canonical(p.Args), at: l.Time}
		goals[id] = g
		a.goals = append(a.goals, g)
		return
	}
	g := goals[id]
	if g == nil || p.State == hw.Cancelled {
		return // it began before the record, or somebody will cancel it again
	}
	s := step{after: l.Time.Sub(g.at), state: p.State, value: numbers(p.Feedback), reason: p.Reason}
	if p.State == hw.Succeeded {
		s.value = numbers(p.Result)
	}
	g.steps = append(g.steps, s)
}

// canonical writes JSON in one form.
func canonical(b json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return string(b)
	}
	out, err := json.Marshal(plain(v))
	if err != nil {
		return string(b)
	}
	return string(out)
}

// plain makes all numbers floats: 1 and 1.0 are the same command.
func plain(v any) any {
	switch x := v.(type) {
	case json.Number:
		f, _ := x.Float64()
		return f
	case []any:
		for i := range x {
			x[i] = plain(x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = plain(x[k])
		}
	}
	return v
}

// Name is the actuator's name.
func (a *Actuator) Name() string { return a.name }

// Limits are those it was made with.
func (a *Actuator) Limits() hw.Limits { return a.limits }

// Rest does nothing.
func (a *Actuator) Rest(context.Context) error { return nil }

// Do fails if the next same command of the record did.
func (a *Actuator) Do(_ context.Context, cmd json.RawMessage) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	is := canonical(cmd)
	for _, s := range a.sets {
		if !s.given && s.command == is {
			s.given = true
			if s.err != "" {
				return errors.New(s.err)
			}
			return nil
		}
	}
	return nil
}

// Go does what the same action did in the record.
func (a *Actuator) Go(g *hw.Goal, action string, args json.RawMessage) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	past := a.find(action, canonical(args))
	if past == nil {
		return fmt.Errorf("the record has no %s of %s", action, a.name)
	}
	past.given = true
	play(g, past.steps, time.Now())
	return nil
}

// find looks for the next same action, else for the next with other arguments,
// else for the last one that was given already.
func (a *Actuator) find(action, args string) (best *goal) {
	rank := 0
	for _, g := range a.goals {
		n := 0
		switch {
		case g.action != action:
		case !g.given && g.args == args:
			n = 4
		case g.args == args:
			n = 3
		case !g.given:
			n = 2
		default:
			n = 1
		}
		if n > rank || n > 0 && n == rank && g.given {
			best, rank = g, n
		}
	}
	return best
}

// play tells what became known of a goal, each in its time.
func play(g *hw.Goal, steps []step, began time.Time) {
	if len(steps) == 0 {
		return // the record ends before it does
	}
	s := steps[0]
	time.AfterFunc(time.Until(began.Add(s.after)), func() {
		switch {
		case g.State().Over():
			return
		case s.state == hw.Succeeded:
			g.Succeed(s.value)
		case s.state == hw.Failed:
			g.Fail(s.reason)
		default:
			g.Feedback(s.value)
			play(g, steps[1:], began)
		}
	})
}
