package society

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"edged/agent"
	"edged/agent/llm"
	"edged/agent/llm/schema"
	"edged/bus"
	"edged/bus/origin"
	"edged/workflow"
)

// How long a speaker may take to end when its time is over; one that takes
// longer is left behind.
const (
	graceRound = 200 * time.Millisecond
	graceStop  = 40 * time.Millisecond
)

// InDoubtError ends an interaction whose turn was interrupted while its speaker
// could act: whether the world saw all of it, a part or nothing is not known.
type InDoubtError struct{ Turn Turn }

func (e *InDoubtError) Error() string {
	return fmt.Sprintf("escalated: in_doubt: turn %d of %s was interrupted at %s", e.Turn.N, e.Turn.Speaker, e.Turn.Started.Format(time.RFC3339))
}

// Unwrap makes it the outcome escalated: a person is needed.
func (e *InDoubtError) Unwrap() error { return agent.ErrEscalated }

func causeOf(ctx context.Context) uint64 { seq, _ := bus.CauseOf(ctx); return seq }

// speak runs one turn and writes it down. read turns an answer that fits its
// form into work, and says if it can't be used after all. speak may run for
// several agents at once.
func (r *run) speak(ctx context.Context, who string, n int, p Prompt, read func(map[string]any) (Work, error)) (Turn, map[string]any, Work) {
	t := Turn{Run: r.id, Path: r.path, Society: r.s.name, Edge: r.i.name, Task: r.digest, N: n, Round: r.round, Speaker: who, Kind: p.Kind,
		System: p.System(), Prompt: p.Text(), Schema: p.Form.text, Writes: p.Tools == AllTools, Started: time.Now().UTC(), Cause: r.cause,
		Sealed: p.Kind == ToSubmit || p.Kind == ToBid}
	if old, ok := r.s.o.Log.get(r.key, n); ok && old.Task == r.digest && old.Speaker == who && old.Kind == p.Kind && old.State != Halted {
		if old.State != asked || !r.durable {
			return r.recall(old, p, read)
		}
		if over, v, w := r.doubt(ctx, old, p, read); over.State != "" {
			return over, v, w
		}
	}
	a := r.s.agent(who)
	if t.Writes {
		intent := t
		intent.State = asked
		if err := r.s.o.Log.put(ctx, intent, r.durable); err != nil {
			t.State, t.Why = Broken, err.Error()
			return t, nil, Work{}
		}
	}
	recorded := make(chan struct{})
	defer close(recorded)
	v, w := r.answer(ctx, a, p, &t, seat{who: a.Name, round: t.Round, n: t.N, sealed: t.Sealed, id: r.wireID(t.N), late: r.tardy(t.N, recorded)}, read)
	t.Elapsed = time.Since(t.Started)
	t.settled(w)
	r.note(t)
	if r.durable && t.State == Halted && doubtful(a.Speaker, p, t) {
		return t, v, w // its intent stands
	}
	if err := r.s.o.Log.put(ctx, t, r.durable); err != nil && t.State == OK {
		t.State, t.Why = Broken, err.Error()
		v, w = nil, Work{}
	}
	if r.s.o.Trace != nil {
		r.s.o.Trace(ctx, t)
	}
	return t, v, w
}

// doubt settles a turn that was interrupted while its speaker could act. One
// without a state is to be taken again.
func (r *run) doubt(ctx context.Context, t Turn, p Prompt, read func(map[string]any) (Work, error)) (Turn, map[string]any, Work) {
	name := fmt.Sprintf("%s, turn %d of %s", t.Speaker, t.N, r.i.name)
	d := workflow.Doubt{Run: r.id, Path: r.path, Name: name, Task: agent.Task{Input: p.Text()}, Since: t.Started}
	what, res, err := workflow.Doubtful(ctx, fmt.Sprintf("turn%d", t.N), d)
	switch {
	case err != nil:
		t.open = err
		return t, nil, Work{}
	case what == workflow.RunAgain:
		return Turn{}, nil, Work{}
	case what == workflow.TakeAsDone: // what the person says it gave
		t.State, t.Why = OK, "taken as done after an interruption"
		t.Answer, err = schema.Encode(map[string]any{"draft": res.Reply, "progress": ""})
	default:
		t.State, t.Why = Broken, res.Reason
	}
	if err == nil {
		err = r.s.o.Log.put(ctx, t, true)
	}
	if err != nil {
		t.State, t.Why = Broken, err.Error()
	}
	return r.recall(t, p, read)
}

