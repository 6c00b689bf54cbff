package society

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"edged/agent"
	"edged/bus/origin"
	"edged/workflow"
	"edged/workflow/society/protocol"
)

// An Interaction is an edge between agents, and itself an agent: its task is
// what they are to do, its result what came of it.
type Interaction struct {
	s       *Society
	r       Relation
	e       inner
	name    string
	members []string

	directed bool // from the first member to the second
}

var _ agent.Agent = (*Interaction)(nil)

// Name is the interaction's name.
func (i *Interaction) Name() string { return i.name }

// Kind is the type of its edge: "delegation", "oversight", …
func (i *Interaction) Kind() string { return i.r.kind() }

// Members names them in order: of a binary edge source, then target.
func (i *Interaction) Members() []string { return slices.Clone(i.members) }

// run is one run of an interaction. Its fields are used by the goroutine that
// runs the interaction, but for those that mu guards.
type run struct {
	i       *Interaction
	s       *Society
	rel     Relation
	edge    inner // whose rounds are under way
	task    agent.Task
	digest  string // of the task
	foreign bool   // the task is in words of others
	durable bool   // its turns are on disk before anything follows from them
	id      string
	path    string
	key     string
	start   time.Time
	cause   uint64
	scope   *origin.Scope // whose words the interaction is made of; nil in a rehearsal
	shelf   map[string]shelved
	state   map[string]any

	floor     *protocol.Floor
	round     int
	extra     int // rounds on top of the limit
	work      []Work
	fresh     []Turn   // of the batch under way
	pending   []string // who has not had a turn yet
	last      map[string]Work
	items     []item
	memo      map[string]decided
	latest    any                 // draft
	version   int                 // of what is made together
	agreed    map[string]int      // with which version
	clash     map[string][]string // who filled in which keys differently from others
	reasons   string              // a judge's, why nobody was picked
	judged    []Submission        // of what it said so
	claimed   map[string]bool     // fields that somebody filled in
	retried   bool                // submissions
	escalated bool
	watch     watching
	coop      Verdict // of the first half of a coopetition
	rounds    int     // of all its edges
	offered   any     // the last draft that was sent back
	carry     []Work  // of the round before, that counts in this one
	degraded  bool    // it came with less than it was to have

	mu     sync.Mutex // guards the rest
	gone   bool       // somebody who was left behind is still at it
	n      int
	turns  []Turn
	usage  agent.Usage
	passed map[string]bool // drafts that guardrails let pass
}

// item is something that was said and may be shown.
type item struct {
	author, topic, text string
	turn                int
	value               any
	only                string // who alone may see it; "": whoever the edge lets
}

var (
	errRoundOver = errors.New("society: time of the round is over")
	errDeadline  = fmt.Errorf("%w: deadline", agent.ErrTimeout)
	errMissing   = errors.New("society: somebody did not answer in time")
)

type runKey struct{}

func runOf(ctx context.Context) *run {
	r, _ := ctx.Value(runKey{}).(*run)
	return r
}

// Run runs the interaction. The result's status is done, rejected, deadlock,
// timeout, failed, blocked or escalated; output is the last draft there was,
// also when it is not done.
func (i *Interaction) Run(ctx context.Context, t agent.Task) (agent.Result, error) {
	if err := i.s.ready(i); err != nil {
		return agent.Result{}, fmt.Errorf("%w: %w", agent.ErrFailed, err)
	}
	r := &run{i: i, s: i.s, rel: i.r, edge: i.e, task: t, start: time.Now(), shelf: i.s.shelved(),
		last: map[string]Work{}, agreed: map[string]int{}, passed: map[string]bool{}, claimed: map[string]bool{}, cause: causeOf(ctx)}
	ctx = origin.With(ctx, origin.Merge(t.Origin, origin.From(ctx)))
	r.scope = origin.ScopeOf(ctx)
	r.foreign, r.durable = !t.Origin.Trusted(i.s.trusted()), workflow.Durable(ctx)
	if i.s.o.State != nil {
		r.state = i.s.o.State(ctx)
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(t.Text()))
	r.digest = strconv.FormatUint(h.Sum64(), 16)
	release := r.open(ctx)
	waits := false
	defer func() { release(waits || ctx.Err() != nil) }()
	if e, ok := i.e.(*competition); ok && e.market != nil {
		defer e.market.Release(r.key) // what it bid before it was stopped, or waits
	}
	base := agent.WithSay(context.WithValue(ctx, runKey{}, r), nil) // what is said in turns is for those who take them
	if d := i.r.shared().Deadline; d > 0 {
		var cancel context.CancelFunc
		base, cancel = context.WithTimeoutCause(base, d, errDeadline)
		defer cancel()
	}
	v, err := r.settle(base)
	if waits = workflow.Unsettled(err); err != nil && !waits {
		if ctx.Err() != nil {
			err = ctx.Err()
		} else if base.Err() != nil {
			err = errDeadline
		}
	}
	res, err := r.result(base, v, err)
	if res.Output == nil && r.coop.Output != nil { // what was agreed stays
		res.Output = map[string]any{"shared": r.coop.Output, "won": nil}
	}
	if !waits {
		if bad := r.clear(ctx, res, err); err == nil {
			err = bad
		}
		r.award(context.WithoutCancel(ctx), res, err)
	}
	if err == nil && (res.Status == "" || res.Status == agent.Done) && res.Reply != "" {
		agent.Say(ctx, res.Reply)
	}
	return res, err
}

