package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"edged/agent/llm/builtin/train"
	"edged/agent/llm/schema"
	"edged/cmd/edged/internal/config"
	"edged/starlark/lib"
)

// What a robot's folder says of how people talk to it: its tools with their
// sentences and examples, and the file decline.txt.

// declineFile holds sentences, one a line, that the robot must not act on.
const declineFile = "decline.txt"

// folderTools loads a folder in memory and gives the tools of its agents.
func folderTools(ctx context.Context, cfg *config.Config) ([]lib.ToolInfo, error) {
	m, err := openModel(cfg)
	if err != nil {
		return nil, err
	}
	defer m.close()
	folder, done, err := openFolder(cfg.Dir())
	if err != nil {
		return nil, err
	}
	defer done()
	b, err := lib.Load(ctx, m.host, folder, loadOptions(cfg))
	if err != nil {
		return nil, err
	}
	defer func() { _ = b.Stop(ctx) }() // nothing of it was started
	return b.Tools(), nil
}

// lesson is what a model learns of a folder, and what it can't.
type lesson struct {
	Robot   train.Robot `json:"robot"`
	Skipped []skipped   `json:"skipped,omitempty"`
}

// skipped is a tool or one of its phrases that nothing can be learned from.
type skipped struct {
	Tool   string `json:"tool"`
	Phrase string `json:"phrase,omitempty"`
	Why    string `json:"why"`
}

func (s skipped) String() string {
	if s.Phrase == "" {
		return s.Tool + ": " + s.Why
	}
	return fmt.Sprintf("%s: %q: %s", s.Tool, s.Phrase, s.Why)
}

// lessonOf makes what a model is trained for of a folder's tools.
func lessonOf(ctx context.Context, cfg *config.Config) (lesson, error) {
	tools, err := folderTools(ctx, cfg)
	if err != nil {
		return lesson{}, err
	}
	l := lesson{Robot: train.Robot{Name: cfg.Name, Decline: train.Demo().Decline}}
	for _, t := range tools {
		l.add(ctx, t)
	}
	if len(l.Robot.Tools) == 0 {
		return l, &nothingSaidError{cfg.Dir(), l.reasons()}
	}
	own, err := declined(filepath.Join(cfg.Dir(), declineFile))
	l.Robot.Decline = append(l.Robot.Decline, own...)
	return l, err
}

// nothingSaidError is that nobody knows how people ask for a robot's tools.
type nothingSaidError struct{ dir, reasons string }

func (e *nothingSaidError) Error() string {
	return fmt.Sprintf("train: no tool of %s has a phrase to learn from: give one sentences or examples, Tool(go_to, examples = [\"go to the {place}\"])%s", e.dir, e.reasons)
}

func (l *lesson) reasons() string {
	var b strings.Builder
	for _, s := range l.Skipped {
		b.WriteString("\n  " + s.String())
	}
	return b.String()
}

func (l *lesson) add(ctx context.Context, t lib.ToolInfo) {
	if len(t.Phrases) == 0 {
		l.Skipped = append(l.Skipped, skipped{Tool: t.Name, Why: "it has neither sentences nor examples"})
		return
	}
	one := train.FromTool(t.Tool)
	one.Motion = t.Moves
	one.Spoken = spelledOut(t)
	for _, p := range t.Phrases {
		phrase := train.Phrase{Text: listSlot.ReplaceAllString(p, "{$1}")}
		try := one
		try.Say = []train.Phrase{phrase}
		// It is read as in training, and nothing is asked.
		_, err := train.Evaluate(ctx, nil, train.Robot{Name: "try", Tools: []train.Tool{try}}, 0, 1, nil)
		switch {
		case strings.ContainsAny(p, "<;"):
			l.Skipped = append(l.Skipped, skipped{t.Name, p, "rules and permutations are for sentences only"})
		case err != nil:
			why := err.Error()
			if i := strings.LastIndex(why, "\": "); i >= 0 {
				why = why[i+3:]
			}
			l.Skipped = append(l.Skipped, skipped{t.Name, p, strings.TrimPrefix(why, "train: tool "+t.Name+": ")})
		default:
			one.Say = append(one.Say, phrase)
		}
	}
	if len(one.Say) > 0 {
		l.Robot.Tools = append(l.Robot.Tools, one)
	}
}

// listSlot is a slot that names its list apart: {room:place}.
var listSlot = regexp.MustCompile(`\{[^{}:]*:([^{}]*)\}`)

// spelledOut gives words for values that people don't say as they are written.
func spelledOut(t lib.ToolInfo) map[string]map[string][]string {
	s, err := schema.ParseLoose(t.Params)
	if err != nil || s == nil {
		return nil
	}
	out := map[string]map[string][]string{}
	for _, p := range s.Properties {
		for _, v := range p.Schema.Enum {
			word, ok := v.(string)
			if !ok || !strings.ContainsAny(word, "_-") {
				continue
			}
			if out[p.Name] == nil {
				out[p.Name] = map[string][]string{}
			}
			out[p.Name][word] = []string{strings.NewReplacer("_", " ", "-", " ").Replace(word)}
		}
	}
	return out
}

// declined reads a list of sentences; no file is none.
func declined(path string) ([]string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return train.Sentences(bufio.NewReader(f))
}

// heldBack are the sentences to decline that training leaves out: every fourth.
func heldBack(all []string) []string {
	var out []string
	for i := 3; i < len(all); i += 4 {
		out = append(out, all[i])
	}
	return out
}
