package society_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"edged/agent"
	"edged/agent/llm"
	"edged/workflow"
	"edged/workflow/society"
	"edged/workflow/society/protocol"
)

// planted is what is hidden in a random society: every answer of every turn
// carries a token of its own, and so do the task, the criteria and the shelf.
type planted struct {
	kind    string
	members []string
	market  bool
	prev    bool // each hears only the one before
	// tokens: who wrote it, and in what kind of turn
	author map[string]string
	turn   map[string]society.Kind
	shown  map[string][]string // what each got, prompts and inboxes
	n      int
	looked int
	sent   map[string]bool // drafts that a guardrail sent back to their authors
}

func (p *planted) token(who string, k society.Kind) string {
	p.n++
	t := fmt.Sprintf("tok%dq", p.n)
	p.author[t], p.turn[t] = who, k
	return t
}

// allowed is the table of the specification, written down a second time.
func (p *planted) allowed(viewer, token string) bool {
	author, kind := p.author[token], p.turn[token]
	member := false
	for _, m := range p.members {
		member = member || m == viewer
	}
	if author == viewer || viewer == "lead" {
		return true
	}
	if p.sent[token] {
		return false
	}
	switch p.kind {
	case "delegation": // boss = 0, worker = 1
		if viewer == p.members[1] {
			return author != "criteria"
		}
		return author == "task" || kind == "progress"
	case "oversight": // worker = 0, boss = 1
		if viewer == p.members[0] {
			return author == "task" || kind == society.ToReview
		}
		return true
	case "cooperation":
		if author == "task" || author == "shelf" {
			return true
		}
		if p.prev {
			i := strings.Index("abcd", viewer)
			return p.members[(i+len(p.members)-1)%len(p.members)] == author
		}
		return true
	case "competition":
		if member {
			return author == "task"
		}
		return author != "shelf"
	case "coopetition":
		if member {
			return kind != society.ToSubmit && author != "criteria"
		}
		return author == "task" || author == "criteria" || kind == society.ToSubmit
	}
	return false
}

// TestNobodySeesWhatItMustNot plants a token in everything that anybody says in
// a random society, and looks for it in all that anybody gets.
func TestNobodySeesWhatItMustNot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &planted{author: map[string]string{}, turn: map[string]society.Kind{}, shown: map[string][]string{}, sent: map[string]bool{}}
		p.kind = rapid.SampledFrom([]string{"delegation", "oversight", "cooperation", "competition", "coopetition"}).Draw(t, "kind")
		n := 2
		if p.kind != "delegation" && p.kind != "oversight" {
			n = rapid.IntRange(2, 4).Draw(t, "members")
		}
		cast := newCast(nil)
		words := rapid.SampledFrom([]string{"yes", "no", "again", "malformed", "fail"})
		speak := func(ctx context.Context, r llm.Request) (llm.Message, error) {
			name := strings.TrimSuffix(strings.Fields(r.Messages[0].Text)[2], ".")
			var b strings.Builder
			for _, m := range r.Messages {
				b.WriteString(m.Prompt() + "\n")
			}
			cast.mu.Lock()
			defer cast.mu.Unlock()
			p.shown[name] = append(p.shown[name], b.String())
			if strings.Contains(b.String(), "That does not fit") {
				return llm.Message{Text: "still " + p.token(name, "bad")}, nil
			}
			return p.reply(name, words.Draw(t, "word"), string(r.Schema))
		}
		model := &speaking{do: speak}
		s := society.New("soc", society.Options{EscalateTo: "lead", Log: society.NewLog(nil, society.LogOptions{})})
		mk := func(name string) *society.Agent {
			return &society.Agent{Name: name, Speaker: society.Model(llm.Options{Model: model})}
		}
		var members list
		for _, name := range []string{"a", "b", "c", "d"}[:n] {
			p.members = append(p.members, name)
			members = append(members, mk(name))
		}
		if err := s.Add(mk("lead")); err != nil {
			t.Fatal(err)
		}
		s.Put("art", p.token("shelf", ""))
		e := p.edge(t, s, members, mk("judge"), cast)
		task := p.token("task", "")
		r, _ := agent.Run(context.Background(), e, agent.Task{Input: task})
		for viewer, prompts := range p.shown {
			p.look(t, viewer, "a prompt", strings.Join(prompts, "\n"))
		}
		turns := s.Log().Turns(r.RunID)
		for _, viewer := range append(p.members, "judge") {
			for _, turn := range e.View(viewer, turns) {
				p.look(t, viewer, "its view of the trace", turn.Prompt+turn.Said+turn.Why+string(turn.Answer)+turn.Verdict)
			}
		}
	})
}

