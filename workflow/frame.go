package workflow

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"sync/atomic"
	"time"

	"edged/agent"
)

// Runtime is what a workflow finds around it; a field may be missing.
type Runtime struct {
	Trace   Trace   // hears about every node
	Watcher Watcher // says when something that a guard read has changed
	Runs    *Runs   // keeps durable runs
}

type runtimeKey struct{}

// WithRuntime returns a context whose workflows are watched, heard and kept.
func WithRuntime(ctx context.Context, rt Runtime) context.Context {
	return context.WithValue(ctx, runtimeKey{}, &rt)
}

// TaskOf gives the task that the outermost workflow of a context was asked to
// do, whatever its children's own tasks are.
func TaskOf(ctx context.Context) (agent.Task, bool) {
	if f := frameOf(ctx); f != nil {
		return f.run.first, true
	}
	return agent.Task{}, false
}

// RunOf gives the id of the run that a context belongs to and the place in its
// tree; both are empty outside of workflows, the id also where nobody traces
// or records.
func RunOf(ctx context.Context) (id, path string) {
	if f := frameOf(ctx); f != nil {
		return f.run.id, f.path()
	}
	return "", ""
}

// thread is what the nodes of one run share.
type thread struct {
	id      string
	first   agent.Task
	rt      *Runtime
	journal *journal  // of a durable run
	began   time.Time // where somebody traces
}

// since is how long the run has lasted: to read one clock is half of [time.Now].
func (t *thread) since() time.Duration { return time.Since(t.began) }

// frame is the place of one run of one agent in the tree, and its context.
type frame struct {
	context.Context
	up      *frame
	run     *thread
	agent   agent.Agent
	at      int32       // which child of up; -1 for a workflow that a leaf runs
	iter    int32       // which of several runs of that child, from 0
	key     string      // the same, of a custom node's child
	lost    func() bool // the node has cancelled this child, which is no outcome
	claimed atomic.Bool
	passing bool   // of a child of a reactive node: that it was cancelled is no outcome
	where   string // path, once somebody asked
}

type frameKey struct{}

// Value finds the frame itself, then what the context holds.
func (f *frame) Value(key any) any {
	if _, ok := key.(frameKey); ok {
		return f
	}
	return f.Context.Value(key)
}

func frameOf(ctx context.Context) *frame {
	f, _ := ctx.Value(frameKey{}).(*frame)
	return f
}

// enter gives a node its frame: the one that its parent made for it, or that
// of a new run.
func enter(ctx context.Context, n inner, t agent.Task) *frame {
	if own, ok := ctx.(*frame); ok && own.agent == agent.Agent(n) && own.claimed.CompareAndSwap(false, true) {
		return own
	}
	up := frameOf(ctx)
	if up != nil && meant(up.agent, n) && up.claimed.CompareAndSwap(false, true) {
		return up.with(ctx)
	}
	f := &frame{Context: ctx, up: up, agent: n, at: -1, run: &thread{first: t}}
	f.claimed.Store(true)
	if rt, ok := ctx.Value(runtimeKey{}).(*Runtime); ok {
		f.run.rt = rt
	} else {
		f.run.rt = &Runtime{}
	}
	if f.run.rt.Trace != nil {
		f.run.began = time.Now()
	}
	if up != nil {
		f.run.first, f.run.id = up.run.first, up.run.id
	} else if f.run.rt.Trace != nil {
		f.run.id = newID(f.run.began)
	}
	return f
}

// with gives the same place with another context.
func (f *frame) with(ctx context.Context) *frame {
	g := &frame{Context: ctx, up: f.up, run: f.run, agent: f.agent, at: f.at, iter: f.iter, key: f.key, where: f.where, lost: f.lost}
	g.claimed.Store(true)
	return g
}

// isLost reports whether a node above has cancelled the place so that how it
// ends is no outcome.
func (f *frame) isLost() bool {
	for ; f != nil; f = f.up {
		if f.lost != nil && f.lost() {
			return true
		}
	}
	return false
}

