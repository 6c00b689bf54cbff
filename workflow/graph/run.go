package graph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"edged/agent"
	"edged/bus/origin"
	"edged/workflow"
)

// The law of this file: one goroutine owns a run. Nodes run on others and hand
// back what came of them; a token is never in two places.

const (
	stopGrace = 40 * time.Millisecond // of the 50 ms that a stop may take
	maxLeft   = 8                     // nodes left behind that still run
)

// token is a branch of a run on its way: where it goes next and what it knows.
type token struct {
	at    int // index of a node
	edge  int // by which it came; -1: none
	rank  []int32
	depth int32
	state State
	past  *past
	input any
	from  string       // the node before
	whose origin.Label // of what the branch knows: the state
	words origin.Label // of the input: less than whose where a function has released something
	found string       // the capability that is to run
	other bool         // input is what a guardrail made of the node before
}

// key names a visit: the same whenever a run is resumed. Depth counts the steps
// of the branch, rank says where branches parted.
func (t *token) key() string {
	var buf [32]byte
	b := strconv.AppendInt(buf[:0], int64(t.depth), 10)
	for i, r := range t.rank {
		b = append(b, "@-"[min(i, 1)])
		b = strconv.AppendInt(b, int64(r), 10)
	}
	return string(b)
}

func byRank(a, b *token) int {
	return cmp.Or(slices.Compare(a.rank, b.rank), cmp.Compare(a.depth, b.depth))
}

// ended is a visit that is over.
type ended struct {
	t    *token
	v    *visit
	r    agent.Result
	err  error
	dead bool // and so is the goroutine that it ran on
}

// job is a visit to come.
type job struct {
	t    *token
	v    *visit
	task agent.Task
}

// run is one run of a graph.
type run struct {
	g    *Graph
	p    *workflow.Place
	ctx  context.Context
	work context.Context // of the nodes
	stop context.CancelFunc
	task agent.Task

	ready   []*token
	waiting []*token // at joins
	held    []*token // for a person
	busy    map[int]*token
	over    []*token // at the end
	done    chan ended
	gone    chan struct{} // closed when nobody takes from done any more
	jobs    chan job      // for goroutines that have nothing to do, of which there are idle
	idle    int
	bye     chan struct{} // they end
	steps   int
	results []ended
	fail    *ended // the first that is not done
	wait    *ended // the first that can't go on now
}

func newRun(ctx context.Context, g *Graph, p *workflow.Place, t agent.Task) *run {
	x := &run{g: g, p: p, ctx: ctx, task: t, busy: map[int]*token{}, done: make(chan ended), gone: make(chan struct{}),
		jobs: make(chan job), bye: make(chan struct{})}
	x.work, x.stop = context.WithCancel(agent.WithSay(ctx, nil))
	p.Lost = func() bool { return x.work.Err() != nil }
	s := State{}
	if m, ok := t.Input.(map[string]any); ok {
		maps.Copy(s, m)
	}
	s["input"] = t.Input
	x.ready = []*token{{edge: -1, state: s, past: &past{}, input: t.Input, whose: t.Origin, words: t.Origin}}
	return x
}

// all runs until no branch is left.
func (x *run) all() (agent.Result, error) {
	defer x.dismiss()
	defer x.stop()
	for {
		if x.fail == nil && x.ctx.Err() == nil {
			x.launch()
		}
		if len(x.busy) == 0 {
			break
		}
		var e ended
		if x.fail == nil {
			select {
			case e = <-x.done:
			case <-x.ctx.Done():
			}
		}
		if e.t == nil {
			x.stop()
			var ok bool
			if e, ok = x.await(); !ok {
				x.leave()
				break
			}
		}
		if !e.dead {
			x.idle++
		}
		x.finish(e)
	}
	return x.outcome()
}

// launch starts what can run. A node never runs beside itself.
func (x *run) launch() {
	for {
		if x.replay() {
			continue
		}
		var rest []*token
		list := x.ready
		x.ready = nil // what starts may add to it
		for _, t := range list {
			switch {
			case x.fail != nil:
			case x.g.nodes[t.at].opt.Join == All:
				x.waiting = append(x.waiting, t)
			case x.busy[t.at] != nil:
				rest = append(rest, t)
			default:
				x.start(t)
			}
		}
		more := len(x.ready) > 0
		x.ready = append(rest, x.ready...)
		if x.fail != nil || !more && !x.join() {
			return
		}
	}
}

// replay takes what a run that is resumed has behind it, before anything is
// run: what has failed fails again first. It reports whether there was any.
func (x *run) replay() (any bool) {
	if !x.p.Durable() {
		return false
	}
	list := x.ready
	x.ready = nil
	for _, t := range list {
		n := x.g.nodes[t.at]
		if x.fail == nil && n.opt.Join != All && x.busy[t.at] == nil && (n.at != 0 || n.asked()) {
			if _, _, ok := x.p.Outcome(t.at, t.key()); ok {
				x.start(t)
				any = true
				continue
			}
		}
		x.ready = append(x.ready, t)
	}
	return any
}

