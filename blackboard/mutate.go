package blackboard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"edged/bus/origin"
)

// Every change but the plain Set goes through mutate: a function that looks at
// keys and says what they become, run while nobody else changes anything.

// view is what such a function sees and writes.
type view struct {
	b       *Board
	ctx     context.Context
	writer  string
	mode    Mode
	at      int64
	overlay map[*entry]state // results of earlier ops of the same commit
	writes  []write
}

type write struct {
	e      *entry
	s      state
	repeat bool // the key has this value already
}

// entry gives a key's entry; mutate has made one for each key it was told.
func (v *view) entry(key string) *entry { return v.b.entries[key] }

func (v *view) state(key string) state {
	e := v.entry(key)
	if s, ok := v.overlay[e]; ok {
		return s
	}
	return e.state
}

func (v *view) put(key string, val any, ttl time.Duration) (version uint64) {
	e := v.entry(key)
	was := v.state(key)
	s := e.next(v.b, val, ttl, e.mode(v.mode), v.writer, origin.From(v.ctx), v.at)
	s.version = was.version + 1
	repeat := s.repeats(&was)
	v.writes = append(v.writes, write{e, s, repeat})
	if repeat {
		return was.version
	}
	return s.version
}

// putTTL keeps what is left of a key's life.
func (v *view) putTTL(key string, val any, ttl time.Duration) {
	e := v.entry(key)
	if _, ours := v.overlay[e]; ttl > 0 && !ours && e.expiry != nil {
		ttl = max(e.expiry.Left(), 1) // whatever the wall clock says
	}
	v.put(key, val, ttl)
}

func (v *view) delete(key string) bool {
	e := v.entry(key)
	was := v.state(key)
	if !was.present {
		return false
	}
	v.writes = append(v.writes, write{e: e, s: state{version: was.version + 1, at: v.at, writer: v.writer, origin: by(origin.From(v.ctx), v.writer), keep: was.keep}})
	return true
}

// opExpire is never refused: what is over is over, whatever the disk does.
const opExpire = "expire"

// mutate runs eval for the named keys. If one of them is a Sync key, what it
// writes is on disk before anybody sees it and before mutate returns.
// eval may run more than once and must not call out.
func (b *Board) mutate(ctx context.Context, writer, op string, mode Mode, keys []string, eval func(*view) error) error {
	if len(keys) == 0 {
		return nil
	}
	if err := b.stormy(ctx, writer, op, keys[0]); err != nil {
		return err
	}
	b.mu.Lock()
	for {
		if b.closed {
			b.mu.Unlock()
			return fmt.Errorf("blackboard: %s %s: %w", op, keys[0], ErrClosed)
		}
		durable, flight, err := b.prepare(op, mode, keys)
		if err == nil && flight == nil {
			if durable == Group && b.commits.trouble != nil && op != opExpire {
				if op == "delete" && b.commits.trouble.Kind == ErrFull {
					durable = Sync // it may make the room that is missing
				} else {
					err = b.commits.refuse(op, keys[0])
				}
			}
			if err == nil && durable == Sync {
				b.mu.Unlock()
				return b.mutateSync(ctx, writer, op, mode, keys, eval)
			}
		}
		switch {
		case err != nil:
			b.sweepAll(keys)
			b.mu.Unlock()
			return err
		case flight != nil: // the key is in a running commit: its outcome comes first
			b.mu.Unlock()
			<-flight.applied
			b.mu.Lock()
			continue
		}
		v := &view{b: b, ctx: ctx, writer: writer, mode: mode, at: b.bus.Now()}
		if err := eval(v); err != nil {
			b.sweepAll(keys)
			b.mu.Unlock()
			return err
		}
		hs := b.applyAll(v, false)
		b.sweepAll(keys)
		b.mu.Unlock()
		for _, h := range hs {
			h.run(ctx)
		}
		b.bus.Deliver()
		return nil
	}
}

// prepare makes sure that every key has an entry and tells the strongest mode
// among them and whether one is in a running commit; the caller holds mu.
func (b *Board) prepare(op string, mode Mode, keys []string) (strongest Mode, flight *batch, err error) {
	strongest = Memory
	for _, k := range keys {
		e := b.entries[k]
		if e == nil {
			if e, err = b.create(op, k); err != nil {
				return strongest, nil, err
			}
		}
		if e.flight != nil {
			flight = e.flight
		}
		if b.store != nil {
			strongest = max(strongest, e.mode(mode))
		}
	}
	return strongest, flight, nil
}

func (b *Board) sweepAll(keys []string) {
	for _, k := range keys {
		if e := b.entries[k]; e != nil {
			b.sweep(e)
		}
	}
}

// applyAll makes the view's writes current; the caller holds mu.
func (b *Board) applyAll(v *view, stored bool) (hs []*heard) {
	for _, w := range v.writes {
		if h := b.apply(v.ctx, w.e, w.s, stored); h != nil {
			hs = append(hs, h)
		}
	}
	return hs
}

