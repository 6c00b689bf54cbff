package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"edged/agent"
	"edged/agent/llm"
)

// The law of this file: a step's outcome is on disk before anything that
// follows from it is done, and the intent of a step that writes before it
// begins. Whatever cannot be written ends the run where it is.

// A Store keeps small named records. With sync a record is on disk when Put
// returns. It may be used from several goroutines.
type Store interface {
	Put(ctx context.Context, name string, v []byte, sync bool) error
	Get(name string) ([]byte, bool)
	Delete(ctx context.Context, name string) error
	All() iter.Seq2[string, []byte]
}

// errJournal is in every error of a record that could not be written.
var errJournal = errors.New("workflow: run can't be recorded")

// A Doubt is a step that was interrupted while it wrote: whether the world saw
// all of it, a part or nothing is not known.
type Doubt struct {
	Run   string     // id
	Path  string     // place in the tree
	Name  string     // of the agent
	Task  agent.Task // that it was given
	Since time.Time  // when it was begun
}

// InDoubtError ends a run that waits for a decision about a step.
type InDoubtError struct{ Doubt Doubt }

func (e *InDoubtError) Error() string {
	return fmt.Sprintf("escalated: in_doubt: %s was interrupted at %s (run %s, step %s)",
		e.Doubt.Name, e.Doubt.Since.Format(time.RFC3339), e.Doubt.Run, e.Doubt.Path)
}

// Unwrap makes it the outcome escalated: a person is needed.
func (e *InDoubtError) Unwrap() error { return agent.ErrEscalated }

// A Decision is what becomes of a step in doubt.
type Decision string

// The decisions; empty is AskPerson.
const (
	AskPerson   Decision = "ask"    // the run ends escalated and can be resumed after Runs.Decide
	RunAgain    Decision = "again"  // from its start
	TakeAsDone  Decision = "done"   // it happened
	TakeAsFault Decision = "failed" // it did not, and is not tried again
)

// record is what is stored of one step.
type record struct {
	N        int           `json:"n"` // order of the outcomes in the run
	Path     string        `json:"path"`
	Name     string        `json:"name"`
	Effect   llm.Effect    `json:"effect,omitempty"`
	Started  time.Time     `json:"started"`
	Ended    time.Time     `json:"ended,omitzero"` // zero: an intent
	Task     *taskRecord   `json:"task,omitempty"`
	Result   *resultRecord `json:"result,omitempty"`
	Guard    string        `json:"guard,omitempty"`
	Crash    string        `json:"crash,omitempty"` // backtrace
	Decision Decision      `json:"decision,omitempty"`
	Value    encodedTree   `json:"value,omitempty"` // of a choice that was made
}

// journal is the written side of one durable run.
type journal struct {
	runs    *Runs
	id      string
	stopped func() bool // from outside, and not by a limit or a guard in its tree

	mu     sync.Mutex // guards the rest
	n      int
	steps  map[string]*record
	closed bool
}

func (j *journal) get(path string) *record {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.steps[path]
}

// write stores a record; a run that is over takes none.
func (j *journal) write(ctx context.Context, r *record) error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return fmt.Errorf("%w: run %s is over", errJournal, j.id)
	}
	j.n++
	r.N = j.n
	j.mu.Unlock()
	text, err := encode(r)
	if err == nil {
		// A run that is being stopped still writes down what has happened.
		err = j.runs.store.Put(context.WithoutCancel(ctx), j.id+"/"+r.Path, text, true)
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", errJournal, r.Path, noStatus{err})
	}
	j.runs.noteStep(j.id, r.Path)
	j.mu.Lock()
	j.steps[r.Path] = r
	j.mu.Unlock()
	return nil
}