// doubtful reports whether a turn that was cut off may have acted. Of a model
// it is known which of its tools have run.
func doubtful(s Speaker, p Prompt, t Turn) bool {
	if !t.Writes || t.open != nil {
		return false
	}
	box, ok := toolbox(s, p.Kind)
	if !ok || t.Left {
		return true
	}
	reads := func(c agent.Receipt) bool {
		return slices.ContainsFunc(box.Tools(p), func(tool llm.Tool) bool { return tool.Name == c.Tool && tool.Effect != llm.Write })
	}
	return slices.ContainsFunc(t.Tools, func(c agent.Receipt) bool { return !reads(c) })
}

// blockedVerdict is that of a turn whose draft a guardrail has blocked.
const blockedVerdict = "blocked"

// clean leaves in a turn what guardrails made of its answer, which is what
// anybody reads from then on; what it was is kept beside it.
func (t *Turn) clean(v map[string]any, w Work) map[string]any {
	if w.cleaned == nil {
		return v
	}
	t.Raw = t.Answer
	t.Answer, _ = schema.Encode(w.cleaned)
	return w.cleaned
}

// settled notes what came of a turn besides its answer.
func (t *Turn) settled(w Work) {
	t.Verdict = w.Decision
	switch {
	case w.blocked != "":
		t.Verdict, t.Why = blockedVerdict, w.blocked
	case w.sent != "":
		t.Verdict, t.Why = string(Returned), w.sent
	}
}

// recall takes a turn that was recorded before the process ended.
func (r *run) recall(t Turn, p Prompt, read func(map[string]any) (Work, error)) (Turn, map[string]any, Work) {
	var v map[string]any
	var w Work
	if t.Tainted { // recorded when that was all that was known
		t.Tainted, t.Origin = false, origin.Merge(t.Origin, origin.Of("agent:"+t.Speaker))
	}
	if t.State == OK {
		if t.Raw != nil { // it goes the way it went
			t.Answer, t.Raw = t.Raw, nil
		}
		x, err := schema.Decode(t.Answer)
		if err == nil {
			v, _ = x.(map[string]any)
			w, err = read(v)
		}
		if err != nil {
			t.State, t.Why = Invalid, err.Error()
		}
		v = t.clean(v, w)
	}
	r.note(t)
	return t, v, w
}

func (r *run) note(t Turn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := len(r.turns)
	for at > 0 && r.turns[at-1].N > t.N {
		at--
	}
	r.turns = slices.Insert(r.turns, at, t)
	r.usage.Calls += t.Usage.Calls
	r.usage.PromptTokens += t.Usage.PromptTokens
	r.usage.OutputTokens += t.Usage.OutputTokens
	if r.scope != nil && t.Origin != "" {
		r.scope.Raise(t.Origin)
	}
}

// answer asks a speaker, once more if what it says can't be used.
func (r *run) answer(ctx context.Context, a *Agent, p Prompt, t *Turn, at seat, read func(map[string]any) (Work, error)) (map[string]any, Work) {
	if far := peerOf(a, p.Kind); far != nil {
		var end context.CancelFunc
		ctx, end = far.bounded(ctx)
		defer end()
	}
	for {
		ans, left, err := r.call(ctx, a, p, at)
		t.Asked++
		t.Left = left
		t.Usage.Calls += ans.Usage.Calls
		t.Usage.PromptTokens += ans.Usage.PromptTokens
		t.Usage.OutputTokens += ans.Usage.OutputTokens
		t.Tools = append(t.Tools, ans.Receipts...)
		t.Origin = origin.Merge(t.Origin, ans.Origin)
		if over(ctx, t, err) {
			return nil, Work{}
		}
		var v map[string]any
		var w Work
		if err == nil {
			if v, err = p.Form.read(ans); err == nil {
				w, err = read(v)
			}
		}
		switch {
		case err == nil:
			if (w.sent != "" || w.blocked != "") && over(ctx, t, err) { // the check was cut off
				return nil, Work{}
			}
			t.State, t.Why, t.Said = OK, "", ""
			t.Answer, _ = schema.Encode(v)
			return t.clean(v, w), w
		case errors.Is(err, errRevoked):
			t.State, t.Why = Revoked, "revoked"
			return nil, Work{}
		case workflow.Unsettled(err): // it waits for a person
			t.State, t.Why, t.open = Halted, trim(err), err
			return nil, Work{}
		case errors.Is(err, ErrRefused):
			t.State, t.Why = Refused, trim(err)
			return nil, Work{}
		case !errors.Is(err, ErrMalformed):
			t.State, t.Why = Broken, trim(err)
			return nil, Work{}
		}
		t.State, t.Why, t.Said = Invalid, trim(err), said(ans)
		if t.Asked > 1 || !repairs(a.Speaker, p.Kind) {
			return nil, Work{}
		}
		p.Bad, p.Repair = t.Said, t.Why
	}
}