// mutateSync puts the change into the next commit and waits for it.
func (b *Board) mutateSync(ctx context.Context, writer, name string, mode Mode, keys []string, eval func(*view) error) error {
	var v *view
	var hs []*heard
	o := &op{name: name + " " + keys[0]}
	o.prepare = func(t *batch) error {
		if _, _, err := b.prepare(name, mode, keys); err != nil {
			return err
		}
		v = &view{b: b, ctx: ctx, writer: writer, mode: mode, at: b.bus.Now(), overlay: t.overlay}
		if err := eval(v); err != nil {
			return err
		}
		for _, w := range v.writes {
			t.stage(w)
		}
		return nil
	}
	o.finish = func(err error) {
		if err == nil {
			hs = b.applyAll(v, true)
		}
		b.sweepAll(keys)
	}
	return b.commitOp(ctx, o, func() {
		for _, h := range hs {
			h.run(ctx)
		}
	})
}

// Tx is what the function given to [Board.Transact] sees: the board as of its
// first look at each key, with its own writes on top.
type Tx struct {
	b      *Board
	reads  map[string]uint64 // version seen, 0 = absent
	writes map[string]txWrite
	order  []string
	whose  origin.Label // of the words that were read
	err    error        // a key that was read is damaged
}

type txWrite struct {
	value   any
	o       SetOptions
	deleted bool
}

// errAgain makes Transact begin again.
var errAgain = errors.New("blackboard: conflict")

const maxTries = 100

// Transact runs fn on a transactional view and commits what it wrote as one
// step, if nobody changed meanwhile what it read; otherwise fn runs again, a
// hundred times at most, then the error wraps ErrConflict. fn must have no
// effect but on the view. If fn returns an error nothing is changed. Mode is
// the strongest of the keys written.
func (b *Board) Transact(ctx context.Context, writer string, fn func(*Tx) error) error {
	for range maxTries {
		t := &Tx{b: b, reads: map[string]uint64{}, writes: map[string]txWrite{}}
		err := fn(t)
		if err == nil {
			err = t.err
		}
		if err != nil {
			return err
		}
		err = t.commit(ctx, writer)
		if err == nil || !errors.Is(err, errAgain) {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return fmt.Errorf("blackboard: transact: %w", ErrConflict)
}

func (t *Tx) commit(ctx context.Context, writer string) error {
	var keys []string
	mode := Default
	for _, k := range t.order {
		keys = append(keys, k)
		mode = max(mode, t.writes[k].o.Mode)
	}
	if len(keys) == 0 {
		return nil
	}
	for k := range t.reads {
		if _, ok := t.writes[k]; !ok {
			keys = append(keys, k)
		}
	}
	wrote := keys[:len(t.order)]
	if t.whose != "" {
		whose := origin.From(ctx)
		if whose == "" {
			whose = origin.Of(writer)
		}
		ctx = origin.With(ctx, whose.Join(t.whose))
	}
	return t.b.mutate(ctx, writer, "transact", mode, keys, func(v *view) error {
		for k, version := range t.reads {
			if s := v.state(k); s.present && s.version != version || !s.present && version != 0 {
				return errAgain
			}
		}
		for _, k := range wrote {
			if w := t.writes[k]; w.deleted {
				v.delete(k)
			} else {
				v.put(k, w.value, w.o.TTL)
			}
		}
		return nil
	})
}

// Get gives a key's value as the transaction sees it. If what is stored is
// damaged, the transaction fails.
func (t *Tx) Get(key string) (any, bool) {
	if w, ok := t.writes[key]; ok {
		return w.value, !w.deleted
	}
	e, ok := t.b.Entry(key)
	if _, seen := t.reads[key]; !seen {
		t.reads[key] = e.Version
		if ok && !origin.Wordless(e.Value) {
			if t.whose == "" {
				t.whose = e.Origin
			}
			t.whose = t.whose.Join(e.Origin)
		}
	}
	if !ok && t.err == nil {
		t.err = t.b.Damaged(key)
	}
	return e.Value, ok
}

// Err gives the error of a damaged key that was read.
func (t *Tx) Err() error { return t.err }

// Origin is whose words the transaction has read.
func (t *Tx) Origin() origin.Label { return t.whose }

// Set stores a value when the transaction commits.
func (t *Tx) Set(key string, v any, o SetOptions) error {
	if err := checkKey("transact", key); err != nil {
		return err
	}
	v, err := t.b.freeze(key, v)
	if err != nil {
		return err
	}
	t.write(key, txWrite{value: v, o: o})
	return nil
}

// Delete removes a key when the transaction commits.
func (t *Tx) Delete(key string) { t.write(key, txWrite{deleted: true}) }

func (t *Tx) write(key string, w txWrite) {
	if _, ok := t.writes[key]; !ok {
		t.order = append(t.order, key)
	}
	t.writes[key] = w
}
