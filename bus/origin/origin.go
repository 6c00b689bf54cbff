// Package origin says whose words a value is.
//
// Its one rule: a value that is made of others has the origins of all of them.
// A [Label] is that set. It travels with events, keys of the blackboard, tasks,
// messages, results and whatever else carries words; [Label.Join] is what
// happens when they are combined. Whether a label is trusted is a question of
// policy, asked where it matters: before a model is offered a tool that acts.
//
// Scripts compute with plain values, so there the label belongs to the run, as
// in LIO (Stefan, Russo, Mitchell, Mazières, "Flexible dynamic information flow
// control in Haskell", 2011): a run begins with the label of what called it,
// whatever it reads is joined to that, and whatever it says has it. Go code
// does the same by its context:
//
//	ctx = origin.With(ctx, e.Origin()) // a run begins
//	origin.Raise(ctx, "mcp:files")     // it reads
//	board.Set(ctx, …)                  // what it writes is {mcp:files, mqtt}
package origin

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"
)

// A Label is a set of origins: "mqtt", "hw:lidar", "agent:scout",
// "script:main.star". It is their sorted list with commas between, so labels
// are equal exactly when their sets are, and one origin is its own label. The
// zero Label is the same as [Unknown]. Make others with [Of], [Parse] and Join.
type Label string

// Labels that no policy should trust.
const (
	Unknown Label = "unknown" // nobody said
	Many    Label = "many"    // more than a label holds
)

const (
	most    = 8  // origins of a label
	longest = 80 // bytes of an origin
)

// Of is the label of one origin, as it stands in an event's source.
func Of(who string) Label {
	if who == "" {
		return Unknown
	}
	who = strings.Map(func(r rune) rune {
		if r == ',' || r < ' ' || r == 0x7f || r == utf8.RuneError {
			return '_'
		}
		return r
	}, who)
	return Label(strings.ToValidUTF8(who[:min(len(who), longest)], ""))
}

// Parse reads what a label was written as.
func Parse(text string) Label {
	var l Label
	for part := range strings.SplitSeq(text, ",") {
		if one := Of(part); l == "" {
			l = one
		} else {
			l = l.Join(one)
		}
	}
	return l
}

// Join is the label of what is made of two values, or more.
func (l Label) Join(others ...Label) Label {
	for _, m := range others {
		l = l.join(m)
	}
	return l
}

// Merge is Join for labels of which some may be missing: it is of those that are
// there, "" if none is.
func Merge(list ...Label) (l Label) {
	for _, m := range list {
		switch {
		case m == "":
		case l == "":
			l = m
		default:
			l = l.join(m)
		}
	}
	return l
}

func (l Label) join(m Label) Label {
	if l == "" {
		l = Unknown
	}
	if l.Covers(m) {
		return l
	}
	if m.Covers(l) {
		return m
	}
	all := slices.AppendSeq(slices.Collect(l.All()), m.All())
	if all = distinct(all); len(all) > most {
		for i, one := range all { // a kind stands for its members
			if kind, _, ok := strings.Cut(one, ":"); ok {
				all[i] = kind + ":*"
			}
		}
		if all = distinct(all); len(all) > most {
			return Many
		}
	}
	return Label(strings.Join(all, ","))
}

func distinct(all []string) []string {
	slices.Sort(all)
	return slices.Compact(all)
}

// All gives the origins, in order.
func (l Label) All() iter.Seq[string] {
	if l == "" {
		l = Unknown
	}
	return strings.SplitSeq(string(l), ",")
}

// Covers reports whether l has every origin of m, so that joining m changes
// nothing.
func (l Label) Covers(m Label) bool {
	if l == m || l == Many {
		return true
	}
	for one := range m.All() {
		if !l.has(one) {
			return false
		}
	}
	return true
}

func (l Label) has(who string) bool {
	kind, _, sub := strings.Cut(who, ":")
	for one := range l.All() {
		if one == who || sub && strings.HasSuffix(one, ":*") && one[:len(one)-2] == kind {
			return true
		}
	}
	return false
}