// start runs a node.
func (x *run) start(t *token) {
	n := x.g.nodes[t.at]
	v := &visit{g: x.g, n: n, state: t.state, durable: x.p.Durable(), sought: t.found}
	if n.at == 0 && !n.asked() { // nothing to run, nothing to record
		x.busy[t.at] = t
		s := &step{output: t.input}
		for _, e := range n.out {
			s.cross = append(s.cross, crossing{edge: e.index, to: e.to[0], payload: t.input})
		}
		v.step = s
		x.finish(ended{t: t, v: v, r: agent.Result{Status: agent.Done, Origin: t.words}})
		return
	}
	if n.at != 0 {
		if x.steps++; x.g.opt.MaxSteps > 0 && x.steps > x.g.opt.MaxSteps {
			err := fmt.Errorf("%w: max_steps: %s ran %d nodes%s", agent.ErrFailed, x.g.name, x.g.opt.MaxSteps, t.cycle(v.Name()))
			x.fail = &ended{t: t, v: v, err: err}
			x.stop()
			return
		}
	}
	x.busy[t.at] = t
	err := x.patch(t, v)
	var task agent.Task
	if err == nil {
		task, err = x.input(t, n)
	}
	if err != nil {
		x.finish(ended{t: t, v: v, r: agent.Result{Status: agent.Failed, Reason: err.Error()}, err: err})
		return
	}
	if r, err, ok := x.p.Outcome(t.at, t.key()); ok {
		e := ended{t: t, v: v}
		e.r, e.err = x.led(t, v, r, err)
		x.finish(e)
		return
	}
	if x.idle > 0 {
		x.idle--
		x.jobs <- job{t, v, task}
		return
	}
	go x.worker(job{t, v, task})
}

// worker runs one visit after the other: a goroutine's stack grows only once.
func (x *run) worker(j job) {
	for ok := true; ok; {
		if !x.visit(j) {
			return
		}
		j, ok = <-x.jobs
	}
	x.bye <- struct{}{}
}

// dismiss ends the goroutines that have nothing to do.
func (x *run) dismiss() {
	close(x.jobs)
	for ; x.idle > 0; x.idle-- {
		<-x.bye
	}
}

// patch changes the state as whoever forked the run said.
func (x *run) patch(t *token, v *visit) error {
	if !v.durable {
		return nil
	}
	p, ok, err := x.p.Recall(t.at, t.key(), workflow.PatchOf)
	if !ok || err != nil {
		return err
	}
	m, _ := p.(map[string]any)
	t.state = maps.Clone(t.state)
	maps.Copy(t.state, m)
	t.past = &past{prev: t.past, patch: m}
	v.state = t.state
	return nil
}

// visit runs a node, and reports whether there is still anybody to work for.
func (x *run) visit(j job) (more bool) {
	e := ended{t: j.t, v: j.v, err: errors.New("the goroutine was ended"), dead: true}
	defer func() { // also when runtime.Goexit ends it
		select {
		case x.done <- e:
			more = true
		case <-x.gone:
			x.g.left.Add(-1)
		}
	}()
	e.r, e.err = x.once(j)
	e.dead = false
	return false
}

func (x *run) once(j job) (agent.Result, error) {
	t, v := j.t, j.v
	ctx := withState(x.work, t.state)
	if t.found != "" {
		var err error
		if v.found, err = x.g.lookup(ctx, t.found, v.n.edge); err != nil {
			if ctx.Err() == nil {
				err = fmt.Errorf("%w: unresolved: %w", agent.ErrFailed, err)
			}
			return agent.Result{Status: agent.StatusOf(err), Reason: err.Error()}, err
		}
	}
	r, err := x.p.Step(ctx, t.at, t.key(), v, j.task)
	return x.led(t, v, r, err)
}

// led finds out where a visit leads that was recorded.
func (x *run) led(t *token, v *visit, r agent.Result, err error) (agent.Result, error) {
	if err != nil || v.step != nil {
		return r, err
	}
	if s, ok := stepOf(r.Output); ok {
		v.step = s
		return r, nil
	}
	v.step, err = x.decided(withState(x.work, t.state), t, v, r)
	return r, err
}