// open gives the run its name: that of the durable run around it, if there is
// one, so that turns which were recorded before are found.
func (r *run) open(ctx context.Context) (release func(cut bool)) {
	r.id, r.path = workflow.RunOf(ctx)
	if r.id == "" {
		var b [4]byte
		_, _ = rand.Read(b[:])
		r.id = time.Now().UTC().Format("20060102T150405.000-") + hex.EncodeToString(b[:])
		r.key = Turn{Run: r.id, Path: r.path, Edge: r.i.name}.key()
		return func(bool) {}
	}
	var again func(bool)
	r.path, again = r.s.o.Log.take(r.id, r.path, r.i.name)
	r.key = Turn{Run: r.id, Path: r.path, Edge: r.i.name}.key()
	return again
}

// settle runs the edge to its end, and up the escalation chain where that is due.
func (r *run) settle(ctx context.Context) (Verdict, error) {
	var v Verdict
	var err error
	if c, ok := r.i.e.(*coopetition); ok {
		v, err = c.both(ctx, r)
	} else {
		v, err = r.loop(ctx, r.i.e)
	}
	if err != nil || v.Cause == "" {
		return v, err
	}
	return r.escalate(ctx, v)
}

// loop runs rounds of an edge until it is settled.
func (r *run) loop(ctx context.Context, e inner) (Verdict, error) {
	r.edge, r.round, r.extra = e, 0, 0
	var stops []protocol.StopCondition
	if !r.competes(e) { // of a coopetition they end what is agreed on
		stops = r.stops(ctx)
	}
	floor, err := protocol.Open(r.spec(ctx, e), e.Members(), stops...)
	if err != nil {
		return Verdict{}, err
	}
	r.floor = floor
	most := e.rounds()
	for {
		if floor.Over() {
			return r.stopped(ctx, floor)
		}
		if r.round >= most+r.extra {
			return Verdict{Cause: CauseDeadlock, Reason: r.unusable()}, nil
		}
		floor.Begin()
		r.round++
		r.rounds++
		r.work, r.pending, r.memo = slices.Clone(r.carry), nil, map[string]decided{}
		v, err := r.inRound(ctx, e)
		if err != nil || v.Settled || v.Cause != "" {
			return v, err
		}
		if v.again {
			r.extra++
			continue
		}
		if v, err := r.watchers(ctx); err != nil || v.Settled || v.Cause != "" {
			return v, err
		}
	}
}

// unusable says whose work of the last round did not count, and why: a deadlock
// of those who could not be understood is none of those who don't agree.
func (r *run) unusable() string {
	var list []string
	for _, w := range r.work {
		if w.State != OK {
			list = append(list, fmt.Sprintf("%s: %s: %s", w.Author, w.State, w.Why))
		}
	}
	return strings.Join(list, "; ")
}

// spec gives the edge's protocol; one whose functions are scripts' runs in ctx.
func (r *run) spec(ctx context.Context, e inner) protocol.Spec {
	if l, ok := e.order().(protocol.Local); ok {
		return l.In(ctx)
	}
	return e.order()
}

func (r *run) stops(ctx context.Context) (list []protocol.StopCondition) {
	sh := r.rel.shared()
	for _, s := range sh.Stops {
		list = append(list, func(f *protocol.Floor) string { return s(ctx, f) })
	}
	if sh.MaxMessages > 0 {
		list = append(list, protocol.MaxMessages(sh.MaxMessages))
	}
	return list
}

// stopped is what comes of a run that its protocol or a condition ended: a
// limit is a deadlock, anything else is done with what there is.
func (r *run) stopped(ctx context.Context, f *protocol.Floor) (Verdict, error) {
	if err := f.Err(); err != nil {
		return Verdict{}, fmt.Errorf("protocol: %w", err)
	}
	why := f.Stopped()
	if why == "max_messages" || why == "max_rounds" || r.newest() == nil {
		return Verdict{Cause: CauseDeadlock, Reason: why}, nil
	}
	if e, ok := r.edge.(*cooperation); ok && e.mode == "" { // what there is has to be put together
		v, err := e.Settle(ctx, r.work)
		v.Reason = cmp.Or(v.Reason, why)
		return v, err
	}
	return Verdict{Settled: true, Output: r.newest(), Reason: why}, nil
}

