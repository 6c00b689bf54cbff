package hw

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"edged/bus"
)

// State is where a goal stands. Succeeded, Cancelled and Failed are terminal;
// a goal gets exactly one of them.
type State string

// The states of a goal.
const (
	Pending   State = "pending"
	Running   State = "running"
	Succeeded State = "succeeded"
	Cancelled State = "cancelled"
	Failed    State = "failed"
)

// Over reports whether the state is terminal.
func (s State) Over() bool { return s == Succeeded || s == Cancelled || s == Failed }

// Errors of a goal that did not succeed.
var (
	ErrGoalFailed    = errors.New("goal failed")
	ErrGoalCancelled = errors.New("goal cancelled")
)

// A Goal is the handle of a long action. All methods may be called
// concurrently. It is cancelled by its owner, by a newer command for the same
// actuator, and by every stop of the rig.
type Goal struct {
	id     uint64
	name   string
	source string
	r      *Rig
	a      *actuator // nil for a goal that moves nothing
	ctx    context.Context
	cancel context.CancelFunc
	cause  context.Context
	done   chan struct{}
	back   bool // it ends inside the fence

	mu       sync.Mutex // guards everything below
	state    State
	feedback any
	result   any
	reason   string
	told     bool // the end was published
}

// Start begins an action of an actuator, drive_to say, and returns its goal.
// It passes the stop latch; what the action does to the actuator passes the
// limits and needs refreshing as any command. A running goal of the actuator
// is cancelled first.
func (r *Rig) Start(ctx context.Context, source, name, action string, args any) (*Goal, error) {
	a, err := r.actuator(name)
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*Goal, error) { return nil, fmt.Errorf("hw: %s: %s: %w", name, action, err) }
	dev, ok := a.dev.(Goer)
	if !ok {
		return fail(errors.New("it takes commands, no long actions"))
	}
	tree, raw, err := arguments(args)
	if err != nil {
		return fail(err)
	}
	if old := bus.OldOf(ctx); old != nil {
		return nil, a.refuse(ctx, source, map[string]any{"goal": action, "args": tree}, old)
	}
	if err := a.ready(); err != nil {
		return nil, err
	}
	back, err := a.fence.Load().admits(tree)
	if err != nil {
		return fail(err)
	}
	g := r.goal(ctx, source, name+"."+action, a)
	g.back = back
	a.takeOver(source, g)
	g.begin(tree)
	if r.opt.Dry {
		r.opt.Log.Info("dry run: not moved", "actuator", name, "action", action, "args", string(raw))
		g.end(Succeeded, map[string]any{"dry": true}, "")
		return g, nil
	}
	if err := safely(func() error { return dev.Go(g, action, raw) }); err != nil {
		g.end(Failed, nil, err.Error())
		return fail(err)
	}
	return g, nil
}

func arguments(args any) (tree any, raw json.RawMessage, err error) {
	if tree, err = plain(args); err != nil {
		return nil, nil, err
	}
	if tree == nil {
		tree = map[string]any{}
	}
	raw, err = json.Marshal(tree)
	return tree, raw, err
}

// NewGoal makes the goal of a long action that is not an actuator's, a
// script's tool say. It is cancelled by a stop like any other. The caller ends
// it with Succeed or Fail. If the robot is stopped, or if it comes of old words,
// it is refused.
func (r *Rig) NewGoal(ctx context.Context, source, name string) (*Goal, error) {
	if old := bus.OldOf(ctx); old != nil {
		return nil, fmt.Errorf("hw: %s: %w: %v", name, ErrOld, old)
	}
	if s := r.latch.Load(); s != nil {
		return nil, fmt.Errorf("hw: %s: %w: %s", name, ErrStopped, s.Reason)
	}
	g := r.goal(ctx, source, name, nil)
	g.set(Running, nil)
	if r.latch.Load() != nil { // stopped meanwhile; the stop may have missed it
		g.Cancel("stopped")
	}
	return g, nil
}

func (r *Rig) goal(ctx context.Context, source, name string, a *actuator) *Goal {
	g := &Goal{name: name, source: source, r: r, a: a, cause: ctx, state: Pending, done: make(chan struct{})}
	// The action outlives the handler that asked for it; it ends by Cancel.
	g.ctx, g.cancel = context.WithCancel(context.WithoutCancel(ctx))
	r.goalMu.Lock()
	r.goalID++
	g.id = r.goalID
	r.goals[g] = struct{}{}
	r.goalMu.Unlock()
	return g
}

// takeOver makes g the goal of the actuator and cancels the one before.
func (a *actuator) takeOver(source string, g *Goal) {
	a.mu.Lock()
	old := a.goal
	a.goal, a.missed = g, 0
	a.mu.Unlock()
	if old != nil {
		old.end(Cancelled, nil, "taken over by "+strings.Replace(source, ":", " ", 1)) // agent:helper
	}
	if g != nil && a.ready() != nil { // stopped meanwhile
		g.end(Cancelled, nil, "stopped")
	}
}

// Context ends when the goal is over.
func (g *Goal) Context() context.Context { return g.ctx }

// Name is the actuator and the action: "base.drive_to".
func (g *Goal) Name() string { return g.name }

// Drive gives the goal's actuator a command through the gate. It does not wait
// for the device: an error says that the gate refused, or that the goal is over.
func (g *Goal) Drive(cmd any) error {
	if g.a == nil {
		return fmt.Errorf("hw: goal %s: it has no actuator", g.name)
	}
	o, err := g.a.order(g.ctx, g.source, cmd)
	if err != nil {
		return err
	}
	o.by = g
	return g.a.post(o)
}

