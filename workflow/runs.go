package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"edged/agent"
)

// What goes wrong with runs.
var (
	ErrNoRun   = errors.New("workflow: no such run")
	ErrLive    = errors.New("workflow: run is under way")
	ErrOver    = errors.New("workflow: run is over")
	ErrChanged = errors.New("workflow: the tree has changed since the run began")
)

// RunsOptions of [Runs].
type RunsOptions struct {
	Keep int // runs that are over; the oldest go first; 0 is 100
}

// Runs are the durable runs of one store: those under way, those interrupted
// by the end of a process, and the latest that are over. All methods may be
// called concurrently. One process at a time has a store.
type Runs struct {
	store Store
	keep  int

	mu    sync.Mutex // guards the rest
	live  map[string]context.CancelCauseFunc
	known *runIndex // nil: not read yet
}

// NewRuns opens the runs of a store.
func NewRuns(s Store, o RunsOptions) *Runs {
	if o.Keep <= 0 {
		o.Keep = 100
	}
	return &Runs{store: s, keep: o.Keep, live: map[string]context.CancelCauseFunc{}}
}

// The states of a run that is not over; else it is the status of its outcome.
const (
	StateRunning     = "running"
	StateInterrupted = "interrupted" // its process ended, or it was stopped: it can be resumed
	StateInDoubt     = "in_doubt"    // it waits for a decision
	StateDamaged     = "damaged"     // its record can't be read
)

// RunInfo is what is known of a run.
type RunInfo struct {
	ID         string     `json:"id"`
	Workflow   string     `json:"workflow"`
	State      string     `json:"state"`
	Reason     string     `json:"reason,omitempty"`
	Reply      string     `json:"reply,omitempty"`
	Started    time.Time  `json:"started"`
	Ended      time.Time  `json:"ended,omitzero"`
	ForkedFrom string     `json:"forked_from,omitempty"`
	Task       agent.Task `json:"-"`
	Input      any        `json:"task,omitempty"`  // of the task
	Steps      []StepInfo `json:"steps,omitempty"` // in the order of their outcomes
}

