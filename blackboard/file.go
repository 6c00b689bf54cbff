package blackboard

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The board and its file: loading, writing commits out, and what happens when
// the disk is in trouble. Only one goroutine at a time works on the file: Open
// before the board is given out, then whoever holds committer.running.

// The buckets. Journals and record rooms have one each.
const (
	bucketValues   = "v"
	bucketHistory  = "h"
	bucketRequests = "q"
	bucketProbe    = "p"
	bucketDamage   = "d" // of values and records: marks
	journalPrefix  = "j:"
	recordPrefix   = "n:"
)

const (
	firstPause = time.Second
	maxPause   = 5 * time.Second
)

// openFile opens the file for the first time.
func (b *Board) openFile() error {
	s := &store{path: b.opt.Path, opt: &b.opt}
	b.store = s
	o, err := s.open(b.loader(), false)
	if unreadable(err) {
		o, err = s.open(b.loader(), false)
	}
	if errors.Is(err, ErrCorrupt) || unreadable(err) {
		o, err = b.quarantine(b.loader(), o, err)
	}
	var trouble *StoreError
	switch {
	case err == nil:
		if o.torn {
			b.tell("recovered", map[string]any{"path": s.path, "error": "one meta page is damaged, as by a power cut during a commit; the other one was used"})
		}
	case errors.Is(err, ErrLocked), misplaced(err):
		return err
	case errors.As(err, &trouble):
		if o.fresh && trouble.Kind == ErrFull {
			_ = os.Remove(s.path) // an unfinished new file is worth nothing
		}
		if err := s.readOnly(b.loader()); err != nil {
			b.loader().begin()
			b.commits.unread = true
		}
		b.setTrouble(trouble)
	default:
		return err
	}
	b.adopt()
	if b.store.db != nil {
		b.scheduleSnapshot(true)
	}
	return nil
}

// misplaced reports a path that no waiting will make good.
func misplaced(err error) bool {
	return errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ENAMETOOLONG)
}

// unreadable reports whether reading the file failed, not opening or writing it.
func unreadable(err error) bool {
	var p *fs.PathError
	return errors.As(err, &p) && p.Op == "read" && errors.Is(err, syscall.EIO)
}

// loader fills the board from the file.
func (b *Board) loader() visitor {
	return visitor{
		begin: func() {
			b.entries, b.damaged, b.found = map[string]*entry{}, map[record]*defect{}, nil
			b.reqs.init()
			b.logs.init(b)
		},
		visit: b.load,
	}
}

// load takes one record. A record that is not what was written is kept out and
// remembered; the rest of the file is good.
func (b *Board) load(bucket string, k, v []byte) error {
	key := string(k)
	var err error
	switch {
	case bucket == bucketValues:
		var s state
		if s, err = decodeState(k, v); err == nil {
			err = checkKey("load", key)
		}
		if err == nil {
			e := b.loaded(key)
			e.state, e.disk = s, true
			delete(b.damaged, record{bucketValues, key}) // it was written anew
		}
	case bucket == bucketHistory:
		name, version, ok := splitHistoryKey(k)
		var s state
		if s, err = decodeState(k, v); err == nil && ok && s.version == version {
			e := b.loaded(name)
			e.history = append(e.history, s)
		}
	case bucket == bucketRequests:
		err = b.reqs.load(b, k, v)
	case bucket == bucketDamage:
		err = b.loadMark(k, v)
	case strings.HasPrefix(bucket, journalPrefix):
		err = b.logs.loadJournal(bucket[len(journalPrefix):], k, v)
	case strings.HasPrefix(bucket, recordPrefix):
		if err = b.logs.loadRecord(bucket[len(recordPrefix):], k, v); err == nil {
			delete(b.damaged, record{bucket, key})
		}
	}
	if err != nil {
		b.spoilt(record{bucket, key}, err)
	}
	return nil
}

func (b *Board) loaded(key string) *entry {
	e := b.entries[key]
	if e == nil {
		e = &entry{key: key}
		b.entries[key] = e
	}
	return e
}

// adopt starts what the loaded values need: the ends of their lives, the
// deadlines of requests; and reports what was damaged.
func (b *Board) adopt() {
	b.mu.Lock()
	for _, e := range b.entries {
		b.resume(e)
	}
	b.reqs.adopt(b)
	b.mu.Unlock()
	b.reportDamage()
}