// Feedback says how far the goal is: {"left": 1.2} say. It is published and
// does nothing once the goal is over.
func (g *Goal) Feedback(v any) { g.set(Running, v) }

// Succeed ends the goal. It reports whether this was its end.
func (g *Goal) Succeed(result any) bool { return g.end(Succeeded, result, "") }

// Fail ends the goal with what went wrong. It reports whether this was its end.
func (g *Goal) Fail(reason string) bool { return g.end(Failed, nil, reason) }

// Cancel ends the goal at once and brings its actuator to Rest. It reports
// whether this was its end.
func (g *Goal) Cancel(reason string) bool { return g.end(Cancelled, nil, reason) }

// State is where the goal stands.
func (g *Goal) State() State {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state
}

// Last is the newest feedback, or nil.
func (g *Goal) Last() any {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.feedback
}

// Reason says why the goal failed or was cancelled.
func (g *Goal) Reason() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reason
}

// Result waits for the end: the action's result, or an error that wraps
// ErrGoalFailed or ErrGoalCancelled. If ctx ends first, the goal goes on.
func (g *Goal) Result(ctx context.Context) (any, error) {
	select {
	case <-g.done:
	case <-ctx.Done():
		return nil, fmt.Errorf("hw: goal %s: %w", g.name, ctx.Err())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch g.state {
	case Failed:
		return nil, fmt.Errorf("hw: %w: %s: %s", ErrGoalFailed, g.name, g.reason)
	case Cancelled:
		return nil, fmt.Errorf("hw: %w: %s: %s", ErrGoalCancelled, g.name, g.reason)
	}
	return g.result, nil
}

// begin says that the action runs, and with what arguments.
func (g *Goal) begin(args any) {
	g.mu.Lock()
	over := g.state.Over()
	if !over {
		g.state = Running
	}
	g.mu.Unlock()
	if !over {
		g.publish(Running, "args", args)
		g.r.speak()
	}
}

func (g *Goal) set(s State, feedback any) {
	g.mu.Lock()
	if g.state.Over() {
		g.mu.Unlock()
		return
	}
	g.state, g.feedback = s, feedback
	g.mu.Unlock()
	g.publish(s, "feedback", feedback)
	g.r.speak()
}

// end gives the goal its terminal state, if it has none, and brings the
// actuator to its safe state, unless it has done its work on one that Stays. Whoever
// waits for the goal goes on when the end has its place in the order of events, so what
// they publish comes after it.
func (g *Goal) end(s State, result any, reason string) bool {
	if !g.settle(s, result, reason) {
		return false
	}
	defer close(g.done)
	if a := g.a; a != nil && !(s == Succeeded && a.limits.Stays) {
		a.rest(nil, cause{g.cause, g.source, "goal " + string(s)}, ErrReplaced)
	}
	g.tell()
	g.r.speak()
	return true
}

// close ends the goal at once, for a stop; tell is for later.
func (g *Goal) close(s State, result any, reason string) {
	if g.settle(s, result, reason) {
		close(g.done)
	}
}

// settle makes the goal's end without telling anybody.
func (g *Goal) settle(s State, result any, reason string) bool {
	g.mu.Lock()
	if g.state.Over() {
		g.mu.Unlock()
		return false
	}
	g.state, g.result, g.reason = s, result, reason
	g.mu.Unlock()
	g.cancel()
	if a := g.a; a != nil {
		a.mu.Lock()
		if a.goal == g {
			a.goal = nil
		}
		a.mu.Unlock()
	}
	g.r.goalMu.Lock()
	delete(g.r.goals, g)
	g.r.goalMu.Unlock()
	return true
}

// tell stages the event of the end, once.
func (g *Goal) tell() {
	g.mu.Lock()
	told, s := g.told || !g.state.Over(), g.state
	g.told = true
	key, v := "reason", any(g.reason)
	if s == Succeeded {
		key, v = "result", g.result
	}
	g.mu.Unlock()
	if !told {
		g.publish(s, key, v)
	}
}

// Goals lists the goals that are not over.
func (r *Rig) Goals() []*Goal {
	r.goalMu.Lock()
	defer r.goalMu.Unlock()
	var list []*Goal
	for g := range r.goals {
		list = append(list, g)
	}
	return list
}

// publish stages an event of the goal.
func (g *Goal) publish(s State, key string, v any) {
	topic := "hw/goal/" + g.name
	if g.a != nil {
		topic = "hw/" + g.a.name + "/goal"
	}
	m := map[string]any{"id": int64(g.id), "goal": g.name, "state": string(s)}
	if v != nil {
		m[key] = v
	}
	g.r.stage(g.cause, "hw:goal", topic, m)
}

// MarshalJSON gives the goal as the page and scripts see it.
func (g *Goal) MarshalJSON() ([]byte, error) {
	g.mu.Lock()
	v := struct {
		ID       uint64 `json:"id"`
		Name     string `json:"goal"`
		State    State  `json:"state"`
		Feedback any    `json:"feedback,omitempty"`
		Result   any    `json:"result,omitempty"`
		Reason   string `json:"reason,omitempty"`
	}{g.id, g.name, g.state, g.feedback, g.result, g.reason}
	g.mu.Unlock()
	return json.Marshal(v)
}
