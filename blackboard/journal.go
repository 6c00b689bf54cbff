package blackboard

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
)

// ErrLimit says that a journal holds as much as it may.
var ErrLimit = errors.New("journal is full")

// JournalOptions of one journal.
type JournalOptions struct {
	Limit int   // records; 10,000
	Bytes int64 // of all records together; 16 MiB
	Mode  Mode  // Sync: Append returns when the record is on disk (default); Group: at once
}

// A Journal is a durable log: records in the order in which they were
// appended, until they are removed. An outbox is one.
type Journal struct {
	b    *Board
	name string

	// guarded by Board.mu
	o     JournalOptions
	last  uint64
	recs  map[uint64][]byte
	order []uint64 // ids, some of them removed
	bytes int64
	full  uint64
}

// logs are the journals and record rooms. Guarded by Board.mu.
type logs struct {
	b        *Board
	journals map[string]*Journal
	rooms    map[string]*Records
}

func (l *logs) init(b *Board) {
	l.b, l.journals, l.rooms = b, map[string]*Journal{}, map[string]*Records{}
}

func (l *logs) journal(name string) *Journal {
	j := l.journals[name]
	if j == nil {
		j = &Journal{b: l.b, name: name, recs: map[uint64][]byte{}, o: JournalOptions{Limit: 10000, Bytes: 16 << 20, Mode: Sync}}
		l.journals[name] = j
	}
	return j
}

// Journal opens the journal of a name with what it held before. Calling it
// again gives the same one with the new options.
func (b *Board) Journal(name string, o JournalOptions) (*Journal, error) {
	if err := checkKey("journal", name); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	j := b.logs.journal(name)
	if o.Limit > 0 {
		j.o.Limit = o.Limit
	}
	if o.Bytes > 0 {
		j.o.Bytes = o.Bytes
	}
	if o.Mode != Default {
		j.o.Mode = o.Mode
	}
	return j, nil
}

// Append adds a record and gives its id. When it returns the record is on disk
// (unless the journal is of mode Group); callers that append at the same time
// share one commit.
func (j *Journal) Append(rec []byte) (id uint64, err error) {
	ids, err := j.AppendAll(rec)
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// AppendAll adds records in order with one commit: all or none.
func (j *Journal) AppendAll(recs ...[]byte) (ids []uint64, err error) {
	b := j.b
	own := make([][]byte, len(recs))
	for i, r := range recs {
		own[i] = bytes.Clone(r)
	}
	number := func() error {
		if err := j.room(own); err != nil {
			return err
		}
		for range own {
			j.last++
			ids = append(ids, j.last)
		}
		return nil
	}
	keep := func() {
		for i, id := range ids {
			j.keep(id, own[i])
		}
	}
	b.mu.Lock()
	closed, durable := b.closed, b.store != nil && j.o.Mode == Sync
	if !closed && !durable {
		err = b.commits.refuse("append to journal", j.name)
		if err == nil {
			err = number()
		}
		if err == nil {
			keep()
			for i, id := range ids {
				b.later(j.put(id, own[i]))
			}
		}
	}
	b.mu.Unlock()
	switch {
	case closed:
		return nil, fmt.Errorf("blackboard: journal %s: %w", j.name, ErrClosed)
	case !durable:
		return ids, err
	}
	err = b.commitOp(context.Background(), &op{
		name: "append to journal " + j.name,
		prepare: func(t *batch) error {
			if err := number(); err != nil {
				return err
			}
			for i, id := range ids {
				t.add(j.put(id, own[i]))
			}
			return nil
		},
		finish: func(err error) {
			if err == nil {
				keep()
			}
		},
	}, nil)
	return ids, err
}

// room refuses what goes beyond the limits; the caller holds mu.
func (j *Journal) room(recs [][]byte) error {
	n := int64(0)
	for _, r := range recs {
		n += int64(len(r))
	}
	if len(j.recs)+len(recs) > j.o.Limit || j.bytes+n > j.o.Bytes {
		j.full++
		return fmt.Errorf("blackboard: journal %s: %w: %d records, %d bytes", j.name, ErrLimit, len(j.recs), j.bytes)
	}
	return nil
}

func (j *Journal) keep(id uint64, rec []byte) {
	j.recs[id] = rec
	j.order = append(j.order, id)
	j.bytes += int64(len(rec))
	j.last = max(j.last, id)
}

// Remove takes records out; ids that are not there are ignored. It does not
// wait for the disk: after a crash a removed record may be there again.
func (j *Journal) Remove(ids ...uint64) error {
	b := j.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return fmt.Errorf("blackboard: journal %s: %w", j.name, ErrClosed)
	}
	for _, id := range ids {
		rec, ok := j.recs[id]
		if !ok {
			continue
		}
		delete(j.recs, id)
		j.bytes -= int64(len(rec))
		b.later(put{bucket: journalPrefix + j.name, key: journalKey(id)})
	}
	if len(j.order) > 64 && len(j.order) > 2*len(j.recs) {
		j.order = slices.DeleteFunc(j.order, func(id uint64) bool { _, ok := j.recs[id]; return !ok })
	}
	return nil
}

// All ranges over the records, oldest first, as of the call. They must not be
// changed.
func (j *Journal) All() iter.Seq2[uint64, []byte] {
	j.b.mu.Lock()
	order, recs := slices.Clone(j.order), maps.Clone(j.recs)
	j.b.mu.Unlock()
	return func(yield func(uint64, []byte) bool) {
		for _, id := range order {
			if rec, ok := recs[id]; ok && !yield(id, rec) {
				return
			}
		}
	}
}

// Len is the number of records.
func (j *Journal) Len() int {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	return len(j.recs)
}

// Bytes is the size of all records together.
func (j *Journal) Bytes() int64 {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	return j.bytes
}

func journalKey(id uint64) string { return string(binary.BigEndian.AppendUint64(nil, id)) }

func (j *Journal) put(id uint64, rec []byte) put {
	k := journalKey(id)
	return put{journalPrefix + j.name, k, sealBytesRecord([]byte(k), rec)}
}

func (l *logs) loadJournal(name string, k, v []byte) error {
	body, err := unseal(k, v, formatBytes)
	if err != nil {
		return err
	}
	if len(k) != 8 {
		return fmt.Errorf("%w: journal key of %d bytes", errRecord, len(k))
	}
	l.journal(name).keep(binary.BigEndian.Uint64(k), bytes.Clone(body))
	return nil
}

func (l *logs) everything(puts []put) []put {
	for _, j := range l.journals {
		for id, rec := range j.recs {
			puts = append(puts, j.put(id, rec))
		}
	}
	for ns, r := range l.rooms {
		for name, v := range r.recs {
			puts = append(puts, put{recordPrefix + ns, name, sealBytesRecord([]byte(name), v)})
		}
	}
	return puts
}

// merge takes over what a late reading of the file found.
func (l *logs) merge(from *logs) {
	for name, f := range from.journals {
		j := l.journal(name)
		for _, id := range f.order {
			if _, ok := j.recs[id]; !ok {
				j.keep(id, f.recs[id])
			}
		}
		slices.Sort(j.order)
	}
	for ns, f := range from.rooms {
		r := l.room(ns)
		for name, v := range f.recs {
			if _, ok := r.recs[name]; !ok {
				r.recs[name] = v
			}
		}
	}
}