// resume starts what is left of a loaded key's life; the caller holds mu.
func (b *Board) resume(e *entry) {
	if e.version == 0 && len(e.history) > 0 {
		e.version = e.history[len(e.history)-1].version
	}
	if e.present && e.ttl > 0 {
		b.expire(e, max(leftOf(e.ttl, e.at), 1))
	}
}

// leftOf is what is left of a time that began at a moment of the wall clock, in
// an earlier process. A clock that went back, or forward by years, was not set
// then or now: nothing is taken off.
func leftOf(whole time.Duration, at int64) time.Duration {
	const longest = 10 * 365 * 24 * time.Hour
	passed := time.Duration(time.Now().UnixNano() - at)
	if passed < 0 || passed > longest {
		return whole
	}
	return whole - passed
}

// quarantine moves a damaged file aside and opens the newest good snapshot in
// its place, or a new file if there is none.
func (b *Board) quarantine(v visitor, found opened, cause error) (opened, error) {
	s := b.store
	aside, err := s.setAside(found)
	if err != nil {
		return opened{}, s.classify(err)
	}
	from, err := s.takeNewest()
	if err != nil {
		return opened{}, s.classify(err)
	}
	b.opt.Log.Error("blackboard file damaged", "path", s.path, "moved_to", aside, "snapshot", from, "err", cause)
	o, err := s.open(v, from == "")
	if from != "" && errors.Is(err, ErrCorrupt) { // the disk damages what is written to it
		if _, err := s.setAside(o); err != nil {
			return o, s.classify(err)
		}
		o, err = s.open(v, true)
	}
	b.count.corrupt.Add(1)
	lost := cause.Error() + "; begun anew"
	if from != "" {
		lost = cause.Error() + "; the state of " + from + " was taken"
	}
	b.ruin(aside, lost)
	b.tell("corrupt", map[string]any{"path": s.path, "moved_to": aside, "snapshot": from, "error": cause.Error()})
	return o, err
}

// setAside moves a damaged file out of the way; one that opening itself has
// made is no evidence of anything and goes.
func (s *store) setAside(o opened) (to string, err error) {
	if fi, err := os.Lstat(s.path); o.made && err == nil && fi.Size() == 0 {
		return "", os.Remove(s.path)
	}
	to, err = moveAside(s.path, "corrupt")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return to, err
}

// takeNewest puts the newest good snapshot in the file's place and gives its
// name, "" if none is good. On a full disk the snapshot itself is moved there.
func (s *store) takeNewest() (string, error) {
	for _, snap := range snapshots(s.path) {
		if checkFile(snap) != nil {
			continue
		}
		err := copyFile(snap, s.path)
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			err = os.Rename(snap, s.path)
		}
		return snap, err
	}
	return "", nil
}

// moveAside renames a file to path.why-<time>; nothing is ever deleted.
func moveAside(path, why string) (string, error) {
	stamp := time.Now().UTC().Format("20060102T150405.000000")
	for i := 0; ; i++ {
		to := fmt.Sprintf("%s.%s-%s", path, why, stamp)
		if i > 0 {
			to = fmt.Sprintf("%s-%d", to, i)
		}
		if _, err := os.Lstat(to); err == nil {
			continue
		}
		return to, os.Rename(path, to)
	}
}

// encode makes the records of a commit.
func (t *batch) encode() []put {
	puts := slices.Concat(t.settled, t.extra, t.puts)
	for _, k := range t.keys {
		p := put{bucket: bucketValues, key: k.e.key}
		if k.s.present && k.s.keep {
			p.value = k.s.encode([]byte(p.key))
		}
		puts = append(puts, p)
		for _, version := range k.drops {
			puts = append(puts, put{bucket: bucketHistory, key: historyKey(k.e.key, version)})
		}
		for i := range k.saves {
			h := historyKey(k.e.key, k.saves[i].version)
			puts = append(puts, put{bucketHistory, h, k.saves[i].encode([]byte(h))})
		}
	}
	return puts
}

// closeFile writes the rest out and closes the file.
func (b *Board) closeFile() error {
	c := &b.commits
	err := b.lead(nil)
	b.mu.Lock()
	for _, t := range []*time.Timer{c.window, c.retry, c.snapshot} {
		if t != nil {
			t.Stop()
		}
	}
	changed := c.changed
	b.mu.Unlock()
	if changed {
		b.takeSnapshot()
	}
	c.snapping.Lock() // one that a timer has started
	defer c.snapping.Unlock()
	c.running.Lock()
	defer c.running.Unlock()
	b.done = true
	if err2 := b.store.close(); err2 != nil && err == nil {
		err = b.store.classify(err2)
	}
	return err
}
