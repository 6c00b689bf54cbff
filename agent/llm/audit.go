package llm

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// An Audit writes down, as lines of JSON, every call that a model asked for: an
// intent before the tool is run, so that no deed is without a line however the
// process ends, and the outcome after it, of calls that were not run that
// alone. Each line has the hash of the line before, so that none can be changed
// or taken out unseen; [VerifyAudit] looks. That the last lines are not cut off
// is for whoever keeps the file to see to: a chain has no end of its own.
// May be used by several agents at once; nil writes nothing.
type Audit struct {
	mu   sync.Mutex // guards the rest
	w    io.Writer
	seq  uint64
	last string
}

// An AuditEntry is one line.
type AuditEntry struct {
	Seq    uint64          `json:"seq"`
	Time   time.Time       `json:"time"`
	Phase  string          `json:"phase,omitempty"` // "intent": it is about to run
	Of     uint64          `json:"of,omitempty"`    // of an outcome: its intent
	Agent  string          `json:"agent"`
	Origin string          `json:"origin,omitempty"`
	Tool   string          `json:"tool"`
	Args   json.RawMessage `json:"args,omitempty"`
	Ran    bool            `json:"ran"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
	Prev   string          `json:"prev"`           // hash of the line before, empty for the first
	Hash   string          `json:"hash,omitempty"` // of this line without its hash
}

// Intent is the phase of an entry that is written before the deed.
const Intent = "intent"

// NewAudit writes to w, after the last entry that is there already (nil: none).
// A line is one Write. If w has a method Sync() error it is called before a
// tool acts, and what it can't bring to the disk is not done.
func NewAudit(w io.Writer, last *AuditEntry) *Audit {
	a := &Audit{w: w}
	if last != nil {
		a.seq, a.last = last.Seq, last.Hash
	}
	return a
}

// Begin writes down that a tool is about to run, and gives the number that
// belongs into the outcome's Of. Without it nothing may be run.
func (a *Audit) Begin(e AuditEntry, effect Effect) (seq uint64, err error) {
	if a == nil {
		return 0, nil
	}
	e.Phase = Intent
	return a.write(e, effect == Write)
}

// Append writes an entry; its number, time and hashes are filled in.
func (a *Audit) Append(e AuditEntry) error {
	if a == nil {
		return nil
	}
	_, err := a.write(e, false)
	return err
}

func (a *Audit) write(e AuditEntry, sync bool) (seq uint64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e.Seq, e.Prev, e.Time = a.seq+1, a.last, time.Now().UTC()
	if !json.Valid(e.Args) {
		e.Args = nil
	}
	if e.Error != "" {
		e.Error, e.Result = clip(e.Error, 400), nil
	}
	for _, s := range []*string{&e.Agent, &e.Origin, &e.Tool, &e.Error} {
		*s = strings.ToValidUTF8(*s, "?") // so that it reads back as it was written
	}
	if e.Hash, err = e.sum(); err != nil {
		return 0, err
	}
	line, _ := json.Marshal(e) // sum has just done it
	if _, err := a.w.Write(append(line, '\n')); err != nil {
		return 0, fmt.Errorf("llm: audit: %w", err)
	}
	a.seq, a.last = e.Seq, e.Hash
	if s, ok := a.w.(interface{ Sync() error }); ok && sync {
		if err := s.Sync(); err != nil {
			return 0, fmt.Errorf("llm: audit: %w", err)
		}
	}
	return e.Seq, nil
}

// intent writes down that a call of a run is about to be run.
func (a *Audit) intent(t *Turn, tool Tool, c Call) (uint64, error) {
	return a.Begin(AuditEntry{Agent: t.Agent, Origin: string(t.Origin()), Tool: c.Name, Args: c.Args}, tool.Effect)
}

// outcome writes down what came of a call.
func (a *Audit) outcome(t *Turn, s *Step, of uint64) error {
	e := AuditEntry{Agent: t.Agent, Origin: string(t.Origin()), Of: of, Tool: s.Call.Name, Args: s.Call.Args, Ran: s.Ran, Result: s.Result}
	if s.Err != nil {
		e.Error = s.Err.Error()
	}
	return a.Append(e)
}

func (e AuditEntry) sum() (string, error) {
	e.Hash = ""
	line, err := json.Marshal(e)
	if err != nil {
		return "", fmt.Errorf("llm: audit: %w", err)
	}
	h := sha256.Sum256(line)
	return hex.EncodeToString(h[:]), nil
}

// VerifyAudit reads an audit and gives its last entry (nil if it is empty); the
// error names the first line that was changed, or that something is missing
// before. Each entry that is as it was written is given to each, if that is
// not nil.
func VerifyAudit(r io.Reader, each func(AuditEntry)) (*AuditEntry, error) {
	var last *AuditEntry
	in := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return last, err
		}
		if len(line) == 0 {
			return last, nil
		}
		var e AuditEntry
		if err := json.Unmarshal(line, &e); err != nil {
			return last, fmt.Errorf("llm: audit: line %d: %w", n, err)
		}
		if want, err := e.sum(); err != nil || e.Hash != want {
			return last, fmt.Errorf("llm: audit: line %d was changed", n)
		}
		var seq uint64
		prev := ""
		if last != nil {
			seq, prev = last.Seq, last.Hash
		}
		if e.Prev != prev || e.Seq != seq+1 {
			return last, fmt.Errorf("llm: audit: something is missing before line %d", n)
		}
		last = &e
		if each != nil {
			each(e)
		}
	}
}
