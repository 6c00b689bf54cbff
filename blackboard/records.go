package blackboard

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"sort"
	"strings"
)

// Records are small named records that belong to one part of the runtime and
// are no keys of the board: retained messages, a latch, checkpoints.
type Records struct {
	b    *Board
	ns   string
	recs map[string][]byte // guarded by Board.mu
}

func (l *logs) room(ns string) *Records {
	r := l.rooms[ns]
	if r == nil {
		r = &Records{b: l.b, ns: ns, recs: map[string][]byte{}}
		l.rooms[ns] = r
	}
	return r
}

// Records opens a room of named records with what it held before.
func (b *Board) Records(ns string) *Records {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.logs.room(ns)
}

// Put stores a record under a name; with sync it is on disk when Put returns.
func (r *Records) Put(ctx context.Context, name string, v []byte, sync bool) error {
	return r.write(ctx, name, append([]byte{}, v...), sync)
}

// Delete removes a record; it is gone from the disk within the board's window.
func (r *Records) Delete(ctx context.Context, name string) error {
	return r.write(ctx, name, nil, false)
}

func (r *Records) write(ctx context.Context, name string, v []byte, sync bool) error {
	if err := checkKey("record in "+r.ns, name); err != nil {
		return err
	}
	b := r.b
	p := put{bucket: recordPrefix + r.ns, key: name}
	if v != nil {
		p.value = sealBytesRecord([]byte(name), v)
	}
	keep := func() {
		b.mended(p.bucket, name)
		if v == nil {
			delete(r.recs, name)
		} else {
			r.recs[name] = v
		}
	}
	b.mu.Lock()
	have, ok := r.recs[name]
	idle := ok == (v != nil) && bytes.Equal(have, v) && !sync && b.damaged[record{p.bucket, name}] == nil
	var err error
	if !sync || b.store == nil {
		switch {
		case b.closed:
			err = fmt.Errorf("blackboard: record %s/%s: %w", r.ns, name, ErrClosed)
		case idle:
		default:
			if err = b.commits.refuse("record in "+r.ns, name); err == nil {
				keep()
				b.later(p)
			}
		}
		b.mu.Unlock()
		return err
	}
	b.mu.Unlock()
	return b.commitOp(ctx, &op{
		name:    "record " + r.ns + "/" + name,
		prepare: func(t *batch) error { t.add(p); return nil },
		finish: func(err error) {
			if err == nil {
				keep()
			}
		},
	}, nil)
}

// Get gives a record, which must not be changed.
func (r *Records) Get(name string) ([]byte, bool) {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	v, ok := r.recs[name]
	return v, ok
}

// All ranges over the records in the order of their names, as of the call.
func (r *Records) All() iter.Seq2[string, []byte] {
	type record struct {
		name string
		v    []byte
	}
	r.b.mu.Lock()
	recs := make([]record, 0, len(r.recs))
	for name, v := range r.recs {
		recs = append(recs, record{name, v})
	}
	r.b.mu.Unlock()
	return func(yield func(string, []byte) bool) {
		sort.Slice(recs, func(i, j int) bool { return recs[i].name < recs[j].name })
		for _, one := range recs {
			if !yield(one.name, one.v) {
				return
			}
		}
	}
}

func (l *logs) loadRecord(ns string, k, v []byte) error {
	body, err := unseal(k, v, formatBytes)
	if err != nil {
		return err
	}
	l.room(ns).recs[strings.Clone(string(k))] = append([]byte{}, body...)
	return nil
}