// inRound runs one round under its limit of time; what is in stays in when the
// rest is tried again.
func (r *run) inRound(ctx context.Context, e inner) (Verdict, error) {
	sh := r.rel.shared()
	for try := 0; ; try++ {
		v, err := r.attempt(ctx, e)
		switch {
		case !errors.Is(err, errMissing):
			return v, err
		case ctx.Err() != nil:
			return v, context.Cause(ctx)
		case sh.policy() == RetryOnce && try == 0 && !r.gone:
			r.degraded = true
			continue
		case sh.policy() == EscalateTimeout:
			return Verdict{Cause: CauseTimeout, Reason: err.Error()}, nil
		}
		return Verdict{Settled: true, Status: agent.Timeout, Reason: reasonOf(err), Output: r.newest()}, nil
	}
}

func reasonOf(err error) string { return strings.TrimPrefix(err.Error(), "society: ") }

// limited gives a context that ends with the round.
func (r *run) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if d := r.rel.shared().Timeout; d > 0 {
		return context.WithTimeoutCause(ctx, d, errRoundOver)
	}
	return context.WithCancel(ctx)
}

func (r *run) attempt(ctx context.Context, e inner) (Verdict, error) {
	rc, cancel := r.limited(ctx)
	defer func() { cancel() }()
	for {
		if len(r.pending) == 0 {
			if e.enough(r) {
				break
			}
			r.pending = r.floor.Next()
			if err := r.floor.Err(); err != nil {
				return Verdict{}, fmt.Errorf("protocol: %w", err)
			}
			if len(r.pending) == 0 {
				break
			}
			if r.floor.Stopped() != "" {
				return r.stopped(rc, r.floor)
			}
		}
		late, err := r.batch(rc, e)
		if err != nil {
			return Verdict{}, err
		}
		if len(late) == 0 {
			continue
		}
		if c, ok := e.(*competition); ok && c.quorum > 0 && r.submitted() >= c.quorum {
			r.settleBatch()
			r.degraded = true
			cancel()
			rc, cancel = r.limited(ctx) // the decision has a time of its own
			continue
		}
		return Verdict{}, fmt.Errorf("%w: %s", errMissing, strings.Join(late, ", "))
	}
	if r.another(e) {
		return Verdict{again: true}, nil
	}
	r.carry = nil
	return e.Settle(rc, r.work)
}

func (r *run) submitted() (n int) {
	for _, w := range r.work {
		if w.State == OK {
			n++
		}
	}
	return n
}

// batch gives those who are pending their turn, at once, and takes what they
// did; late are those whose time was over.
func (r *run) batch(ctx context.Context, e inner) (late []string, err error) {
	type job struct {
		who  string
		p    Prompt
		turn Turn
		w    Work
	}
	var jobs []*job
	for _, who := range r.pending {
		if q, ok := e.ask(r, who); ok && !r.carried(who) {
			jobs = append(jobs, &job{who: who, turn: Turn{N: r.number()}, p: r.compile(who, q)})
		}
	}
	one := func(j *job) {
		j.turn, _, j.w = r.speak(ctx, j.who, j.turn.N, j.p, func(v map[string]any) (Work, error) {
			w, err := e.read(r, j.who, v)
			if err == nil {
				w = r.guarded(ctx, e, j.who, v, w)
			}
			c, bids := e.(*competition)
			if !bids || err != nil || w.sent != "" || w.blocked != "" {
				return w, err
			}
			return w, c.afford(r, j.who, w.Draft) // as the guardrails left it
		})
	}
	if len(jobs) == 1 {
		one(jobs[0])
	} else {
		var wg sync.WaitGroup
		for _, j := range jobs {
			wg.Go(func() { one(j) })
		}
		wg.Wait()
	}
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errRoundOver) {
		return nil, context.Cause(ctx)
	}
	var again []string
	for _, j := range jobs {
		if err := r.mishap(j.turn); err != nil {
			return nil, err
		}
		w := j.w
		w.Author, w.Kind, w.State, w.Why, w.Turn = j.who, j.turn.Kind, j.turn.State, j.turn.Why, j.turn.N
		if w.State == TimedOut || w.State == Late {
			late, again = append(late, j.who), append(again, j.who)
			w.Draft = r.last[j.who].Draft
			r.last[j.who] = w
			continue
		}
		switch {
		case w.blocked != "" && r.competes(e): // it counts against this one alone
			w.State, w.Why, w.Draft = Broken, w.blocked, nil
			r.keep(w)
		case w.blocked != "":
			r.latest, err = w.Draft, blockedError(w.blocked)
		case w.sent != "":
			w.State, w.Why = Returned, w.sent
			r.sendBack(w)
		default:
			r.keep(w)
		}
		r.work = append(r.work, w)
		r.fresh = append(r.fresh, j.turn)
	}
	if err != nil {
		return nil, err
	}
	if r.pending = again; len(again) == 0 {
		r.settleBatch()
	}
	return late, nil
}

