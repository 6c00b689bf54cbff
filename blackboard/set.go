package blackboard

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"edged/bus"
	"edged/bus/origin"
)

// SetOptions of one change; the zero value is the key's own rule.
type SetOptions struct {
	TTL  time.Duration // the key disappears after that time; 0 = the rule's, negative = never
	Mode Mode
}

// Set stores a value and gives the key's version. It returns without waiting
// for watchers, except those made with Sync. Writing the value a key already
// has changes nothing but is seen by watchers that ask for every set.
func (b *Board) Set(ctx context.Context, writer, key string, v any, o SetOptions) (uint64, error) {
	if f, err := b.freeze(key, v); err != nil {
		return 0, err
	} else {
		v = f
	}
	if err := b.stormy(ctx, writer, "set", key); err != nil {
		return 0, err
	}
	b.mu.Lock()
	e := b.entries[key]
	if e == nil {
		var err error
		if e, err = b.create("set", key); err != nil {
			b.mu.Unlock()
			return 0, err
		}
	}
	mode := e.mode(o.Mode)
	if mode == Sync && b.store != nil || e.flight != nil || b.closed || mode == Group && b.commits.trouble != nil {
		b.sweep(e)
		b.mu.Unlock()
		var version uint64
		err := b.mutate(ctx, writer, "set", o.Mode, []string{key}, func(w *view) error {
			version = w.put(key, v, o.TTL)
			return nil
		})
		return version, err
	}
	h := b.apply(ctx, e, e.next(b, v, o.TTL, mode, writer, origin.From(ctx), b.bus.Now()), false)
	version := e.version
	b.mu.Unlock()
	if h != nil {
		h.run(ctx)
	}
	b.bus.Deliver()
	return version, nil
}

// stormy refuses a change at the end of a chain of causes that the bus would
// not deliver, before anything is changed.
func (b *Board) stormy(ctx context.Context, writer, op, key string) error {
	if _, hops := bus.CauseOf(ctx); hops < bus.MaxHops {
		return nil // and no topic is made of the key
	}
	if err := b.bus.Stormy(ctx, writer, topic(boardRoom, key)); err != nil {
		return fmt.Errorf("blackboard: %s %s: %w", op, key, err)
	}
	return nil
}

const (
	boardRoom   = "board/"
	requestRoom = "request/"
)

// create makes the entry of a new, still absent key; the caller holds mu.
func (b *Board) create(op, key string) (*entry, error) {
	if err := checkKey(op, key); err != nil {
		return nil, err
	}
	e := &entry{key: strings.Clone(key), rule: b.rule(key)}
	e.version = b.gone.take(key)
	b.entries[e.key] = e
	return e, nil
}

// sweep forgets an entry that holds nothing; the caller holds mu.
func (b *Board) sweep(e *entry) {
	if e.present || e.dirty || e.disk || e.flight != nil || len(e.history) > 0 {
		return
	}
	if b.entries[e.key] == e {
		delete(b.entries, e.key)
		b.gone.put(e.key, e.version)
	}
}

func (e *entry) mode(m Mode) Mode {
	if m == Default && e.rule != nil {
		m = e.rule.Mode
	}
	if m == Default {
		m = Group
	}
	return m
}

// next is the state after a set of v; the caller holds mu.
func (e *entry) next(b *Board, v any, ttl time.Duration, mode Mode, writer string, whose origin.Label, at int64) state {
	if ttl == 0 && e.rule != nil {
		ttl = e.rule.TTL
	}
	return state{value: v, version: e.version + 1, at: at, ttl: max(ttl, 0), writer: writer, origin: by(whose, writer), present: true, keep: mode != Memory && b.store != nil}
}

// repeats reports whether a set of s on top of was changes nothing.
func (s *state) repeats(was *state) bool {
	return was.present && s.present && s.ttl == 0 && was.ttl == 0 && s.keep == was.keep && same(was.value, s.value)
}

// apply makes a state a key's current one and stages its event; stored says
// that the file has it already. The run of what it returns must be called after
// mu is released. The caller holds mu.
func (b *Board) apply(ctx context.Context, e *entry, s state, stored bool) *heard {
	var h *heard
	var n *note
	ws := b.listeners(e)
	if len(ws) == 0 {
		n = new(note)
	} else {
		h = new(heard)
		n = &h.note
	}
	n.key, n.old, n.new, n.at, n.writer = e.key, e.value, s.value, s.at, s.writer
	n.deleted, n.created = !s.present, !e.present
	b.sets++
	ctx = e.told(ctx, &s)
	if s.repeats(&e.state) {
		n.repeat = true
		b.repeats++
		if whose := by(s.whose(), e.writer); whose != e.origin { // the newest says whose it is
			e.origin = whose
			if e.keep || e.disk {
				b.soil(e)
			}
		}
	} else {
		b.become(e, &s, stored)
	}
	n.version = e.version
	if e.line == nil {
		e.line, _ = b.bus.Line(topic(boardRoom, e.key)) // keys are checked before they get here
	}
	ev, _ := e.line.Stage(ctx, s.writer, n) // it fails when the bus is closed: nobody listens then
	if h == nil {
		return nil
	}
	for _, w := range ws {
		if w.hears(n) {
			h.add(ctx, w, ev, n, nil, !stored)
		}
	}
	return h
}

