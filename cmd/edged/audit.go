package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"edged/agent/llm"
	"edged/blackboard"
)

// The audit: lines for every call that a model asked for, each with the hash of
// the line before, in the data folder. Nothing takes lines away; a file that is
// full, or that somebody changed, is put aside under its date.
//
// A chain does not tell where it ended. So its end is kept in the board's file,
// too, soon after each line and never before the line is on disk: a file that
// does not reach as far was cut.

const (
	auditFile = "audit.jsonl"
	auditSize = 32 << 20
	auditLag  = 500 * time.Millisecond // how soon a line that nobody waits for is on disk, and its number on the board
)

// auditEnd is where a chain ended.
type auditEnd struct {
	First string `json:"first"` // hash of the first line: which chain it is
	Seq   uint64 `json:"seq"`
	Hash  string `json:"hash"`
}

// auditLog is the open audit.
type auditLog struct {
	*llm.Audit
	sink    *auditSink
	trouble string // what was found at the start
}

// auditState is the audit as status has it.
type auditState struct {
	End     auditEnd `json:"end"`
	Trouble string   `json:"trouble,omitempty"`
}

func (a *auditLog) state() auditState {
	a.sink.mu.Lock()
	defer a.sink.mu.Unlock()
	return auditState{a.sink.end, cmp.Or(a.trouble, a.sink.trouble)}
}

// ends is where the ends of chains are kept.
type ends struct{ *blackboard.Records }

func (e ends) load() (end auditEnd, err error) {
	if e.Records == nil {
		return end, nil
	}
	b, ok := e.Get("end")
	if !ok {
		return end, e.Damaged("end")
	}
	return end, json.Unmarshal(b, &end)
}

func (e ends) save(end auditEnd) error {
	if e.Records == nil {
		return nil
	}
	b, err := json.Marshal(end)
	if err != nil {
		return err
	}
	return e.Put(context.Background(), "end", b, false)
}

// openAudit goes on with the audit of earlier processes. With no room for ends
// it is not known whether lines are missing.
func openAudit(dir string, kept ends, now time.Time) (*auditLog, error) {
	path := filepath.Join(dir, auditFile)
	end, unknown := kept.load()
	found, err := readAudit(path, end)
	a := &auditLog{}
	st, statErr := os.Stat(path)
	full := err == nil && statErr == nil && st.Size() >= auditSize
	if err != nil || full {
		old := filepath.Join(dir, "audit-"+now.UTC().Format("20060102T150405Z")+".jsonl")
		switch bad := os.Rename(path, old); {
		case errors.Is(bad, fs.ErrNotExist):
			a.trouble = fmt.Sprintf("audit: %v", err)
		case bad != nil:
			return nil, fmt.Errorf("audit: %w", bad)
		case !full:
			a.trouble = fmt.Sprintf("audit: %v; it was put aside as %s", err, old)
		}
		found = &chain{}
	}
	if unknown != nil {
		a.trouble = cmp.Or(a.trouble, fmt.Sprintf("audit: whether lines are missing is not known: %v", unknown))
	}
	if a.sink, err = openSink(path, kept, found.auditEnd); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	a.Audit = llm.NewAudit(a.sink, found.last)
	return a, a.begin(found)
}

// begin writes down what was found, and what nobody could: what came of the
// calls that the end of the last process interrupted.
func (a *auditLog) begin(found *chain) error {
	var err error
	if a.trouble != "" {
		err = a.Append(llm.AuditEntry{Agent: "edged", Tool: "audit", Error: a.trouble})
	}
	for _, e := range found.open {
		err = errors.Join(err, a.Append(llm.AuditEntry{Agent: e.Agent, Origin: e.Origin, Tool: e.Tool, Args: e.Args, Of: e.Seq, Ran: true,
			Error: "the robot ended before it was known what came of it"}))
	}
	return err
}

// chain is a file that was read.
type chain struct {
	auditEnd
	last *llm.AuditEntry
	open []llm.AuditEntry // intents without an outcome
	at   string           // hash of the line where it should have ended
}