// step runs a child of a durable run, or gives the outcome that it had.
func (j *journal) step(f *frame, c agent.Agent, t agent.Task) (agent.Result, error) {
	path, name := f.path(), c.Name()
	have := j.get(path)
	if have != nil && have.Name != name {
		return agent.Result{By: name, Status: agent.Failed, Reason: "the tree has changed"},
			fmt.Errorf("%w: step %s was %s and is %s now: the tree has changed", errJournal, path, have.Name, name)
	}
	if err := f.Err(); err != nil {
		return f.do(c, t) // says that it is over
	}
	if have != nil && have.Result != nil {
		j.recall(f, path)
		return have.outcome()
	}
	rec := &record{Path: path, Name: name, Effect: effectOf(c), Started: time.Now().UTC()}
	if have != nil && have.Decision != RunAgain { // an intent without an outcome
		r, err, again := j.settle(f, have)
		if !again {
			return r, err
		}
	}
	if rec.Effect == llm.Write {
		intent := *rec
		intent.Task = taskOf(t)
		if err := j.write(f, &intent); err != nil {
			return agent.Result{By: name, Status: agent.Failed, Reason: err.Error()}, err
		}
	}
	r, err := f.do(c, t)
	if unsettled(err) || !r.OK() && (j.stopped() || f.isLost()) {
		return r, err // it did not end by itself: it is no outcome
	}
	if f.passing && r.Status == agent.Cancelled {
		return r, cmp.Or(j.drop(f, path), err)
	}
	rec.fill(r, err)
	if bad := j.write(f, rec); bad != nil {
		return agent.Result{By: name, Status: agent.Failed, Reason: bad.Error(), Children: r.Children}, bad
	}
	return r, err
}

// recall tells how a step that is not run again ended, and the tree under it:
// who draws the run knows nothing of the process before.
func (j *journal) recall(f *frame, path string) {
	tr := f.run.rt.Trace
	if tr == nil {
		return
	}
	j.mu.Lock()
	var list []*record
	for p, r := range j.steps {
		if r.Result != nil && below(p, path) {
			list = append(list, r)
		}
	}
	j.mu.Unlock()
	for _, r := range list {
		tr.Node(f, Moment{Phase: Ended, Run: j.id, Path: r.Path, Name: r.Name, Kind: "agent", Recalled: true,
			Status: r.Result.Status, Reason: r.Result.Reason, Guard: r.Guard, By: r.Result.By, Elapsed: r.Ended.Sub(r.Started)})
	}
}

// settle decides about a step in doubt; again is true if it is to run.
func (j *journal) settle(f *frame, have *record) (r agent.Result, err error, again bool) {
	d := have.doubt(j.id)
	verdict := AskPerson
	for u := f; u != nil; u = u.up { // the nearest node that has an opinion
		n := nodeOf(u.agent)
		if n == nil || n.opt.OnInDoubt == nil {
			continue
		}
		bad := guardedCall(func() (err error) {
			verdict, err = n.opt.OnInDoubt(f, d)
			return err
		})
		if bad != nil {
			verdict = AskPerson
		}
		break
	}
	switch verdict {
	case RunAgain:
		return r, nil, true
	case TakeAsDone, TakeAsFault:
		done := *have
		done.decide(verdict, agent.Result{})
		if err := j.write(f, &done); err != nil {
			return agent.Result{By: d.Name, Status: agent.Failed, Reason: err.Error()}, err, false
		}
		r, err = done.outcome()
		return r, err, false
	}
	open := &InDoubtError{d}
	return agent.Result{By: d.Name, Status: agent.Escalated, Reason: "in_doubt: " + d.Name}, open, false
}

func (r *record) doubt(run string) Doubt {
	d := Doubt{Run: run, Path: r.Path, Name: r.Name, Since: r.Started}
	if r.Task != nil {
		d.Task = r.Task.task()
	}
	return d
}

// decide makes an intent an outcome.
func (r *record) decide(d Decision, res agent.Result) {
	r.Decision = d
	switch d {
	case TakeAsDone:
		res.Status, res.Reason = agent.Done, ""
	case TakeAsFault:
		res.Status, res.Reason = agent.Failed, "taken as failed after an interruption"
	default:
		return
	}
	res.By = r.Name
	r.fill(res, sentinel(res.Status))
}

func (r *record) fill(res agent.Result, err error) {
	r.Ended, r.Result = time.Now().UTC(), resultOf(res)
	var g *GuardError
	if errors.As(err, &g) {
		r.Guard = g.Name
	}
	var f interface{ Fields() map[string]any }
	if errors.As(err, &f) {
		r.Crash, _ = f.Fields()["backtrace"].(string)
	}
}

// recordedCrash is the error of a crash that is read from a record.
type recordedCrash struct {
	text, trace string
}