// Trusted reports whether a policy trusts every origin of the label. What is
// unknown is asked for under that name, and what is too many never is.
func (l Label) Trusted(policy func(who string) bool) bool {
	if l == Many {
		return false
	}
	for one := range l.All() {
		if !policy(one) {
			return false
		}
	}
	return true
}

// Wordless reports whether a JSON tree says nothing: numbers, yes and no, and
// lists of them. Nobody obeys a number, so reading one raises no run, and a
// battery's charge does not cost a robot its tools.
func Wordless(v any) bool {
	switch v := v.(type) {
	case nil, bool, int64, float64, int:
		return true
	case []any:
		for _, x := range v {
			if !Wordless(x) {
				return false
			}
		}
		return true
	}
	return false
}

// Untrusted is the label without the origins that a policy trusts, for telling
// people and models whose words it is; Unknown if that leaves none.
func (l Label) Untrusted(policy func(who string) bool) Label {
	var rest []string
	for one := range l.All() {
		if !policy(one) {
			rest = append(rest, one)
		}
	}
	if rest == nil {
		return Unknown
	}
	return Label(strings.Join(rest, ","))
}

// A Scope is the label of one run: it floats upwards with what the run reads.
// It may be used concurrently.
type Scope struct {
	Start Label // what the run begins with
	fixed bool  // see Fixed
	now   atomic.Pointer[Label]
}

// Label is what the run has read so far.
func (s *Scope) Label() Label {
	if p := s.now.Load(); p != nil {
		return *p
	}
	return s.Start
}

// Raise joins a label to the run's.
func (s *Scope) Raise(l Label) {
	for !s.fixed {
		p := s.now.Load()
		was := s.Start
		if p != nil {
			was = *p
		}
		if was.Covers(l) && was != "" {
			return
		}
		next := was.join(l)
		if was == "" {
			next = l.join(l)
		}
		if s.now.CompareAndSwap(p, &next) {
			return
		}
	}
}

// Release takes off what a run has read: from now on its label is l. It gives
// the label that it had. Only what a script says in so many words may lead to
// it.
func (s *Scope) Release(l Label) (was Label) {
	was = s.Label()
	s.now.Store(&l)
	return was
}

// Key is what a context is asked for its scope by. The answer is a [Carrier].
type Key struct{}

// A Carrier is what a context keeps under [Key].
type Carrier interface{ Scope() *Scope }

// A Context begins a run: see [With].
type Context struct {
	context.Context
	Outer Carrier // that this one stands before; not a *Context
	scope Scope
}

// Scope implements [Carrier].
func (c *Context) Scope() *Scope { return &c.scope }

// Value implements context.Context.
func (c *Context) Value(key any) any {
	if _, mine := key.(Key); mine {
		return c
	}
	return c.Context.Value(key)
}

// With returns a context for a run that begins with a label. What the run
// reads does not reach ctx: whoever waits for it takes [From] of the new
// context for the label of what it gave.
func With(ctx context.Context, l Label) context.Context {
	c := &Context{Context: ctx}
	c.scope.Start = l
	switch o := ctx.Value(Key{}).(type) {
	case *Context:
		c.Outer = o.Outer
	case Carrier:
		c.Outer = o
	}
	return c
}

// Fixed is With for somebody who judges for themselves what they read, and whose
// words are their own: a test.
func Fixed(ctx context.Context, l Label) context.Context {
	ctx = With(ctx, l)
	ScopeOf(ctx).fixed = true
	return ctx
}

// ScopeOf gives the scope of the run that a context belongs to, nil outside of
// one.
func ScopeOf(ctx context.Context) *Scope {
	if c, ok := ctx.Value(Key{}).(Carrier); ok {
		return c.Scope()
	}
	return nil
}

// From is the label of the run that a context belongs to, "" outside of one.
func From(ctx context.Context) Label {
	if s := ScopeOf(ctx); s != nil {
		return s.Label()
	}
	return ""
}

// Raise says that the run has read something of a label.
func Raise(ctx context.Context, l Label) {
	if s := ScopeOf(ctx); s != nil {
		s.Raise(l)
	}
}