// StepInfo is what is known of a step of a run.
type StepInfo struct {
	Path    string    `json:"path"`
	Name    string    `json:"name"`
	State   string    `json:"state"` // status of the outcome, "running" or "in_doubt"
	Reason  string    `json:"reason,omitempty"`
	Reply   string    `json:"reply,omitempty"`
	Effect  string    `json:"effect,omitempty"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
}

// header is the record of a run itself.
type header struct {
	ID       string     `json:"id"`
	Workflow string     `json:"workflow"`
	Shape    string     `json:"shape"`
	Task     taskRecord `json:"task"`
	Started  time.Time  `json:"started"`
	Ended    time.Time  `json:"ended,omitzero"`
	State    string     `json:"state,omitempty"` // empty: not over
	Reason   string     `json:"reason,omitempty"`
	Reply    string     `json:"reply,omitempty"`
	Fork     string     `json:"fork,omitempty"`
}

// shape is a digest of a tree's outline: what paths mean in it.
func shape(a agent.Agent) string {
	h := fnv.New64a()
	var walk func(o Outline)
	walk = func(o Outline) {
		_, _ = fmt.Fprintf(h, "%q%q%q(", o.Name, o.Kind, o.Label)
		for _, c := range o.Children {
			walk(c)
		}
		_, _ = h.Write([]byte{')'})
	}
	walk(Describe(a))
	return strconv.FormatUint(h.Sum64(), 16)
}

type resumeKey struct{}

// begin runs a node as a durable run: a new one, or the one that the context
// says is resumed.
func (f *frame) begin(n inner, t agent.Task) (agent.Result, error) {
	runs := f.run.rt.Runs
	if runs == nil {
		return agent.Result{}, fmt.Errorf("%w: %s is to be recorded and there is no store", agent.ErrFailed, n.Name())
	}
	j := &journal{runs: runs, steps: map[string]*record{}}
	h, _ := f.Value(resumeKey{}).(*header)
	if h != nil {
		t = h.Task.task()
		runs.load(j, h.ID)
	} else {
		h = &header{ID: newID(time.Now()), Workflow: n.Name(), Shape: shape(n), Task: *taskOf(t), Started: time.Now().UTC()}
		if err := runs.put(f, h); err != nil {
			return agent.Result{}, err
		}
	}
	j.id = h.ID
	work, cancel := context.WithCancelCause(context.WithValue(f.Context, resumeKey{}, (*header)(nil)))
	defer cancel(nil)
	if err := runs.enlist(h.ID, cancel); err != nil {
		return agent.Result{RunID: h.ID}, err
	}
	defer runs.delist(h.ID)
	j.stopped = func() bool { return work.Err() != nil }
	// In its own run the node is the root of all paths.
	f = f.with(work)
	f.up = nil
	f.run = &thread{id: h.ID, first: t, rt: f.run.rt, journal: j, began: time.Now()}
	r, err := f.manage(n, t)
	if errors.Is(context.Cause(work), errRunCancelled) {
		r.Status, r.Reason = "", ""
		err = errRunCancelled
	}
	r.RunID = h.ID
	if bad := runs.finish(f, j, *h, r, err); bad != nil {
		err = bad
	}
	return r, err
}

// errRunCancelled is the cause of a run that was cancelled by name.
var errRunCancelled = fmt.Errorf("%w: run was cancelled", agent.ErrCancelled)

// finish writes down how a run ended. One that was stopped from outside or
// that waits for a decision is not over.
func (r *Runs) finish(f *frame, j *journal, h header, res agent.Result, err error) error {
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	var d *InDoubtError
	var w *WaitError
	switch {
	case errors.As(err, &d):
		h.State, h.Reason = StateInDoubt, d.Doubt.Name
	case errors.As(err, &w):
		h.State, h.Reason = StateWaiting, w.Prompt
	case unsettled(err):
		return nil
	case j.stopped() && err != nil && !errors.Is(err, errRunCancelled):
		h.State, h.Reason = StateInterrupted, whyEnded(f)
	default:
		h.Ended, h.Reply = time.Now().UTC(), res.Reply
		m := Moment{}.of(f, res, err)
		h.State, h.Reason = string(m.Status), m.Reason
	}
	if bad := r.put(f, &h); bad != nil {
		return bad
	}
	if !h.Ended.IsZero() {
		r.prune(f)
	}
	return nil
}

func (r *Runs) put(ctx context.Context, h *header) error {
	text, err := encode(h)
	if err == nil {
		err = r.store.Put(context.WithoutCancel(ctx), h.ID, text, true)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errJournal, noStatus{err})
	}
	r.noteHead(h)
	return nil
}

func (r *Runs) enlist(id string, cancel context.CancelCauseFunc) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.live[id] != nil {
		return fmt.Errorf("%w: %s", ErrLive, id)
	}
	r.live[id] = cancel
	return nil
}

func (r *Runs) delist(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.live, id)
}

func (r *Runs) isLive(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.live[id] != nil
}

// load reads the steps of a run into a journal.
func (r *Runs) load(j *journal, id string) {
	for _, s := range r.steps(id) {
		j.steps[s.Path] = s
		j.n = max(j.n, s.N)
	}
}

func (r *Runs) steps(id string) (list []*record) {
	for _, path := range r.paths(id) {
		text, _ := r.store.Get(id + "/" + path)
		s := &record{}
		if decodeInto(text, s) == nil && s.Path == path {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *record) int { return cmp.Compare(a.N, b.N) })
	return list
}

func (r *Runs) header(id string) (*header, error) {
	text, ok := r.store.Get(id)
	if !ok || strings.Contains(id, "/") {
		return nil, fmt.Errorf("%w: %s", ErrNoRun, id)
	}
	h := &header{}
	if err := decodeInto(text, h); err != nil {
		return nil, fmt.Errorf("workflow: run %s: %w", id, err)
	}
	return h, nil
}

// List gives all runs, the oldest first, without their steps.
func (r *Runs) List() []RunInfo {
	r.mu.Lock()
	heads := make([]runHead, 0, len(r.index().heads))
	for _, h := range r.known.heads {
		heads = append(heads, runHead{id: h.id, h: h.h, bad: h.bad})
	}
	r.mu.Unlock()
	sort.Slice(heads, func(i, j int) bool { return byStart(&heads[i], &heads[j]) < 0 })
	list := make([]RunInfo, 0, len(heads))
	for _, h := range heads {
		switch {
		case h.bad != nil:
			list = append(list, RunInfo{ID: h.id, State: StateDamaged, Reason: h.bad.Error()})
		case h.h != nil:
			list = append(list, r.info(h.h))
		}
	}
	return list
}

func (r *Runs) info(h *header) RunInfo {
	i := RunInfo{ID: h.ID, Workflow: h.Workflow, State: h.State, Reason: h.Reason, Reply: h.Reply,
		Started: h.Started, Ended: h.Ended, ForkedFrom: h.Fork, Task: h.Task.task()}
	i.Input = i.Task.Input
	switch {
	case r.isLive(h.ID):
		i.State, i.Reason = StateRunning, "" // which was of its last end
	case i.State == "":
		i.State = StateInterrupted
	}
	return i
}

// Get gives one run with its steps.
func (r *Runs) Get(id string) (RunInfo, error) {
	h, err := r.header(id)
	if err != nil {
		return RunInfo{}, err
	}
	i := r.info(h)
	for _, s := range r.steps(id) {
		if s.Value != nil {
			continue // a choice of a node, not a step
		}
		info := StepInfo{Path: s.Path, Name: s.Name, Effect: string(s.Effect), Started: s.Started, Ended: s.Ended, State: StateInDoubt}
		switch {
		case s.Result != nil:
			info.State, info.Reason, info.Reply = string(s.Result.Status), s.Result.Reason, s.Result.Reply
		case i.State == StateRunning:
			info.State = StateRunning
		case s.Decision == RunAgain:
			info.State, info.Reason = StateInterrupted, "it is run again"
		}
		i.Steps = append(i.Steps, info)
	}
	return i, nil
}

// Resume goes on with a run at its first step without an outcome. The tree
// must be the one it was made with; ctx must carry a runtime with these runs.
func (r *Runs) Resume(ctx context.Context, id string, tree agent.Agent) (agent.Result, error) {
	h, err := r.resumable(id, tree)
	if err != nil {
		return agent.Result{}, err
	}
	return agent.Run(context.WithValue(ctx, resumeKey{}, h), tree, h.Task.task())
}

// Resumable says what is in the way of [Runs.Resume]; nil is nothing.
func (r *Runs) Resumable(id string, tree agent.Agent) error {
	_, err := r.resumable(id, tree)
	return err
}

func (r *Runs) resumable(id string, tree agent.Agent) (*header, error) {
	h, err := r.header(id)
	switch {
	case err != nil:
		return nil, err
	case r.isLive(id):
		return nil, fmt.Errorf("%w: %s", ErrLive, id)
	case !h.Ended.IsZero():
		return nil, fmt.Errorf("%w: %s: %s", ErrOver, id, h.State)
	case h.Workflow != tree.Name():
		return nil, fmt.Errorf("%w: %s is a run of %s, not of %s", ErrChanged, id, h.Workflow, tree.Name())
	case h.Shape != shape(tree):
		return nil, fmt.Errorf("%w: %s of %s", ErrChanged, id, h.Workflow)
	}
	if n := nodeOf(tree); n == nil || !n.opt.Checkpoint {
		return nil, fmt.Errorf("workflow: resume %s: %s has no checkpoint", id, tree.Name())
	}
	return h, nil
}

// Hinder notes why a run that is not under way can't go on: it counts as
// interrupted, for this reason, until it is resumed.
func (r *Runs) Hinder(ctx context.Context, id, why string) error {
	h, err := r.header(id)
	switch {
	case err != nil:
		return err
	case r.isLive(id):
		return fmt.Errorf("%w: %s", ErrLive, id)
	case !h.Ended.IsZero():
		return fmt.Errorf("%w: %s: %s", ErrOver, id, h.State)
	case h.State == StateInterrupted && h.Reason == why:
		return nil
	}
	h.State, h.Reason = StateInterrupted, why
	return r.put(ctx, h)
}

// Cancel ends a run for good, whether it is under way or not. One under way
// may take a moment to end.
func (r *Runs) Cancel(ctx context.Context, id string) error {
	r.mu.Lock()
	cancel := r.live[id]
	r.mu.Unlock()
	if cancel != nil {
		cancel(errRunCancelled)
		return nil
	}
	h, err := r.header(id)
	if err != nil {
		return err
	}
	if !h.Ended.IsZero() {
		return fmt.Errorf("%w: %s: %s", ErrOver, id, h.State)
	}
	h.Ended, h.State, h.Reason = time.Now().UTC(), string(agent.Cancelled), "run was cancelled"
	return r.put(ctx, h)
}

// Fork makes a new run of an old one with the outcomes that it had before the
// step at path; "" is after all of them. The new one is resumed as any other.
// What [Runs.ForkWith] stored for that step it has, too.
func (r *Runs) Fork(ctx context.Context, id, path string) (string, error) {
	return r.ForkWith(ctx, id, path, nil)
}

// ForkWith is Fork, and stores a patch for the step, which it finds by [Recall]
// as [PatchOf].
func (r *Runs) ForkWith(ctx context.Context, id, path string, patch map[string]any) (string, error) {
	h, err := r.header(id)
	if err != nil {
		return "", err
	}
	steps := r.steps(id)
	if path == "" && len(patch) > 0 {
		return "", fmt.Errorf("workflow: fork %s: a patch needs a step", id)
	}
	if path != "" {
		// What ended beside it stays, also if it began later.
		at := slices.IndexFunc(steps, func(s *record) bool { return s.Path == path })
		if at < 0 {
			at = slices.IndexFunc(steps, func(s *record) bool { return below(s.Path, path) })
		}
		if at < 0 {
			return "", fmt.Errorf("workflow: fork %s: no step %s", id, path)
		}
		if i := slices.IndexFunc(steps, func(s *record) bool { return s.Path == path+"?"+PatchOf }); i >= 0 {
			all := map[string]any{}
			before, _ := treeOf(steps[i].Value).(map[string]any)
			maps.Copy(all, before)
			maps.Copy(all, patch)
			patch = all
		}
		steps = slices.DeleteFunc(steps[:at:at], func(s *record) bool { return below(s.Path, path) })
		if len(patch) > 0 {
			steps = append(steps, stored(steps, path, PatchOf, patch))
		}
	}
	n := &header{ID: newID(time.Now()), Workflow: h.Workflow, Shape: h.Shape, Task: h.Task, Started: time.Now().UTC(), Fork: id, State: StateInterrupted}
	for _, s := range steps {
		text, err := encode(s)
		if err == nil {
			err = r.store.Put(ctx, n.ID+"/"+s.Path, text, false)
		}
		if err != nil {
			return "", fmt.Errorf("workflow: fork %s: %w", id, err)
		}
		r.noteStep(n.ID, s.Path)
	}
	return n.ID, r.put(ctx, n)
}

// Decide says what becomes of a step in doubt of a run that is not under way;
// res is its result if it is taken as done. The run is then resumed.
func (r *Runs) Decide(ctx context.Context, id, path string, d Decision, res agent.Result) error {
	h, err := r.header(id)
	if err != nil {
		return err
	}
	if r.isLive(id) {
		return fmt.Errorf("%w: %s", ErrLive, id)
	}
	if d != RunAgain && d != TakeAsDone && d != TakeAsFault {
		return fmt.Errorf("workflow: decide %s: %q is no decision", id, d)
	}
	steps := r.steps(id)
	i := slices.IndexFunc(steps, func(s *record) bool { return s.Path == path && s.Result == nil && s.Value == nil })
	if i < 0 {
		return fmt.Errorf("workflow: decide %s: step %q is not in doubt", id, path)
	}
	steps[i].decide(d, res)
	text, err := encode(steps[i])
	if err == nil {
		err = r.store.Put(ctx, id+"/"+path, text, true)
	}
	if err != nil {
		return fmt.Errorf("workflow: decide %s: %w", id, err)
	}
	if h.State != StateInDoubt || slices.ContainsFunc(steps, func(s *record) bool { return s.Result == nil && s.Value == nil && s.Decision == "" }) {
		return nil
	}
	h.State, h.Reason = StateInterrupted, "" // nothing is left to decide
	return r.put(ctx, h)
}

// Forget deletes a run that is not under way.
func (r *Runs) Forget(ctx context.Context, id string) error {
	if r.isLive(id) {
		return fmt.Errorf("%w: %s", ErrLive, id)
	}
	if _, ok := r.store.Get(id); !ok {
		return fmt.Errorf("%w: %s", ErrNoRun, id)
	}
	var errs []error
	for _, path := range r.paths(id) {
		errs = append(errs, r.store.Delete(ctx, id+"/"+path))
	}
	err := errors.Join(append(errs, r.store.Delete(ctx, id))...)
	if err == nil {
		r.noteForgotten(id)
	}
	return err
}

// prune forgets the oldest runs that are over. What can't be deleted now is
// deleted another time.
func (r *Runs) prune(ctx context.Context) {
	for _, id := range r.spare() {
		_ = r.Forget(context.WithoutCancel(ctx), id)
	}
}
