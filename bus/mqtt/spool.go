package mqtt

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"os"
	"slices"
	"sort"
	"sync"
	"time"
)

// Spool makes an outbox quick: a small file in front of one that waits for the
// disk, the blackboard's Journal.
//
// A record is written to the file, which survives the process, and moved to the
// outbox behind, which survives a power cut, when it is [SpoolTime] old. What
// the broker acknowledges sooner never gets there: while the broker answers,
// nothing is synced and nothing wears out.
type Spool struct {
	back Outbox
	path string

	mu      sync.Mutex // guards what follows
	f       *os.File
	size    int64
	last    uint64
	fresh   []spooled         // in the file only, oldest first; some are removed
	left    map[uint64]int    // id → size of those in fresh that are not removed
	moved   map[uint64]behind // those in the outbox behind
	moving  map[uint64]bool   // being moved; true: removed meanwhile
	bytes   int64
	rewrite int64 // the file is written anew above this size

	wake chan struct{} // one token: there is something to move
}

// behind is where a record is in the outbox behind, and its size.
type behind struct {
	id   uint64
	size int
}

var _ Outbox = (*Spool)(nil)

// SpoolTime is how long a record may be in the file only.
const SpoolTime = 100 * time.Millisecond

type spooled struct {
	id  uint64
	rec []byte
	at  time.Time
}

const (
	spoolLimit = 4 << 20
	spoolFrame = 16 // length, checksum, id
	spoolGone  = 1<<32 - 1
)

// OpenSpool opens the file and takes over what it and the outbox behind hold.
// The outbox behind must hold nothing but what a Spool put there.
func OpenSpool(path string, back Outbox) (*Spool, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("mqtt: spool: %w", err)
	}
	s := &Spool{back: back, path: path, f: f, left: map[uint64]int{}, moved: map[uint64]behind{},
		moving: map[uint64]bool{}, rewrite: spoolLimit, wake: make(chan struct{}, 1)}
	for id, rec := range back.All() {
		if len(rec) < 8 {
			continue
		}
		own := binary.BigEndian.Uint64(rec)
		s.moved[own] = behind{id, len(rec) - 8}
		s.bytes += int64(len(rec) - 8)
		s.last = max(s.last, own)
	}
	if err := s.load(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}

// load reads the file up to the first frame that isn't whole.
func (s *Spool) load() error {
	all, err := io.ReadAll(s.f)
	if err != nil {
		return fmt.Errorf("mqtt: spool: %w", err)
	}
	var gone []uint64
	for b := all; len(b) >= spoolFrame; {
		n := binary.BigEndian.Uint32(b)
		size := spoolFrame
		if n != spoolGone {
			if uint64(n) > uint64(len(b)-spoolFrame) {
				break
			}
			size += int(n)
		}
		if crc32.ChecksumIEEE(b[8:size]) != binary.BigEndian.Uint32(b[4:]) {
			break
		}
		id := binary.BigEndian.Uint64(b[8:])
		s.last = max(s.last, id)
		if n == spoolGone {
			gone = append(gone, id)
		} else if _, ok := s.moved[id]; !ok {
			s.add(id, slices.Clone(b[spoolFrame:size]), time.Time{})
		}
		b = b[size:]
		s.size += int64(size)
	}
	for _, id := range gone {
		s.drop(id)
	}
	if err := s.f.Truncate(s.size); err != nil {
		return fmt.Errorf("mqtt: spool: %w", err)
	}
	return nil
}

func (s *Spool) add(id uint64, rec []byte, at time.Time) {
	s.fresh = append(s.fresh, spooled{id, rec, at})
	s.left[id] = len(rec)
	s.bytes += int64(len(rec))
	token(s.wake)
}

// drop forgets a record that is in the file only.
func (s *Spool) drop(id uint64) {
	s.bytes -= int64(s.left[id])
	delete(s.left, id)
}

func appendFrame(b []byte, id uint64, rec []byte, gone bool) []byte {
	n := uint32(len(rec))
	if gone {
		n = spoolGone
	}
	at := len(b)
	b = binary.BigEndian.AppendUint32(b, n)
	b = append(b, 0, 0, 0, 0)
	b = append(binary.BigEndian.AppendUint64(b, id), rec...)
	binary.BigEndian.PutUint32(b[at+4:], crc32.ChecksumIEEE(b[at+8:]))
	return b
}

// write appends to the file; half a write is taken back.
func (s *Spool) write(b []byte) error {
	if _, err := s.f.WriteAt(b, s.size); err != nil {
		return errors.Join(err, s.f.Truncate(s.size))
	}
	s.size += int64(len(b))
	return nil
}

// Append writes a record to the file.
func (s *Spool) Append(rec []byte) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.write(appendFrame(make([]byte, 0, spoolFrame+len(rec)), s.last+1, rec, false)); err != nil {
		return 0, fmt.Errorf("mqtt: spool: %w", err)
	}
	s.last++
	s.add(s.last, slices.Clone(rec), time.Now())
	return s.last, nil
}

// Remove forgets records, wherever they are.
func (s *Spool) Remove(ids ...uint64) error {
	s.mu.Lock()
	var old []uint64
	var marks []byte
	for _, id := range ids {
		if _, ok := s.moving[id]; ok {
			s.moving[id] = true
		} else if _, ok := s.left[id]; ok {
			s.drop(id)
			marks = appendFrame(marks, id, nil, true)
		} else if b, ok := s.moved[id]; ok {
			old = append(old, b.id)
			s.bytes -= int64(b.size)
			delete(s.moved, id)
		}
	}
	err := s.tidy(marks)
	s.mu.Unlock()
	if len(old) > 0 {
		err = errors.Join(err, s.back.Remove(old...))
	}
	return err
}