// over settles a turn whose time is over, whatever came of it.
func over(ctx context.Context, t *Turn, err error) bool {
	if ctx.Err() == nil {
		return false
	}
	switch {
	case !errors.Is(context.Cause(ctx), errRoundOver):
		t.State, t.Why = Halted, "stopped"
	case err == nil:
		t.State, t.Why = Late, "it answered after the time was over"
	default:
		t.State, t.Why = TimedOut, "no answer in time"
	}
	return true
}

func said(a Answer) string {
	if a.Value != nil {
		return render(a.Value)
	}
	return a.Text
}

// trim is an error's text without what the state says already.
func trim(err error) string {
	s := err.Error()
	for _, known := range []error{ErrMalformed, ErrRefused} {
		if len(s) > len(known.Error())+2 && s[:len(known.Error())] == known.Error() {
			return s[len(known.Error())+2:]
		}
	}
	return reasonOf(err)
}

type reply struct {
	a   Answer
	err error
}

// call asks a speaker and waits until it has ended, or has been given up.
func (r *run) call(ctx context.Context, a *Agent, p Prompt, at seat) (Answer, bool, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	c := &call{who: a.Name, end: end}
	if !r.s.enlist(c) {
		return Answer{}, false, errRevoked
	}
	defer r.s.delist(c)
	ctx = llm.Apart(origin.With(context.WithValue(ctx, seatKey{}, at), p.Origin))
	done := make(chan reply, 1)
	go func() {
		var out reply
		defer func() {
			if v := recover(); v != nil {
				out = reply{err: &agent.Panic{Value: v, Stack: debug.Stack()}}
			}
			done <- out
		}()
		out.a, out.err = a.Speaker.Speak(ctx, p)
		out.a.Origin = origin.Merge(out.a.Origin, origin.From(ctx))
	}()
	select {
	case out := <-done:
		return out.a, false, revokedOr(ctx, out.err)
	case <-ctx.Done():
	}
	grace := graceStop
	if cause := context.Cause(ctx); errors.Is(cause, errRoundOver) || errors.Is(cause, errRevoked) {
		grace = graceRound
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case out := <-done:
		return out.a, false, revokedOr(ctx, out.err)
	case <-timer.C:
		return Answer{}, true, revokedOr(ctx, ctx.Err())
	}
}

func revokedOr(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errRevoked) {
		return errRevoked
	}
	return err
}

// mishap gives the error of a turn that ends the whole interaction.
func (r *run) mishap(t Turn) error {
	if t.Left {
		r.mu.Lock()
		r.gone = true
		r.mu.Unlock()
	}
	switch t.State {
	case asked:
		if t.open != nil {
			return t.open
		}
		return &InDoubtError{Turn: t}
	case Halted:
		if t.open != nil {
			return t.open
		}
		return agent.ErrCancelled
	}
	return nil
}

// decided is what a decider said.
type decided struct {
	turn Turn
	v    map[string]any
	w    Work
}