// decided is of a step that a person took as done: where it leads is chosen
// once, and written down.
func (x *run) decided(ctx context.Context, t *token, v *visit, r agent.Result) (*step, error) {
	var fresh *step
	tree, err := workflow.Remember(ctx, "step "+x.p.Path(t.at, t.key()), func() (workflow.Tree, error) {
		s, err := v.settle(ctx, r)
		if err != nil {
			return workflow.Tree{}, err
		}
		fresh = s
		return workflow.Tree{Of: s.tree()}, nil
	})
	if err != nil || fresh != nil {
		return fresh, err
	}
	s, ok := stepOf(tree.Of)
	if !ok {
		return nil, fmt.Errorf("%w: the record of %s can't be read", agent.ErrFailed, v.n.id)
	}
	return s, nil
}

// input makes the task of a node.
func (x *run) input(t *token, n *node) (agent.Task, error) {
	task := x.task
	task.Input, task.Origin = t.input, t.words
	if n.function {
		task.Origin = t.whose
	}
	if task.Conversation != "" && len(t.rank) > 0 {
		_, rank, _ := strings.Cut(t.key(), "@")
		task.Conversation += "/" + x.g.name + "/" + rank
	}
	if n.opt.Input == nil {
		return task, nil
	}
	ctx := origin.With(x.work, t.whose)
	err := safely(func() (err error) {
		task.Input, err = n.opt.Input(withState(ctx, t.state), t.state)
		return err
	})
	task.Origin = origin.From(ctx)
	if err != nil {
		err = fmt.Errorf("%w: input of %s: %w", agent.ErrFailed, n.id, err)
	}
	return task, err
}

// finish takes what came of a visit: the branch goes on, parts or ends.
func (x *run) finish(e ended) {
	delete(x.busy, e.t.at)
	if e.v.n.at != 0 || e.err != nil {
		if e.v.step != nil {
			e.r.Output = e.v.step.output
		}
		x.results = append(x.results, e)
	}
	switch {
	case e.err == nil:
	case waits(e.err):
		if x.wait == nil || byRank(e.t, x.wait.t) < 0 {
			x.wait = &e
		}
		x.held = append(x.held, e.t)
		return
	default:
		x.lost(e)
		return
	}
	if e.v.durable && e.v.n.at != 0 && workflow.Telling(x.ctx) {
		x.g.tell(x.ctx, "checkpoint", map[string]any{"node": e.v.Name(), "step": x.p.Path(e.t.at, e.t.key())})
	}
	next, err := x.next(e)
	if err != nil {
		e.err, e.r.Status = err, agent.StatusOf(err)
		x.lost(e)
		return
	}
	for _, t := range next {
		if t.at < 0 {
			x.over = append(x.over, t)
		} else {
			x.ready = append(x.ready, t)
		}
	}
}

// waits reports whether a branch waits for a person: the others go on.
func waits(err error) bool {
	var d *workflow.InDoubtError
	var w *workflow.WaitError
	return errors.As(err, &d) || errors.As(err, &w)
}

// lost ends the run. What was cancelled because of another one is no reason.
func (x *run) lost(e ended) {
	if x.fail == nil || agent.StatusOf(x.fail.err) == agent.Cancelled && agent.StatusOf(e.err) != agent.Cancelled {
		x.fail = &e
	}
	x.stop()
}

// next gives the tokens that leave a node.
func (x *run) next(e ended) ([]*token, error) {
	t, s := e.t, e.v.step
	sets := writes(s.sets)
	state, err := x.g.apply(t.state, sets)
	if err != nil {
		return nil, err
	}
	then := &past{prev: t.past, node: e.v.Name(), sets: sets}
	var out []*token
	for i, c := range s.cross {
		n := &token{edge: c.edge, rank: t.rank, depth: t.depth + 1, state: state, past: then, input: c.payload, from: e.v.Name(),
			whose: origin.Merge(t.whose, e.r.Origin), words: cmp.Or(e.r.Origin, t.words), other: s.other || c.replaced}
		if len(s.cross) > 1 {
			n.rank = append(slices.Clip(t.rank), int32(i))
		}
		if c.payload == nil && !c.replaced {
			n.input, n.words = t.input, origin.Merge(t.words, n.words)
		}
		if c.replaced {
			if n.state, n.past, err = x.replace(e, c, then); err != nil {
				return nil, err
			}
		}
		if found, ok := strings.CutPrefix(c.to, foundPrefix); ok && c.edge >= 0 && x.g.edges[c.edge].kind == TypeDiscovery {
			n.at, n.found = x.g.edges[c.edge].slot, found
		} else if c.to == End {
			n.at = -1
		} else if at, ok := x.g.index[c.to]; ok {
			n.at = at
		} else {
			return nil, fmt.Errorf("%w: %s leads to %q, which is no node", agent.ErrFailed, e.v.Name(), c.to)
		}
		if e.v.n.at == 0 && !e.v.n.asked() && !x.passed(n) {
			e.v.crossed(x.ctx, x.g.edges[c.edge], c)
		}
		out = append(out, n)
	}
	return out, nil
}

