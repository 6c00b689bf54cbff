package background

import (
	"context"
	"errors"
	"maps"
	"time"

	"edged/agent"
	"edged/bus"
	"edged/bus/origin"
	"edged/bus/timer"
)

// wake starts the worker if there is something to do. The caller holds mu.
func (a *Agent) wake() {
	if a.working || a.leaving || a.at == nil || a.ears == nil || a.queue.n == 0 {
		return
	}
	a.working = true
	go a.work()
}

// work runs tasks until there are none or the incarnation ends.
func (a *Agent) work() {
	var it item
	running := false
	defer func() {
		if running { // runtime.Goexit in the agent; leaving is set, so this only finishes
			a.after(it, agent.Result{Status: agent.Failed, Reason: ErrGoexit.Error()}, ErrGoexit)
			a.work()
		}
	}()
	for {
		a.mu.Lock()
		if a.leaving {
			r, err := a.at, a.exit
			a.at, a.leaving, a.exit, a.working = nil, false, nil, false
			a.mu.Unlock()
			r.finish(err)
			return
		}
		if a.queue.n == 0 {
			a.working = false
			a.mu.Unlock()
			return
		}
		it = a.queue.pop()
		ctx, cancel := context.WithCancel(a.ears.ctx)
		a.cancel = cancel
		a.mu.Unlock()
		running = true
		res, err := a.perform(ctx, it)
		running = false
		cancel()
		a.after(it, res, err)
	}
}

// perform is one run of the agent on one task. The error is nil, agent.ErrExit
// or a crash; an outcome that is not done is no crash.
func (a *Agent) perform(ctx context.Context, it item) (agent.Result, error) {
	t := agent.Task{Input: it.task, Origin: "timer"}
	if it.event.Seq != 0 {
		ctx = bus.WithCause(ctx, it.event)
		t.Origin = it.event.Origin()
	}
	if a.o.KeepSession {
		t.Conversation = runName(a.name)
	}
	return Perform(bus.WithRun(ctx, runName(a.name)), a.o.Bus, a.o.Agent, t)
}

// Perform runs an agent with the events edged/agent/<name>/start and end
// around it, and cancelled before the end of a run that was. The result is
// always complete. The error is nil for every orderly outcome, whatever its
// status; agent.ErrExit when the agent says that it is finished for good; else
// it is a crash: a panic (an [agent.Panic]) or an error that is none of package
// agent's outcomes.
func Perform(ctx context.Context, b *bus.Bus, ag agent.Agent, t agent.Task) (agent.Result, error) {
	name := ag.Name()
	source, topic := "agent:"+name, "edged/agent/"+name+"/"
	// A closed bus keeps no agent from running, nor does a task without a JSON form.
	if _, err := b.Publish(ctx, source, topic+"start", startOf(t)); err != nil {
		_, _ = b.Publish(ctx, source, topic+"start", map[string]any{"task": t.Text(), "origin": string(t.Origin)})
	}
	said := ErrGoexit
	goexit := true
	var res agent.Result
	defer func() {
		if goexit { // the goroutine is on its way out: the end is still said
			_, _ = b.Publish(ctx, source, topic+"end", map[string]any{"status": string(agent.Failed), "reason": said.Error()})
		}
	}()
	res, err := agent.Run(ctx, agent.Func(name, func(ctx context.Context, t agent.Task) (r agent.Result, err error) {
		r, said = ag.Run(ctx, t)
		if errors.Is(said, agent.ErrExit) {
			return r, nil
		}
		return r, said
	}), t)
	goexit = false
	if origin.From(ctx) != res.Origin && res.Origin != "" { // what is told of the end has its words
		ctx = origin.With(ctx, origin.Merge(origin.From(ctx), res.Origin))
	}
	if res.Status == agent.Cancelled { // for those who wait for that alone
		_, _ = b.Publish(ctx, source, topic+"cancelled", map[string]any{"reason": res.Reason})
	}
	_, _ = b.Publish(ctx, source, topic+"end", &ended{status: res.Status, elapsed: res.Elapsed, reason: res.Reason, reply: res.Reply})
	var p *agent.Panic
	switch {
	case errors.As(err, &p):
		return res, err
	case said == nil || errors.Is(said, agent.ErrExit):
		return res, said
	case said == ErrGoexit || orderly(said): // it did not run at all: ctx was over
		return res, nil
	}
	return res, said
}

// startOf is the payload of a start. Words are told as they are, and become one
// when somebody looks; anything else may change, and is copied by the bus.
func startOf(t agent.Task) any {
	if text, ok := t.Input.(string); ok {
		return &begun{task: text, origin: string(t.Origin)}
	}
	return map[string]any{"task": t.Input, "origin": string(t.Origin)}
}