// decide asks an agent that is no member of the round: a judge, a voter. What
// it said once in a round it is not asked again when the round is tried again.
func (r *run) decide(ctx context.Context, key string, n int, who string, p Prompt) (decided, error) {
	if d, ok := r.remember(key); ok {
		return d, nil
	}
	t, v, w := r.speak(ctx, who, n, p, func(v map[string]any) (Work, error) { return r.ruling(ctx, who, v), nil })
	d := decided{t, v, w}
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errRoundOver) {
		return d, context.Cause(ctx)
	}
	if err := r.mishap(t); err != nil {
		return d, err
	}
	if t.State == TimedOut || t.State == Late {
		return d, fmt.Errorf("%w: %s", errMissing, who)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.memo[key] = d
	return d, nil
}

// ruling reads what somebody said who decides in place of members: who is picked,
// what becomes of their work, or work of its own, which guardrails look at.
func (r *run) ruling(ctx context.Context, who string, v map[string]any) Work {
	for _, decision := range []string{"winner", "verdict"} {
		if word, ok := v[decision].(string); ok {
			return Work{Decision: word}
		}
	}
	w := Work{Draft: v["draft"]}
	if w.Draft == nil {
		w.Draft = any(v)
	}
	return r.guarded(ctx, r.edge, who, v, w)
}

func (r *run) remember(key string) (decided, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, ok := r.memo[key]
	return d, ok
}

// number gives a turn its number before it is asked, so that those asked at
// once have the same numbers in a resumed run.
func (r *run) number() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	return r.n
}

// protected runs a function of the author's; a panic is an error.
func protected[T any](f func() (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &agent.Panic{Value: p, Stack: debug.Stack()}
		}
	}()
	return f()
}

// seat is whose turn a context is of.
type seat struct {
	who    string
	round  int
	n      int
	sealed bool
	id     string                                 // of the turn, where its words go over a wire
	late   func(context.Context, bus.Event) error // writes down an answer that comes when the time is over
}

type seatKey struct{}

// SeatOf gives whose turn a context is of, and its number; 0 is none.
func SeatOf(ctx context.Context) (who string, n int) {
	at, _ := ctx.Value(seatKey{}).(seat)
	return at.who, at.n
}

// ErrEvent is why an event was not sent.
var ErrEvent = errors.New("society: event is not of this edge")

// toEvent is the kind of the record of an event.
const toEvent Kind = "event"

// Emit sends an event along the edge on which the turn of ctx is; it may be
// called by a speaker or by its tools. Members see it as they see the sender's
// work log. An event that the edge does not list is refused, and that is
// recorded.
func Emit(ctx context.Context, name string, payload any) error {
	r := runOf(ctx)
	at, _ := ctx.Value(seatKey{}).(seat)
	who := at.who
	if r == nil || who == "" {
		return fmt.Errorf("%w: %s: nobody has a turn here", ErrEvent, name)
	}
	t := Turn{Run: r.id, Path: r.path, Society: r.s.name, Edge: r.i.name, N: at.n, Round: at.round, Speaker: who,
		Kind: toEvent, Verdict: name, State: OK, Origin: origin.From(ctx), Sealed: at.sealed, Started: time.Now().UTC()}
	if !r.i.listed(name) {
		t.State, t.Why = Refused, fmt.Sprintf("event %q is not listed on this edge", name)
		r.note(t)
		if r.s.o.Trace != nil {
			r.s.o.Trace(ctx, t)
		}
		return fmt.Errorf("%w: %q; it has %v", ErrEvent, name, r.i.events())
	}
	text, err := json.Marshal(payload)
	if err != nil {
		return fmt.Errorf("society: event %s: %w", name, err)
	}
	t.Answer = text
	r.note(t)
	if r.s.o.Trace != nil {
		r.s.o.Trace(ctx, t)
	}
	if r.s.o.Send != nil {
		r.s.o.Send(ctx, r.i.name, who, name, payload)
	}
	return nil
}

func (i *Interaction) listed(name string) bool {
	for _, e := range i.events() {
		if e == name {
			return true
		}
	}
	return false
}

// events are the type's own and those that the author added.
func (i *Interaction) events() []string {
	built := map[string][]string{
		"delegation":  {"progress", "complete"},
		"oversight":   {"draft", "comment"},
		"cooperation": {"draft", "agree", "note"},
		"competition": {"submission"},
		"coopetition": {"note", "submission"},
	}[i.r.kind()]
	return append(built, i.r.shared().Events...)
}