// passed reports whether a run that is resumed has this visit behind it.
func (x *run) passed(t *token) bool {
	if t.at < 0 {
		return false
	}
	_, _, ok := x.p.Outcome(t.at, t.key())
	return ok
}

// replace is the state of a branch where a guardrail put something in place of
// what the node had put out.
func (x *run) replace(e ended, c crossing, of *past) (State, *past, error) {
	_, updates := c.payload.(map[string]any)
	sets, err := e.v.lands(c.payload, updates && e.v.n.function)
	if e.v.n.at == 0 {
		sets = map[string]any{"input": c.payload}
	}
	if err != nil {
		return nil, nil, err
	}
	list := writes(sets)
	s, err := x.g.apply(e.t.state, list)
	return s, &past{prev: e.t.past, instead: of, node: e.v.Name(), sets: list}, err
}

// await waits for one of the nodes that were cancelled.
func (x *run) await() (ended, bool) {
	grace := x.g.opt.Grace
	if x.ctx.Err() != nil {
		grace = min(grace, stopGrace)
	}
	t := time.NewTimer(grace)
	defer t.Stop()
	over := x.ctx.Done()
	for {
		select {
		case e := <-x.done:
			return e, true
		case <-t.C:
			return ended{}, false
		case <-over:
			over = nil
			t.Reset(min(grace, stopGrace))
		}
	}
}

// leave gives up on the nodes that still run.
func (x *run) leave() {
	for _, t := range x.busy {
		x.g.left.Add(1)
		x.g.ever.Add(1)
		v := &visit{g: x.g, n: x.g.nodes[t.at], sought: t.found}
		x.results = append(x.results, ended{t: t, v: v, r: agent.Result{By: v.Name(), Status: agent.StatusOf(x.work.Err()), Reason: "left behind"}, err: x.work.Err()})
	}
	close(x.gone)
}

// outcome makes the result of a run.
func (x *run) outcome() (agent.Result, error) {
	r := agent.Result{Origin: x.task.Origin}
	var degraded []string // nodes that came with less than they were to have
	sort.SliceStable(x.results, func(i, j int) bool {
		a, b := x.results[i].t, x.results[j].t
		return cmp.Or(cmp.Compare(a.depth, b.depth), slices.Compare(a.rank, b.rank)) < 0
	})
	for _, e := range x.results {
		r.Usage.Calls += e.r.Usage.Calls
		r.Usage.PromptTokens += e.r.Usage.PromptTokens
		r.Usage.OutputTokens += e.r.Usage.OutputTokens
		r.Origin = origin.Merge(r.Origin, e.r.Origin)
		r.Receipts = append(r.Receipts, e.r.Receipts...)
		if e.v.n.at == 0 {
			continue // no node has run
		}
		c := e.r
		c.By = e.v.Name()
		if c.Proceedings != nil && c.Proceedings.Degraded {
			degraded = append(degraded, strings.TrimSuffix(c.By+": "+c.Reason, ": "))
		}
		r.Children = append(r.Children, c)
	}
	switch err := x.ctx.Err(); {
	case err != nil:
		return r, err
	case x.fail != nil:
		r.By = x.fail.v.by()
		r.Output = map[string]any(x.fail.t.state)
		x.g.tell(x.ctx, "error", map[string]any{"node": x.fail.v.Name(), "status": string(agent.StatusOf(x.fail.err)), "reason": x.fail.err.Error()})
		return r, x.fail.err
	case x.wait != nil:
		r.By = x.wait.v.by()
		return r, x.wait.err
	case len(x.over) == 0:
		return r, fmt.Errorf("%w: no branch of %s has reached the end", agent.ErrFailed, x.g.name)
	}
	slices.SortFunc(x.over, byRank)
	s, _, err := x.g.fold(x.over)
	if err != nil {
		return r, err
	}
	var said []string
	for _, t := range x.over {
		i := x.result(t.from, t)
		if i < 0 { // START leads to END
			r.By = x.g.name
			continue
		}
		r.By = x.results[i].v.by()
		if text := x.results[i].r.Reply; text != "" {
			if t.other {
				text = agent.Task{Input: t.input}.Text()
			}
			said = append(said, text)
		}
	}
	r.Reply, r.Output = strings.Join(said, "\n"), map[string]any(s)
	if len(degraded) > 0 {
		r.Reason, r.Proceedings = strings.Join(degraded, "; "), &agent.Proceedings{Degraded: true}
	}
	agent.Say(x.ctx, r.Reply)
	return r, nil
}

// result finds the visit that a token comes from.
func (x *run) result(node string, t *token) int {
	return slices.IndexFunc(x.results, func(e ended) bool {
		return e.v.Name() == node && e.t.depth == t.depth-1 && slices.Equal(e.t.rank, t.rank[:min(len(e.t.rank), len(t.rank))])
	})
}
