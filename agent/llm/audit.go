package llm

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// An Audit writes a line of JSON for every call that a model asked for, run or
// not. Each line has the hash of the line before, so that none can be changed
// or taken out unseen; [VerifyAudit] looks. May be used by several agents at
// once.
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

// NewAudit writes to w, after the last entry that is there already (nil: none).
// A line is one Write.
func NewAudit(w io.Writer, last *AuditEntry) *Audit {
	a := &Audit{w: w}
	if last != nil {
		a.seq, a.last = last.Seq, last.Hash
	}
	return a
}

// Hook is the hook that writes to the audit. A call that can't be written down
// ends the run as blocked.
func (a *Audit) Hook() Hook {
	return Hook{
		Name: "audit_log", Priority: PrioritySafety, Safety: true,
		AfterTool: func(_ context.Context, s *Step) error {
			e := AuditEntry{Time: time.Now().UTC(), Agent: s.Turn.Agent, Origin: s.Turn.Task.Origin,
				Tool: s.Call.Name, Ran: s.Ran, Result: s.Result}
			if json.Valid(s.Call.Args) {
				e.Args = s.Call.Args
			}
			if s.Err != nil {
				e.Error, e.Result = clip(s.Err.Error(), 400), nil
			}
			return a.Append(e)
		},
	}
}

// Append writes one entry; its number and hashes are filled in.
func (a *Audit) Append(e AuditEntry) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	e.Seq, e.Prev = a.seq+1, a.last
	for _, s := range []*string{&e.Agent, &e.Origin, &e.Tool, &e.Error} {
		*s = strings.ToValidUTF8(*s, "?") // so that it reads back as it was written
	}
	var err error
	if e.Hash, err = e.sum(); err != nil {
		return err
	}
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("llm: audit: %w", err)
	}
	if _, err := a.w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("llm: audit: %w", err)
	}
	a.seq, a.last = e.Seq, e.Hash
	return nil
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
// before.
func VerifyAudit(r io.Reader) (*AuditEntry, error) {
	var last *AuditEntry
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 4<<20)
	for n := 1; lines.Scan(); n++ {
		var e AuditEntry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return last, fmt.Errorf("llm: audit: line %d: %w", n, err)
		}
		want, err := e.sum()
		if err != nil {
			return last, err
		}
		var seq uint64
		prev := ""
		if last != nil {
			seq, prev = last.Seq, last.Hash
		}
		if e.Hash != want {
			return last, fmt.Errorf("llm: audit: line %d was changed", n)
		}
		if e.Prev != prev || e.Seq != seq+1 {
			return last, fmt.Errorf("llm: audit: something is missing before line %d", n)
		}
		last = &e
	}
	return last, lines.Err()
}