// told is the context of a change's event: it has the words of the old value
// and of the new one. The caller holds mu.
func (e *entry) told(ctx context.Context, s *state) context.Context {
	old := e.present && (e.origin != s.origin || e.writer != s.writer) && !origin.Wordless(e.value)
	if !old && s.origin == "" {
		return ctx
	}
	whose := s.whose()
	if old {
		whose = whose.Join(e.whose())
	}
	if whose == origin.From(ctx) {
		return ctx
	}
	return origin.With(ctx, whose)
}

// become replaces a key's state; the caller holds mu.
func (b *Board) become(e *entry, s *state, stored bool) {
	if s.ttl != 0 || e.ttl != 0 {
		b.expire(e, s.ttl)
	}
	e.state = *s
	if e.depth() > 0 {
		b.remember(e, stored)
	}
	if !stored && (s.keep || e.disk) {
		b.soil(e)
	}
	b.mended(bucketValues, e.key)
}

// Update stores several values as one step: all or none, on disk and for readers.
func (b *Board) Update(ctx context.Context, writer string, values map[string]any, o SetOptions) error {
	keys := make([]string, 0, len(values))
	frozen := make([]any, 0, len(values))
	for k := range values {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		v, err := b.freeze(k, values[k])
		if err != nil {
			return err
		}
		frozen = append(frozen, v)
	}
	return b.mutate(ctx, writer, "update", o.Mode, keys, func(w *view) error {
		for i, k := range keys {
			w.put(k, frozen[i], o.TTL)
		}
		return nil
	})
}

// Delete removes a key and reports whether there was one.
func (b *Board) Delete(ctx context.Context, writer, key string) (bool, error) {
	had := false
	err := b.mutate(ctx, writer, "delete", Default, []string{key}, func(w *view) error {
		had = w.delete(key)
		if w.b.damageOf(key) != nil {
			had = true
			w.b.mended(bucketValues, key)
			w.b.later(put{bucket: bucketValues, key: key})
		}
		return nil
	})
	return had, err
}

// Incr adds by, an int or a float, to a number and gives the sum. An absent
// key counts as 0. Two ints give an int; a sum beyond int64 is an error.
func (b *Board) Incr(ctx context.Context, writer, key string, by any) (any, error) {
	f, err := b.freeze(key, by)
	if err != nil {
		return nil, err
	}
	var sum any
	err = b.mutate(ctx, writer, "incr", Default, []string{key}, func(w *view) error {
		if err := w.b.damageOf(key); err != nil {
			return err
		}
		s := w.state(key)
		have := s.value
		if !s.present {
			have = int64(0)
		}
		if sum, err = add(have, f); err != nil {
			return fmt.Errorf("blackboard: incr %s: %w", key, err)
		}
		w.putTTL(key, sum, s.ttl)
		return nil
	})
	return sum, err
}

func add(x, y any) (any, error) {
	i, ok1 := x.(int64)
	j, ok2 := y.(int64)
	if ok1 && ok2 {
		if s := i + j; (s > i) == (j > 0) {
			return s, nil
		}
		return nil, fmt.Errorf("%w: %d + %d is too large", ErrNumber, i, j)
	}
	f, ok1 := float(x)
	g, ok2 := float(y)
	if !ok1 || !ok2 {
		return nil, fmt.Errorf("%w: %T + %T", ErrNumber, x, y)
	}
	if s := f + g; !math.IsInf(s, 0) {
		return s, nil
	}
	return nil, fmt.Errorf("%w: %v + %v is too large", ErrNumber, f, g)
}

func float(x any) (float64, bool) {
	switch n := x.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

// Compare says what CAS expects: a version if given (0 = the key is absent),
// else a value.
type Compare struct {
	Old     any
	Version *uint64
}

// CAS stores v if the key is as expected, and reports whether it was.
func (b *Board) CAS(ctx context.Context, writer, key string, c Compare, v any) (bool, error) {
	v, err := b.freeze(key, v)
	if err != nil {
		return false, err
	}
	old, err := b.freeze(key, c.Old)
	if err != nil {
		return false, err
	}
	done := false
	err = b.mutate(ctx, writer, "cas", Default, []string{key}, func(w *view) error {
		if err := w.b.damageOf(key); err != nil {
			return err
		}
		s := w.state(key)
		switch {
		case c.Version != nil && *c.Version == 0:
			done = !s.present
		case c.Version != nil:
			done = s.present && s.version == *c.Version
		default:
			done = s.present && same(s.value, old) || !s.present && old == nil
		}
		if done {
			w.put(key, v, 0)
		}
		return nil
	})
	return done && err == nil, err
}