func (e *recordedCrash) Error() string          { return e.text }
func (e *recordedCrash) Fields() map[string]any { return map[string]any{"backtrace": e.trace} }

// outcome gives the step's result as it was.
func (r *record) outcome() (agent.Result, error) {
	res := r.Result.result()
	s := sentinel(res.Status)
	switch {
	case s == nil:
		return res, nil
	case r.Guard != "":
		return res, fmt.Errorf("%w: %w", s, &GuardError{Name: r.Guard})
	case r.Crash != "":
		return res, fmt.Errorf("%w: %w", s, &recordedCrash{res.Reason, r.Crash})
	}
	return res, fmt.Errorf("%w: %s", s, res.Reason)
}

// An Effector is an agent that says what it does to the world.
type Effector interface{ Effect() llm.Effect }

func effectOf(a agent.Agent) llm.Effect {
	for a != nil {
		if n, ok := a.(inner); ok {
			if b := n.self(); b.opt.Effect != "" || b.kind != "step" {
				return b.opt.Effect
			}
			a = n.self().children[0]
			continue
		}
		if e, ok := a.(Effector); ok {
			return e.Effect()
		}
		w, ok := a.(Wrapper)
		if !ok {
			break
		}
		a = w.Unwrap()
	}
	return ""
}

// decide makes a choice of a node once: a durable run finds it again.
func decide[T any](f *frame, what string, choose func() (T, error)) (T, error) {
	j := f.run.journal
	if j == nil {
		return protected(choose)
	}
	path := f.path() + "?" + what
	var v T
	if r := j.get(path); r != nil {
		return v, decodeInto(r.Value, &v)
	}
	start := time.Now().UTC()
	v, err := protected(choose)
	if err != nil {
		return v, err
	}
	text, err := encode(v)
	if err != nil {
		return v, err
	}
	return v, j.write(f, &record{Path: path, Name: what, Started: start, Ended: time.Now().UTC(), Value: text})
}

func protected[T any](f func() (T, error)) (v T, err error) {
	err = guardedCall(func() (err error) { v, err = f(); return err })
	return v, err
}

// recorded reports whether a durable run has been at a child before.
func (f *frame) recorded(at, iter int) bool {
	j := f.run.journal
	if j == nil {
		return false
	}
	path := (&frame{up: f, at: int32(at), iter: int32(iter)}).path()
	j.mu.Lock()
	defer j.mu.Unlock()
	for p := range j.steps {
		if below(p, path) {
			return true
		}
	}
	return false
}

// below reports whether a path is another one's or in the tree under it.
func below(path, top string) bool {
	rest, ok := strings.CutPrefix(path, top)
	return ok && (rest == "" || strings.ContainsRune(".?/", rune(rest[0])))
}

// counted gives how many runs of its child a node has behind it.
func (f *frame) counted() (n int) {
	if f.run.journal != nil {
		if r := f.run.journal.get(f.path() + "?count"); r != nil {
			_ = decodeInto(r.Value, &n)
		}
	}
	return n
}

// count notes that a node has one more run of its child behind it, and drops
// what was recorded of it: a run may go on for ever.
func (f *frame) count(at, iter int) error {
	j := f.run.journal
	if j == nil {
		return nil
	}
	now := time.Now().UTC()
	text, err := encode(iter + 1)
	if err == nil {
		err = j.write(f, &record{Path: f.path() + "?count", Name: "count", Started: now, Ended: now, Value: text})
	}
	if err != nil {
		return err
	}
	return j.drop(f, (&frame{up: f, at: int32(at), iter: int32(iter)}).path())
}

// drop forgets what was recorded of a place and of the tree under it.
func (j *journal) drop(ctx context.Context, top string) error {
	j.mu.Lock()
	var gone []string
	for p := range j.steps {
		if below(p, top) {
			gone = append(gone, p)
			delete(j.steps, p)
		}
	}
	j.mu.Unlock()
	for _, p := range gone {
		if err := j.runs.store.Delete(context.WithoutCancel(ctx), j.id+"/"+p); err != nil {
			return fmt.Errorf("%w: %s: %w", errJournal, p, noStatus{err})
		}
		j.runs.noteDropped(j.id, p)
	}
	return nil
}
