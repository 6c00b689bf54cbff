package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"edged/cmd/edged/internal/control"
	"edged/cmd/edged/internal/web"
	"edged/starlark/value"
)

// The page's "save the last 60 s as a test": what 'edged trace --save-test'
// does, by a process of its own, for the test is run in virtual time.

// testRequest is a test to be saved.
type testRequest struct {
	Last string `json:"last,omitempty"` // a duration; 60s
	Name string `json:"name,omitempty"` // of the file, without _test.star
}

var fileName = regexp.MustCompile(`^[a-z0-9_]{1,64}$`)

func testAsked(q *web.Query) (any, error) {
	r := testRequest{Last: "60s", Name: "field_" + time.Now().Format("20060102_150405")}
	if err := q.Into(&r); err != nil {
		return nil, err
	}
	if d, err := value.ParseDuration(r.Last); err != nil || d <= 0 {
		return nil, control.Usagef("test: last is a duration, as 60s, not %q", r.Last)
	}
	if r.Name = strings.TrimSuffix(r.Name, "_test.star"); !fileName.MatchString(r.Name) {
		return nil, control.Usagef("test: a name has small letters, digits and _, not %q", r.Name)
	}
	return r, nil
}

// saveTime bounds the process.
const saveTime = 2 * time.Minute

func (r *robot) handleSaveTest(ctx context.Context, with json.RawMessage, send func(any) error) error {
	var q testRequest
	if err := json.Unmarshal(with, &q); err != nil {
		return control.Usagef("test: %v", err)
	}
	if !r.page.saving.TryLock() {
		return errors.New("test: one is being saved already")
	}
	defer r.page.saving.Unlock()
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	file := filepath.Join(absolute(r.cfg.Dir()), q.Name+"_test.star")
	cmd := exec.CommandContext(ctx, self(), "trace", "--last", q.Last, "--save-test", file, "--json", "--socket", absolute(r.control.server.Path()))
	cmd.Args[0] = "edged"
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		words := strings.TrimPrefix(strings.TrimSpace(said.String()), "edged: ")
		if words == "" {
			words = "test: " + err.Error()
		}
		return errors.New(words)
	}
	var saved map[string]any
	if err := json.Unmarshal(out.Bytes(), &saved); err != nil {
		return fmt.Errorf("test: %w", err)
	}
	return send(saved)
}
