package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"edged/agent/llm"
)

// The audit: a line for every call that a model asked for, each with the hash
// of the line before, in the data folder. Nothing takes lines away; a file that
// is full, or that somebody changed, is put aside under its date.

const (
	auditFile = "audit.jsonl"
	auditSize = 32 << 20
)

// auditLog is the open file.
type auditLog struct {
	*llm.Audit
	file *os.File
}

// openAudit goes on with the audit of earlier processes. The text says what
// was put aside and why, if anything was.
func openAudit(dir string, now time.Time) (a *auditLog, aside string, err error) {
	path := filepath.Join(dir, auditFile)
	last, err := readAudit(path)
	st, statErr := os.Stat(path)
	if err == nil && statErr == nil && st.Size() >= auditSize {
		err = errors.New("it is full")
	}
	if err != nil {
		old := filepath.Join(dir, "audit-"+now.UTC().Format("20060102T150405Z")+".jsonl")
		aside = fmt.Sprintf("audit: %v; it was put aside as %s", err, old)
		if err := os.Rename(path, old); err != nil {
			return nil, "", fmt.Errorf("audit: %w", err)
		}
		last = nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, "", fmt.Errorf("audit: %w", err)
	}
	return &auditLog{llm.NewAudit(f, last), f}, aside, nil
}

// readAudit verifies the file and gives its last entry, nil if there is none.
// A last line that was cut off when the power went is taken away.
func readAudit(path string) (*llm.AuditEntry, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
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
	return llm.VerifyAudit(f)
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

func (a *auditLog) close() error {
	if a == nil {
		return nil
	}
	return errors.Join(a.file.Sync(), a.file.Close())
}
