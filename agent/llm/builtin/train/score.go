package train

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"edged/agent/llm"
	"edged/agent/llm/builtin"
)

// Score is how well a model does with one kind of sentences.
type Score struct {
	Asked int `json:"asked"`
	Exact int `json:"exact"` // the call with all its arguments, or declined where there is none
	Tool  int `json:"tool"`  // the right tool, or declined
	// Wrong counts calls that should not have been made; of these, Motion moves
	// something. A command that was declined is not wrong in this sense.
	Wrong  int `json:"wrong"`
	Motion int `json:"motion"`
}

// Share gives a count in percent.
func (s Score) Share(n int) float64 { return 100 * float64(n) / float64(max(s.Asked, 1)) }

// Mistake is one sentence that came out otherwise.
type Mistake struct {
	Said, Want, Got string
}

// Report is a model's score.
type Report struct {
	Seen     Score            `json:"seen"`  // phrasings of the training, fresh values
	Held     Score            `json:"held"`  // phrasings kept out of it
	Quiet    Score            `json:"quiet"` // sentences that must not do anything
	Tools    map[string]Score `json:"tools"` // held phrasings by tool; "" is none
	Mistakes []Mistake        `json:"-"`
}

// Evaluate asks a model n commands in phrasings it has seen, n in others, and
// all of quiet. The commands are the same for the same robot and seed.
func Evaluate(ctx context.Context, m llm.Model, r Robot, n int, seed uint64, quiet []string) (Report, error) {
	rep := Report{Tools: map[string]Score{}}
	p, err := read(r)
	if err != nil {
		return rep, err
	}
	e := examiner{m: m, plan: p, tools: Offer(r), rep: &rep}
	for _, held := range []bool{false, true} {
		v := newVoice(p, seed, 99)
		for range n {
			s := v.sample(held)
			one, err := e.ask(ctx, s.user, s.answer, s.tool)
			if err != nil {
				return rep, err
			}
			if !held {
				rep.Seen.add(one)
				continue
			}
			rep.Held.add(one)
			name := ""
			if s.tool != nil {
				name = s.tool.Name
			}
			t := rep.Tools[name]
			t.add(one)
			rep.Tools[name] = t
		}
	}
	for _, q := range quiet {
		one, err := e.ask(ctx, q, refusal, nil)
		if err != nil {
			return rep, err
		}
		rep.Quiet.add(one)
	}
	return rep, nil
}

func (s *Score) add(o Score) {
	s.Asked += o.Asked
	s.Exact += o.Exact
	s.Tool += o.Tool
	s.Wrong += o.Wrong
	s.Motion += o.Motion
}

type examiner struct {
	m     llm.Model
	plan  *plan
	tools []llm.Tool
	rep   *Report
}

// ask scores one sentence; want is the call, or anything if t is nil.
func (e *examiner) ask(ctx context.Context, text, want string, t *tool) (Score, error) {
	s := Score{Asked: 1}
	got, err := e.m.Chat(ctx, llm.Request{Messages: []llm.Message{{Role: llm.User, Text: text}}, Tools: e.tools}, nil)
	if err != nil && !errors.Is(err, llm.ErrNoMatch) {
		return s, fmt.Errorf("train: evaluate %q: %w", text, err)
	}
	if err != nil || len(got.Calls) == 0 {
		if t == nil {
			s.Exact, s.Tool = 1, 1
		} else {
			e.rep.Mistakes = append(e.rep.Mistakes, Mistake{text, want, "declined"})
		}
		return s, nil
	}
	c := got.Calls[0]
	var w struct {
		Name      string
		Arguments any
	}
	if t != nil {
		if err := json.Unmarshal([]byte(want), &w); err != nil {
			return s, fmt.Errorf("train: evaluate: %w", err)
		}
	}
	var args any
	if err := json.Unmarshal(c.Args, &args); err != nil {
		return s, fmt.Errorf("train: evaluate: %w", err)
	}
	if t != nil && c.Name == w.Name {
		s.Tool = 1
		if same(args, w.Arguments) {
			s.Exact = 1
			return s, nil
		}
	}
	s.Wrong = 1
	if i := slices.IndexFunc(e.plan.tools, func(t tool) bool { return t.Name == c.Name }); i >= 0 && e.plan.tools[i].Motion {
		s.Motion = 1
	}
	if t == nil {
		want = "declined"
	}
	e.rep.Mistakes = append(e.rep.Mistakes, Mistake{text, want, c.Name + string(c.Args)})
	return s, nil
}

// same compares arguments; text counts as heard, however it is written.
func same(a, b any) bool {
	x, ok := a.(map[string]any)
	y, ok2 := b.(map[string]any)
	if !ok || !ok2 {
		return reflect.DeepEqual(a, b)
	}
	return maps.EqualFunc(x, y, func(v, w any) bool {
		s, ok := v.(string)
		t, ok2 := w.(string)
		return ok && ok2 && builtin.Hear(s).Text == builtin.Hear(t).Text || reflect.DeepEqual(v, w)
	})
}

// Offer gives a robot's tools as they are offered to a model; they do nothing.
func Offer(r Robot) []llm.Tool {
	var out []llm.Tool
	for _, t := range r.Tools {
		e := llm.Read
		if t.Motion {
			e = llm.Write
		}
		out = append(out, llm.Tool{Name: t.Name, Doc: t.Doc, Params: t.Params, Effect: e})
	}
	return out
}

// Sentences reads one sentence a line; lines that start with # are comments.
func Sentences(r io.Reader) ([]string, error) {
	var out []string
	s := bufio.NewScanner(r)
	for s.Scan() {
		if l := strings.TrimSpace(s.Text()); l != "" && l[0] != '#' {
			out = append(out, l)
		}
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("train: sentences: %w", err)
	}
	return out, nil
}

// String is the report for people.
func (r Report) String() string {
	var b strings.Builder
	line := func(name string, s Score) {
		fmt.Fprintf(&b, "%-22s %5d  exact %5.1f %%  right tool %5.1f %%  wrong calls %4.1f %% (motion %4.1f %%)\n",
			name, s.Asked, s.Share(s.Exact), s.Share(s.Tool), s.Share(s.Wrong), s.Share(s.Motion))
	}
	line("phrasings seen", r.Seen)
	line("phrasings held out", r.Held)
	for _, t := range slices.Sorted(maps.Keys(r.Tools)) {
		name := t
		if t == "" {
			name = "nothing to do"
		}
		line("  "+name, r.Tools[t])
	}
	if r.Quiet.Asked > 0 {
		line("must not do anything", r.Quiet)
	}
	return b.String()
}
