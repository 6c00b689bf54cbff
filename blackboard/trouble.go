package blackboard

import (
	"errors"
	"slices"
	"time"
)

// Writing a commit to the file, and what happens when the disk is in trouble.

// writeOut brings a commit to the file; the caller holds running, not mu.
func (b *Board) writeOut(t *batch) error {
	s := b.store
	puts := t.encode()
	trouble := b.troubled()
	if s.db == nil {
		if b.done {
			return ErrClosed
		}
		if trouble != nil && time.Since(b.commits.tried) < firstPause/2 {
			return trouble
		}
		if err := b.reopen(puts); err != nil {
			b.commits.tried = time.Now()
			return b.setTrouble(err)
		}
		return b.clearTrouble()
	}
	if trouble != nil && len(puts) == 0 { // shows whether there is room again
		puts = append(puts, put{bucketProbe, "probe", sealBytesRecord([]byte("probe"), make([]byte, pageSize))})
	}
	n, err := s.commit(puts, false)
	if errors.Is(err, ErrFull) && len(puts) > 1 && !slices.ContainsFunc(puts, func(p put) bool { return p.value != nil }) {
		n, err = s.remove(puts)
	}
	var e *StoreError
	switch {
	case err == nil:
		b.committed(n, len(puts))
		return b.clearTrouble()
	case errors.As(err, &e) && e.Kind == ErrFull:
		b.count.failed.Add(1)
		return b.setTrouble(e)
	}
	// A handle that was used after a failed sync can ruin the file: this one
	// is closed before anything else.
	b.doubt(puts)
	b.count.failed.Add(1)
	b.opt.Log.Error("blackboard commit failed", "path", s.path, "err", err)
	_ = s.close()
	if err2 := b.reopen(puts); err2 != nil {
		b.commits.tried = time.Now()
		err2.Err = errors.Join(err, err2.Err)
		return b.setTrouble(err2)
	}
	b.tell("recovered", map[string]any{"path": s.path, "error": err.Error()})
	return b.clearTrouble()
}

func (b *Board) committed(bytes int64, records int) {
	b.count.commits.Add(1)
	b.count.bytes.Add(uint64(bytes))
	b.count.records.Add(uint64(records))
	b.mu.Lock()
	b.commits.doubt = nil
	b.mu.Unlock()
	b.scheduleSnapshot(false)
}

// doubt notes records of a commit that failed: its meta page may be on disk.
func (b *Board) doubt(puts []put) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := &b.commits
	if c.doubt == nil {
		c.doubt = map[record]struct{}{}
	}
	for _, p := range puts {
		c.doubt[record{p.bucket, p.key}] = struct{}{}
	}
}

// settle lists the records in doubt as memory has them; the caller holds mu.
func (b *Board) settle() (puts []put) {
	doubt := b.commits.doubt
	if len(doubt) == 0 {
		return nil
	}
	have := map[record][]byte{}
	for _, p := range b.everything() {
		have[record{p.bucket, p.key}] = p.value
	}
	for r := range doubt {
		puts = append(puts, put{r.bucket, r.key, have[r]})
	}
	return puts
}

// reopen opens the file again and commits puts. If it is not the file as the
// last commit left it, everything in memory is written to it.
func (b *Board) reopen(puts []put) *StoreError {
	s := b.store
	last := s.txid
	v := visitor{begin: func() {}, visit: func(string, []byte, []byte) error { return nil }}
	var late *Board
	if b.commits.unread { // it could not be read when the board was opened
		late = &Board{opt: b.opt, store: s}
		v = late.loader()
	}
	o, err := s.open(v, false)
	switch {
	case !errors.Is(err, ErrCorrupt):
	case late != nil: // memory knows nothing of what the file held
		o, err = b.quarantine(v, o, err)
	default:
		var aside string
		if aside, err = s.setAside(o); err == nil {
			b.count.corrupt.Add(1)
			b.ruin(aside, "damaged while in use; written anew from memory")
			b.tell("corrupt", map[string]any{"path": s.path, "moved_to": aside, "error": "damaged while in use; written anew from memory"})
			o, err = s.open(v, true)
		}
	}
	if err != nil {
		return s.classify(err)
	}
	anew := o.fresh || o.txid < last
	if late != nil && !o.fresh {
		b.merge(late)
		anew = false
	}
	if anew {
		b.mu.Lock()
		puts = append(b.everything(), puts...)
		b.mu.Unlock()
	}
	n, err := s.commit(puts, anew)
	if err != nil {
		e := s.classify(err)
		if e.Kind != ErrFull {
			b.doubt(puts)
		}
		if e.Kind != ErrFull || anew {
			_ = s.close()
			s.txid = last // whoever tries next must find out the same
		}
		return e
	}
	b.commits.unread = false
	b.committed(n, len(puts))
	return nil
}

// merge takes over what a late reading of the file found and memory lacks.
func (b *Board) merge(from *Board) {
	b.mu.Lock()
	for k, e := range from.entries {
		if _, ok := b.entries[k]; !ok {
			e.rule = b.rule(k)
			b.entries[k] = e
			b.resume(e)
		}
	}
	b.logs.merge(&from.logs)
	b.reqs.found = from.reqs.found
	b.reqs.adopt(b)
	for r, d := range from.damaged {
		if e := b.entries[r.key]; r.bucket == bucketValues && e != nil && e.present {
			continue // written anew meanwhile
		}
		b.damaged[r] = d
	}
	b.found = from.found
	b.count.checksum.Add(from.count.checksum.Load())
	b.mu.Unlock()
	b.reportDamage()
}

// everything lists all that belongs on disk; the caller holds mu.
func (b *Board) everything() []put {
	var puts []put
	for k, e := range b.entries {
		if e.present && e.keep {
			puts = append(puts, put{bucketValues, k, e.encode([]byte(k))})
		}
		for i := range e.history {
			if !e.history[i].keep {
				continue
			}
			h := historyKey(k, e.history[i].version)
			puts = append(puts, put{bucketHistory, h, e.history[i].encode([]byte(h))})
		}
	}
	puts = b.marks(b.reqs.everything(puts))
	return b.logs.everything(puts)
}

func (b *Board) troubled() *StoreError {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.commits.trouble
}

// setTrouble notes that nothing can be written, says so once, and tries again
// later by itself.
func (b *Board) setTrouble(e *StoreError) *StoreError {
	b.mu.Lock()
	c := &b.commits
	news := c.trouble == nil || c.trouble.Kind != e.Kind
	c.trouble = e
	if c.pause = min(2*c.pause, maxPause); c.pause == 0 {
		c.pause = firstPause
	}
	if !b.closed {
		if c.retry == nil {
			c.retry = time.AfterFunc(c.pause, func() { _ = b.lead(nil) })
		} else {
			c.retry.Reset(c.pause)
		}
	}
	b.mu.Unlock()
	if news {
		b.opt.Log.Error("blackboard can't write", "path", e.Path, "err", e)
		what := "readonly"
		if e.Kind == ErrFull {
			what = "full"
		}
		b.tell(what, map[string]any{"path": e.Path, "error": e.Error(), "remedy": e.Remedy})
	}
	return e
}

func (b *Board) clearTrouble() error {
	b.mu.Lock()
	c := &b.commits
	was := c.trouble
	c.trouble, c.pause = nil, 0
	if c.retry != nil {
		c.retry.Stop()
	}
	b.mu.Unlock()
	if was != nil {
		b.tell("recovered", map[string]any{"path": was.Path, "error": was.Error()})
	}
	return nil
}