// meant reports whether a frame that was made for a is for n.
func meant(a agent.Agent, n inner) bool {
	for a != nil {
		if i, ok := a.(inner); ok {
			return i == n
		}
		w, ok := a.(Wrapper)
		if !ok {
			return false
		}
		a = w.Unwrap()
	}
	return false
}

// mute keeps a child from saying what is not the node's own answer.
func mute(ctx context.Context) context.Context { return agent.WithSay(ctx, nil) }

// turn runs a child of a reactive node. It may have had a turn before, whose
// outcome is then forgotten.
func (f *frame) turn(ctx context.Context, at int, again bool, c agent.Agent, t agent.Task) (agent.Result, error) {
	j := f.run.journal
	if j == nil {
		return f.step(ctx, at, 0, c, t)
	}
	cf := &frame{Context: ctx, up: f, run: f.run, agent: c, at: int32(at), passing: true}
	if again {
		if err := j.drop(f, cf.path()); err != nil {
			return agent.Result{By: c.Name(), Status: agent.Failed, Reason: err.Error()}, err
		}
	}
	return j.step(cf, c, t)
}

// step runs a child. ctx is f or made of it.
func (f *frame) step(ctx context.Context, at, iter int, c agent.Agent, t agent.Task) (agent.Result, error) {
	plain := f.run.journal == nil && f.run.rt.Trace == nil
	if plain && nodeOf(c) == nil {
		return agent.Run(ctx, c, t) // nobody asks where it is
	}
	cf := &frame{Context: ctx, up: f, run: f.run, agent: c, at: int32(at), iter: int32(iter)}
	switch {
	case plain:
		return agent.Run(cf, c, t)
	case f.run.journal != nil:
		return f.run.journal.step(cf, c, t)
	}
	return cf.do(c, t)
}

func (f *frame) do(c agent.Agent, t agent.Task) (agent.Result, error) {
	if f.run.rt.Trace == nil || nodeOf(c) != nil {
		return agent.Run(f, c, t)
	}
	kind := kindOf(c)
	f.settle()
	f.Context = f.tell(f.Context, Moment{Phase: Started, Name: c.Name(), Kind: kind})
	r, err := agent.Run(f, c, t)
	f.tell(f.Context, Moment{Phase: Ended, Name: c.Name(), Kind: kind, Elapsed: r.Elapsed}.of(f, r, err))
	return r, err
}

// path is the place in the tree: indices of children with dots between, and
// ~n for the n-th further run of the same child. The root is "".
func (f *frame) path() string {
	if f.up == nil || f.where != "" {
		return f.where
	}
	if f.up.up == nil && f.at >= 0 && f.iter == 0 && f.key == "" {
		return strconv.Itoa(int(f.at))
	}
	var buf [64]byte
	return string(f.appendPath(buf[:0]))
}

// settle fixes the path of a place that tells of itself, before others can see
// it.
func (f *frame) settle() { f.where = f.path() }

func (f *frame) appendPath(b []byte) []byte {
	if f.up == nil || f.where != "" {
		return append(b, f.where...)
	}
	b = f.up.appendPath(b)
	if f.at < 0 {
		return append(append(b, '/'), f.agent.Name()...)
	}
	if len(b) > 0 {
		b = append(b, '.')
	}
	b = strconv.AppendInt(b, int64(f.at), 10)
	if f.iter > 0 {
		b = append(b, '~')
		b = strconv.AppendInt(b, int64(f.iter), 10)
	}
	if f.key != "" {
		b = append(append(b, '~'), f.key...)
	}
	return b
}

// newID makes the name of a run that begins now; names sort by time.
func newID(now time.Time) string {
	var r [4]byte
	_, _ = rand.Read(r[:])
	id := now.UTC().AppendFormat(make([]byte, 0, 40), "20060102T150405.000-")
	return string(hex.AppendEncode(id, r[:]))
}
