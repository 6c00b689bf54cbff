package trace

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// trouble is the context of reports: nothing that happened is their cause.
var trouble = context.Background()

// segments is how many files the ring has: each is that share of its size.
const segments = 8

// A ring is a folder of files that are numbered, filled one after the other,
// and removed when there are too many bytes or they are too old. Its owner
// serialises the calls.
type ring struct {
	dir  string
	size int64
	keep time.Duration

	f     *os.File
	n     int       // of the file
	wrote int64     // bytes in it
	since time.Time // of its first line
}

// write appends lines.
func (r *ring) write(text []byte, now time.Time) error {
	if len(text) == 0 {
		return nil
	}
	if r.f != nil && (r.wrote+int64(len(text)) > r.size/segments || now.Sub(r.since) > r.keep/segments) {
		if err := r.close(); err != nil {
			return fmt.Errorf("trace: %w", err)
		}
	}
	if r.f == nil {
		if err := r.open(now); err != nil {
			return fmt.Errorf("trace: %w", err)
		}
	}
	n, err := r.f.Write(text)
	r.wrote += int64(n)
	if err != nil {
		_ = r.close() // the write's error says it; a new file is tried next
		return fmt.Errorf("trace: %w", err)
	}
	return nil
}

func (r *ring) open(now time.Time) error {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	names, err := list(r.dir)
	if err != nil {
		return err
	}
	if r.n == 0 && len(names) > 0 {
		if _, err := fmt.Sscanf(names[len(names)-1], "%d.jsonl", &r.n); err != nil {
			return err
		}
	}
	r.clean(names, now)
	r.n++
	r.f, err = os.OpenFile(filepath.Join(r.dir, fmt.Sprintf("%08d.jsonl", r.n)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	r.wrote, r.since = 0, now
	return err
}

// clean removes files from the oldest on, to make room for a new one.
func (r *ring) clean(names []string, now time.Time) {
	var total int64
	slices.Reverse(names)
	for _, n := range names {
		path := filepath.Join(r.dir, n)
		st, err := os.Stat(path)
		if err != nil {
			continue
		}
		if total += st.Size(); total > r.size*(segments-1)/segments || now.Sub(st.ModTime()) > r.keep {
			_ = os.Remove(path) // if it can't be removed now, it will be tried with the next segment
		}
	}
}

func (r *ring) close() error {
	if r.f == nil {
		return nil
	}
	err := r.f.Close()
	r.f = nil
	return err
}

// list gives the names of the segments in order.
func list(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".jsonl") {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, err
}

// Read gives what is recorded in a folder, oldest first. A robot may be
// recording meanwhile. Lines that are no lines (the end of a file after a power
// cut) are skipped. A folder without a record gives none.
func Read(dir string) ([]Line, error) {
	names, err := list(dir)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	var lines []Line
	for _, n := range names {
		b, err := os.ReadFile(filepath.Join(dir, n))
		if errors.Is(err, fs.ErrNotExist) {
			continue // made room meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("trace: %w", err)
		}
		lines = append(lines, Parse(b)...)
	}
	return lines, nil
}

// Parse reads lines of a record and skips what is none.
func Parse(text []byte) []Line {
	var lines []Line
	sc := bufio.NewScanner(bytes.NewReader(text))
	sc.Buffer(nil, 16<<20)
	for sc.Scan() {
		var l Line
		if json.Unmarshal(sc.Bytes(), &l) == nil && l.Seq > 0 && l.Topic != "" {
			lines = append(lines, l)
		}
	}
	return lines
}