// readChain verifies an audit that should reach an end.
func readChain(r io.Reader, end auditEnd) (*chain, error) {
	c := &chain{}
	open := map[uint64]llm.AuditEntry{}
	last, err := llm.VerifyAudit(r, func(e llm.AuditEntry) {
		if e.Seq == 1 {
			c.First = e.Hash
		}
		if e.Seq == end.Seq {
			c.at = e.Hash
		}
		if e.Phase == llm.Intent {
			open[e.Seq] = e
		}
		delete(open, e.Of)
	})
	if last != nil {
		c.last, c.Seq, c.Hash = last, last.Seq, last.Hash
	}
	for seq := range c.Seq {
		if e, ok := open[seq+1]; ok {
			c.open = append(c.open, e)
		}
	}
	if err == nil {
		err = c.reaches(end)
	}
	return c, err
}

// reaches is an error if the file ends before what was written ended.
func (c *chain) reaches(end auditEnd) error {
	switch {
	case end.Seq == 0 || c.at == end.Hash:
		return nil
	case c.Seq == 0:
		return fmt.Errorf("all %s that were written are missing", count(int(end.Seq), "line"))
	case c.First != end.First:
		return fmt.Errorf("it is another file: the one with %s is missing", count(int(end.Seq), "line"))
	case c.Seq < end.Seq:
		return fmt.Errorf("lines %d to %d are missing: it was cut after line %d", c.Seq+1, end.Seq, c.Seq)
	}
	return fmt.Errorf("line %d is another one", end.Seq)
}

// readAudit reads the file; none is an empty one. A last line that was cut off
// when the power went is taken away.
func readAudit(path string, end auditEnd) (*chain, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		c := &chain{}
		return c, c.reaches(end)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := mendTail(f); err != nil {
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return readChain(f, end)
}

// mendTail cuts off what comes after the last line feed.
func mendTail(f *os.File) error {
	st, err := f.Stat()
	if err != nil || st.Size() == 0 {
		return err
	}
	const most = 4 << 20
	n := min(st.Size(), most)
	tail := make([]byte, n)
	if _, err := f.ReadAt(tail, st.Size()-n); err != nil {
		return err
	}
	i := bytes.LastIndexByte(tail, '\n')
	if i == len(tail)-1 || i < 0 && n == most {
		return nil
	}
	return f.Truncate(st.Size() - n + int64(i) + 1)
}

// auditSink is the file, which brings its lines to the disk and their end to
// the board.
type auditSink struct {
	file *os.File
	kept ends

	mu      sync.Mutex // guards the rest
	size    int64
	end     auditEnd
	trouble string // why the end is not on the board
	late    *time.Timer
	armed   bool
	closed  bool
}

func openSink(path string, kept ends, end auditEnd) (*auditSink, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	s := &auditSink{file: f, kept: kept, end: end, size: st.Size()}
	s.late = time.AfterFunc(auditLag, func() { _ = s.Sync() }) // it tells in the status
	s.armed = true
	return s, nil
}

// Write takes one line.
func (s *auditSink) Write(line []byte) (int, error) {
	var e struct {
		Seq  uint64
		Hash string
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.file.Write(line)
	if err != nil { // half a line would break the chain
		return n, errors.Join(err, s.file.Truncate(s.size))
	}
	s.size += int64(n)
	s.end.Seq, s.end.Hash = e.Seq, e.Hash
	if e.Seq == 1 {
		s.end.First = e.Hash
	}
	if !s.armed && !s.closed {
		s.armed = true
		s.late.Reset(auditLag)
	}
	return n, nil
}

// Sync brings what is written to the disk, and then its end to the board.
func (s *auditSink) Sync() error {
	s.mu.Lock()
	end := s.end
	s.armed = false
	s.mu.Unlock()
	err := s.file.Sync()
	if err != nil {
		return s.tell(err)
	}
	if err := s.kept.save(end); err != nil {
		_ = s.tell(fmt.Errorf("its end is not on the board: %w", err))
	}
	return nil // the line itself is on disk
}

func (s *auditSink) tell(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble = "audit: " + err.Error()
	return err
}

func (a *auditLog) close() error {
	if a == nil {
		return nil
	}
	s := a.sink
	s.mu.Lock()
	s.closed = true
	s.late.Stop()
	s.mu.Unlock()
	return errors.Join(s.Sync(), s.file.Close())
}