// tidy empties the file when it holds nothing, writes it anew when it has
// grown too long, or appends marks; the caller holds mu.
func (s *Spool) tidy(marks []byte) error {
	switch {
	case len(s.left) == 0 && len(s.moving) == 0:
		s.fresh, s.size = s.fresh[:0], 0
		return s.f.Truncate(0)
	case s.size > s.rewrite:
		return s.renew()
	case len(marks) > 0:
		return s.write(marks)
	}
	return nil
}

// renew writes the file anew without what was removed or moved.
func (s *Spool) renew() error {
	s.fresh = slices.DeleteFunc(s.fresh, func(x spooled) bool { _, ok := s.left[x.id]; return !ok })
	var b []byte
	for _, x := range s.fresh {
		b = appendFrame(b, x.id, x.rec, false)
	}
	f, err := os.OpenFile(s.path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("mqtt: spool: %w", err)
	}
	if _, err := f.Write(b); err != nil {
		return fmt.Errorf("mqtt: spool: %w", errors.Join(err, f.Close()))
	}
	if err := os.Rename(s.path+".new", s.path); err != nil {
		return fmt.Errorf("mqtt: spool: %w", errors.Join(err, f.Close()))
	}
	old := s.f
	s.f, s.size, s.rewrite = f, int64(len(b)), max(spoolLimit, 2*int64(len(b)))
	return old.Close()
}

// Settle moves what is old enough to the outbox behind, with one commit if that
// can (AppendAll). Only one call at a time.
func (s *Spool) Settle(now time.Time) error {
	s.mu.Lock()
	var ids []uint64
	var recs [][]byte
	rest := s.fresh[:0]
	for _, x := range s.fresh {
		if _, ok := s.left[x.id]; !ok {
			continue
		}
		if now.Sub(x.at) >= SpoolTime && len(ids) < 1024 {
			ids = append(ids, x.id)
			recs = append(recs, append(binary.BigEndian.AppendUint64(nil, x.id), x.rec...))
			s.moving[x.id] = false
		}
		rest = append(rest, x)
	}
	clear(s.fresh[len(rest):])
	s.fresh = rest
	s.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	kept, err := appendAll(s.back, recs)
	s.mu.Lock()
	var gone []uint64
	var marks []byte
	for i, id := range ids {
		removed := s.moving[id]
		delete(s.moving, id)
		stored := i < len(kept)
		if stored || removed {
			n := s.left[id]
			delete(s.left, id)
			marks = appendFrame(marks, id, nil, true)
			if removed {
				s.bytes -= int64(n)
			} else {
				s.moved[id] = behind{kept[i], n}
			}
		}
		if stored && removed {
			gone = append(gone, kept[i])
		}
	}
	err = errors.Join(err, s.tidy(marks))
	s.mu.Unlock()
	if len(gone) > 0 {
		err = errors.Join(err, s.back.Remove(gone...))
	}
	return err
}

// appendAll stores records, all with one commit or one after the other, and
// gives the ids of those that were stored.
func appendAll(o Outbox, recs [][]byte) (ids []uint64, err error) {
	if a, ok := o.(interface {
		AppendAll(recs ...[]byte) ([]uint64, error)
	}); ok {
		if ids, err = a.AppendAll(recs...); err != nil {
			return nil, err
		}
		return ids, nil
	}
	for _, r := range recs {
		id, err := o.Append(r)
		if err != nil {
			return ids, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// run settles until ctx ends, and once more then. It sleeps while there is
// nothing to move.
func (s *Spool) run(ctx context.Context, report func(error)) {
	for ctx.Err() == nil {
		select {
		case <-s.wake:
			wait(ctx, SpoolTime)
		case <-ctx.Done():
		}
		now := time.Now()
		if ctx.Err() != nil {
			now = now.Add(SpoolTime)
		}
		if err := s.Settle(now); err != nil {
			report(fmt.Errorf("mqtt: outbox: %w", err))
			wait(ctx, time.Second)
		}
		s.mu.Lock()
		if len(s.left) > 0 {
			token(s.wake)
		}
		s.mu.Unlock()
	}
}

// All ranges over the records, oldest first, as of the call.
func (s *Spool) All() iter.Seq2[uint64, []byte] {
	return func(yield func(uint64, []byte) bool) {
		type one struct {
			id  uint64
			rec []byte
		}
		var all []one
		for _, rec := range s.back.All() {
			if len(rec) >= 8 {
				all = append(all, one{binary.BigEndian.Uint64(rec), rec[8:]})
			}
		}
		s.mu.Lock()
		for _, x := range s.fresh {
			if _, ok := s.left[x.id]; ok {
				all = append(all, one{x.id, x.rec})
			}
		}
		s.mu.Unlock()
		sort.Slice(all, func(i, j int) bool { return int64(all[i].id-all[j].id) < 0 })
		for _, x := range all {
			if !yield(x.id, x.rec) {
				return
			}
		}
	}
}

// Len is the number of records.
func (s *Spool) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.left) + len(s.moved)
}

// Bytes is the size of the records.
func (s *Spool) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// Close closes the file. The outbox behind stays open.
func (s *Spool) Close() error { return s.f.Close() }