type begun struct {
	bus.Cell
	task, origin string
}

// Tree implements bus.Lazy.
func (s *begun) Tree() any { return map[string]any{"task": s.task, "origin": s.origin} }

// ended is the payload of an end.
type ended struct {
	bus.Cell
	status        agent.Status
	elapsed       time.Duration
	reason, reply string
}

// Tree implements bus.Lazy.
func (s *ended) Tree() any {
	v := map[string]any{"status": string(s.status), "elapsed": s.elapsed.Seconds()}
	if s.reason != "" {
		v["reason"] = s.reason
	}
	if s.reply != "" {
		v["reply"] = s.reply
	}
	return v
}

// orderly reports whether an error is an outcome that package agent has a name
// for; an ended context is one.
func orderly(err error) bool {
	return agent.StatusOf(err) != agent.Failed || errors.Is(err, agent.ErrFailed)
}

// after settles what becomes of a task that has been run.
func (a *Agent) after(it item, res agent.Result, err error) {
	a.mu.Lock()
	a.cancel = nil
	a.log.ran(res)
	crashed := err != nil && !clean(err)
	cause := ""
	switch {
	case a.leaving && a.exit == nil: // stopped
	case a.leaving && clean(a.exit): // the trigger said exit; it is the last run
	case a.leaving: // the trigger crashed and took the run with it
		cause = a.again(it)
	case crashed:
		a.leaving, a.exit = true, err
		cause = a.again(it)
	case err != nil:
		a.leaving, a.exit = true, agent.ErrExit
		a.ears.deaf.Store(true)
		if n := a.queue.clear(); n > 0 {
			cause = "exit"
			a.count(cause, n)
		}
	}
	a.mu.Unlock()
	if cause != "" {
		a.sayDrops(cause)
	}
}

// again keeps a crashed task for another try, or drops it. The caller holds mu.
func (a *Agent) again(it item) (cause string) {
	if it.tries++; a.o.OnCrash == RetryTask && it.tries <= maxTries && a.ears != nil {
		a.queue.unpop(it)
		return ""
	}
	a.count("crash", 1)
	return "crash"
}

// runLog is what an agent remembers of its past; nothing in it grows.
type runLog struct {
	drops map[string]uint64
	said  map[string]uint64 // drops that have been published
	timer *timer.Timer
	quiet bool // drops are being collected
	runs  uint64
	last  *LastRun
}

func (l *runLog) ran(r agent.Result) {
	l.runs++
	l.last = &LastRun{Time: time.Now(), Status: string(r.Status), Reason: r.Reason, Elapsed: r.Elapsed.Seconds()}
}

func (a *Agent) count(cause string, n int) {
	if n == 0 {
		return
	}
	if a.log.drops == nil {
		a.log.drops, a.log.said = map[string]uint64{}, map[string]uint64{}
	}
	a.log.drops[cause] += uint64(n)
}

// sayDrops publishes losses: the first at once, then what came together in a
// second, so that a flood of losses is no flood of events.
func (a *Agent) sayDrops(cause string) {
	a.mu.Lock()
	if a.log.quiet {
		a.mu.Unlock()
		return
	}
	n, total := a.log.drops[cause]-a.log.said[cause], a.log.drops[cause]
	maps.Copy(a.log.said, a.log.drops)
	a.log.quiet = true
	if a.log.timer == nil {
		a.log.timer = a.o.Bus.Timers().After(time.Second, a.sayMore)
	} else {
		a.log.timer.Reset(time.Second)
	}
	a.mu.Unlock()
	a.sayDrop(cause, n, total)
}

func (a *Agent) sayMore() {
	a.mu.Lock()
	more := map[string][2]uint64{}
	for cause, total := range a.log.drops {
		if n := total - a.log.said[cause]; n > 0 {
			more[cause] = [2]uint64{n, total}
		}
	}
	maps.Copy(a.log.said, a.log.drops)
	if a.log.quiet = len(more) > 0; a.log.quiet {
		a.log.timer.Reset(time.Second)
	}
	a.mu.Unlock()
	for cause, n := range more {
		a.sayDrop(cause, n[0], n[1])
	}
}

func (a *Agent) sayDrop(cause string, n, total uint64) {
	ctx := bus.WithRun(context.Background(), runName(a.name))
	_, _ = a.o.Bus.Publish(ctx, runName(a.name), topicOf(a.name, "drop"), map[string]any{"cause": cause, "dropped": int64(n), "total": int64(total)})
}