// settleBatch lets what a batch said be heard.
func (r *run) settleBatch() {
	r.pending = nil
	sort.Slice(r.fresh, func(i, j int) bool { return r.fresh[i].N < r.fresh[j].N })
	for _, t := range r.fresh {
		_ = r.floor.Say(protocol.Message{From: t.Speaker, Turn: t.N, Content: r.drafted(t)}) // members only: it can't fail
	}
	r.fresh = nil
}

// drafted is what a turn put forward, for protocols and conditions.
func (r *run) drafted(t Turn) any {
	for _, w := range r.work {
		if w.Turn == t.N {
			return w.Draft
		}
	}
	return nil
}

// keep makes what may be shown of a piece of work.
func (r *run) keep(w Work) {
	made := w.Draft != nil && !w.Agrees
	if e, ok := r.edge.(*cooperation); ok && made {
		w.Draft = e.part(r, w)
	}
	if !made {
		w.Draft = r.last[w.Author].Draft
	}
	r.last[w.Author] = w
	if w.State != OK {
		return
	}
	if made {
		r.latest = w.Draft
		r.items = append(r.items, item{author: w.Author, topic: r.edge.draftTopic(), text: render(w.Draft), turn: w.Turn, value: w.Draft})
	}
	if w.Comments != "" {
		r.items = append(r.items, item{author: w.Author, topic: TopicComments, text: w.Comments, turn: w.Turn})
	}
}

// newest is the last draft that anybody made on this edge; of those that
// compete there is none.
func (r *run) newest() any {
	if r.edge.draftTopic() == TopicSealed {
		return nil
	}
	if e, ok := r.edge.(*cooperation); ok {
		return e.together(r)
	}
	return r.latest
}

// result makes the run's result.
func (r *run) result(ctx context.Context, v Verdict, err error) (agent.Result, error) {
	if err == nil && v.done() {
		r.final(ctx, &v)
	}
	if v.Output == nil && (err != nil || v.Status != "") {
		if v.Output = r.newest(); v.Output == nil && !r.competes(r.edge) {
			v.Output = r.offered
		}
	}
	res := agent.Result{Status: v.Status, Output: v.Output, Reason: v.Reason, Winner: v.Winner, By: v.By, RunID: r.id}
	if res.By == "" {
		res.By = r.i.name
	}
	res.Proceedings = r.proceedings(v, err == nil && v.done())
	if v.Output != nil {
		res.Reply = agent.Task{Input: v.Output}.Text()
	}
	r.mu.Lock()
	res.Usage, res.Origin = r.usage, r.whose()
	for _, t := range r.turns {
		res.Receipts = append(res.Receipts, t.Tools...)
	}
	r.mu.Unlock()
	order := append(slices.Clone(v.Ranking), r.i.members...)
	for k, name := range order {
		w, ok := r.last[name]
		if !ok || slices.Contains(order[:k], name) {
			continue
		}
		res.Children = append(res.Children, child(w))
	}
	if err != nil {
		res.Status, res.Reason = "", ""
		return res, err
	}
	if res.Status == "" || res.Status == agent.Done {
		r.shelve(ctx, v.Output)
	}
	return res, nil
}

// child is a member's part in the result.
func child(w Work) agent.Result {
	c := agent.Result{By: w.Author, Status: agent.Done, Output: w.Draft, Reason: w.Why}
	switch w.State {
	case OK:
	case TimedOut, Late:
		c.Status = agent.Timeout
	default:
		c.Status = agent.Failed
		if c.Reason == "" {
			c.Reason = string(w.State)
		}
	}
	if w.Draft != nil {
		c.Reply = agent.Task{Input: w.Draft}.Text()
	}
	return c
}

// shelve lays the outcome where the next edges find it.
func (r *run) shelve(ctx context.Context, output any) {
	if c, ok := r.rel.(*Coopetition); ok {
		if m, ok := r.coop.Output.(map[string]any); ok {
			for _, topic := range c.CooperateOn {
				r.s.Put(ctx, topic, m[topic])
			}
		}
		return
	}
	if list := r.rel.shared().Artifacts; len(list) > 0 && output != nil {
		r.s.Put(ctx, list[0].Name, output)
	}
}