func (p *planted) look(t *rapid.T, viewer, where, text string) {
	for token := range p.author {
		if strings.Contains(text, token) && !p.allowed(viewer, token) {
			t.Fatalf("%s: %s has in %s %s of %s (%s):\n%s", p.kind, viewer, where, token, p.author[token], p.turn[token], text)
		}
	}
}

// reply is a random answer to whatever was asked, with tokens in it.
func (p *planted) reply(name, word, schema string) (llm.Message, error) {
	switch {
	case word == "fail" && p.n%3 == 0:
		return llm.Message{}, fmt.Errorf("broken %s", p.token(name, "bad"))
	case word == "malformed":
		return llm.Message{Text: p.token(name, "bad")}, nil
	case strings.Contains(schema, `"verdict"`):
		v := "revise"
		if !strings.Contains(schema, "revise") || word == "no" {
			v = "reject"
		}
		return llm.Message{Text: fmt.Sprintf(`{"comments":%q,"verdict":%q}`, p.token(name, society.ToReview), v)}, nil
	case strings.Contains(schema, `"winner"`):
		w := "A"
		if word == "no" && strings.Contains(schema, "none") {
			w = "none"
		}
		return llm.Message{Text: fmt.Sprintf(`{"because":"x","winner":%q}`, w)}, nil
	}
	k := society.ToWork
	if p.kind == "competition" || p.kind == "coopetition" && !strings.Contains(schema, `"coop"`) {
		k = society.ToSubmit
	}
	body := fmt.Sprintf("%q", p.token(name, k))
	if strings.Contains(schema, `"coop"`) {
		body = fmt.Sprintf(`{"coop":%s}`, body)
	}
	switch {
	case strings.Contains(schema, `"agree"`):
		return llm.Message{Text: fmt.Sprintf(`{"agree":%v,"draft":%s}`, word == "yes", body)}, nil
	case strings.Contains(schema, `"progress"`):
		return llm.Message{Text: fmt.Sprintf(`{"draft":%s,"progress":%q}`, body, p.token(name, "progress"))}, nil
	}
	return llm.Message{Text: fmt.Sprintf(`{"draft":%s}`, body)}, nil
}

func (p *planted) edge(t *rapid.T, s *society.Society, members list, judge *society.Agent, cast *cast) *society.Interaction {
	sh := society.Shared{MaxRounds: rapid.IntRange(1, 3).Draw(t, "rounds"), Artifacts: []society.Artifact{{Name: "art"}}}
	if rapid.Bool().Draw(t, "guarded") {
		every := rapid.IntRange(1, 4).Draw(t, "every")
		sh.Guardrails = []workflow.Guardrail{{Name: "g", On: workflow.Revise, Check: func(_ context.Context, draft any, _ map[string]any) (workflow.Finding, error) {
			cast.mu.Lock()
			defer cast.mu.Unlock()
			token := regexp.MustCompile(`tok\d+q`).FindString(fmt.Sprint(draft))
			if p.looked++; token == "" || p.looked%every != 0 {
				return workflow.Finding{}, nil
			}
			p.sent[token] = true
			return workflow.Violates("do it again"), nil
		}}}
	}
	criteria := []string{p.token("criteria", "")}
	resolvers := []society.Resolver{
		society.JudgePicks{Judge: judge, Criteria: criteria, OnNeither: rapid.SampledFrom([]society.OnNeither{"escalate", "retry", "best_effort"}).Draw(t, "neither"), Swap: rapid.Bool().Draw(t, "swap")},
		society.MajorityVote{Voters: list{judge}},
		&society.Escalate{To: "lead"},
	}
	resolve := rapid.SampledFrom(resolvers).Draw(t, "resolve")
	switch p.kind {
	case "delegation":
		return must(s.Connect(members[0], members[1], &society.Delegation{Shared: sh, Instructions: p.token("a", "note")}))
	case "oversight":
		return must(s.Connect(members[0], members[1], &society.Oversight{Shared: sh, Criteria: criteria}))
	case "cooperation":
		p.prev = rapid.Bool().Draw(t, "previous")
		if p.prev {
			sh.Protocol = protocol.Sequential{Sees: protocol.Previous}
		}
		return must(s.Cooperate(members, &society.Cooperation{Shared: sh, Merge: rapid.SampledFrom([]society.Merge{"revise", "append"}).Draw(t, "merge")}))
	case "competition":
		return must(s.Compete(members, &society.Competition{Shared: sh, Resolve: resolve}))
	}
	sh.Artifacts = nil
	return must(s.Negotiate(members, &society.Coopetition{Shared: sh, CooperateOn: []string{"coop"}, CompeteOn: []string{"comp"}, Resolve: resolve}))
}

// speaking is a model of a function.
type speaking struct {
	do func(context.Context, llm.Request) (llm.Message, error)
}

func (s *speaking) Chat(ctx context.Context, r llm.Request, _ func(string) error) (llm.Message, error) {
	return s.do(ctx, r)
}
