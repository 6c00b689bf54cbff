package society_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"edged/agent"
	"edged/agent/llm"
	"edged/bus"
	"edged/bus/origin"
	"edged/workflow"
	"edged/workflow/society"
	"edged/workflow/society/protocol"
)

// planted is what is hidden in a random society: every answer of every turn
// carries a token of its own, and so do what tools found, what events said, the
// task, the criteria and the shelf.
type planted struct {
	kind    string
	members []string
	open    bool // a market in which bids are heard
	hears   func(viewer, author string, said, now int) bool
	words   *rapid.Generator[string]
	// tokens: who wrote it, in what kind of turn, and in which round
	author  map[string]string
	turn    map[string]society.Kind
	round   map[string]int
	shown   []shown
	n       int
	looked  int
	cut     map[string]bool // what a guardrail took out of drafts: nobody but its author knows it
	cleaned map[string]bool // what it put in its place
	sent    map[string]bool // drafts that a guardrail sent back to their authors
	agreed  map[string]bool // drafts that settled the shared half of a coopetition: all are told
	seat    map[string]society.Prompt
}

// shown is what somebody got: a prompt, and in which round.
type shown struct {
	viewer, text string
	round        int
}

// The kinds of tokens besides those of turns.
const (
	inLog     society.Kind = "log"     // what a tool found, what an event said, an answer that did not fit
	inSecret  society.Kind = "secret"  // the same in a turn that is sealed
	isRefused society.Kind = "refused" // an event that the edge does not list
)

var aToken = regexp.MustCompile(`tok\d+q`)

func (p *planted) token(who string, k society.Kind) string {
	p.n++
	t := fmt.Sprintf("tok%dq", p.n)
	p.author[t], p.turn[t], p.round[t] = who, k, p.seat[who].Round
	return t
}

// logged is a token of what stands in a work log.
func (p *planted) logged(who string) string {
	if k := p.seat[who].Kind; k == society.ToSubmit || k == society.ToBid {
		return p.token(who, inSecret)
	}
	return p.token(who, inLog)
}

// allowed is the table of the specification, written down a second time; now is
// the round of the prompt, 0 for what is read later.
func (p *planted) allowed(viewer, token string, now int) bool {
	author, kind := p.author[token], p.turn[token]
	member, among := slices.Contains(p.members, viewer), slices.Contains(p.members, author)
	switch {
	case author == viewer:
		return true
	case kind == isRefused, p.cut[token]:
		return false
	case viewer == "lead":
		return true
	case p.sent[token]:
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
		return !among || p.hears(viewer, author, p.round[token], now)
	case "competition":
		if member {
			return author == "task" || author == "criteria" && now != 1 /* by way of a judge's reasons */ || p.open && kind == society.ToSubmit
		}
		return author == "task" || author == "criteria" || kind == society.ToSubmit
	case "coopetition":
		if member {
			return p.agreed[token] || author == "criteria" && now != 1 || author != "criteria" && kind != society.ToSubmit && kind != inSecret && (!among || p.hears(viewer, author, p.round[token], now))
		}
		return author == "task" || author == "criteria" || kind == society.ToSubmit
	}
	return false
}

// sitting is a speaker that notes all that it gets, as data and as text.
type sitting struct {
	society.Speaker
	p    *planted
	cast *cast
}

func (s sitting) Speak(ctx context.Context, q society.Prompt) (society.Answer, error) {
	s.cast.mu.Lock()
	s.p.seat[q.To] = q
	s.p.told(q.Sections)
	s.p.shown = append(s.p.shown, shown{q.To, fmt.Sprint(q.Sections, q.Ask, q.Role), q.Round})
	s.cast.mu.Unlock()
	return s.Speaker.Speak(ctx, q)
}

// told notes what was agreed.
func (p *planted) told(list []society.Section) {
	for _, x := range list {
		if x.Topic == society.TopicAgreed {
			p.agreed[aToken.FindString(x.Text)] = true
		}
	}
}

func (s sitting) Tools(q society.Prompt) []llm.Tool { return s.Speaker.(society.Toolbox).Tools(q) }

// tool finds a token, and says others in an event.
func (p *planted) tool(name string, cast *cast) llm.Tool {
	return llm.Tool{Name: "look", Doc: "Looks.", Effect: llm.Read, Do: func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
		cast.mu.Lock()
		found, told, gossip := p.logged(name), p.logged(name), p.token(name, isRefused)
		broken := p.n%2 == 0
		cast.mu.Unlock()
		if society.Emit(ctx, "news", told) != nil || society.Emit(ctx, "gossip", gossip) == nil {
			return nil, errors.New("events are not as they are listed")
		}
		if broken {
			return nil, fmt.Errorf("broken at %s", found)
		}
		return json.Marshal(found)
	}}
}

// speak is the model of all of them.
func (p *planted) speak(t *rapid.T, cast *cast, r llm.Request) (llm.Message, error) {
	name := strings.TrimSuffix(strings.Fields(r.Messages[0].Text)[2], ".")
	var b strings.Builder
	for _, m := range r.Messages {
		b.WriteString(m.Prompt() + "\n")
	}
	cast.mu.Lock()
	defer cast.mu.Unlock()
	p.shown = append(p.shown, shown{name, b.String(), p.seat[name].Round})
	last := r.Messages[len(r.Messages)-1]
	switch {
	case len(r.Tools) > 0 && last.Role == llm.User && p.words.Draw(t, "looks") != "no":
		return llm.Message{Calls: []llm.Call{{ID: "1", Name: "look", Args: json.RawMessage(`{}`)}}, Finish: llm.FinishCall}, nil
	case len(r.Tools) > 0:
		return llm.Message{Text: "seen"}, nil
	case strings.Contains(b.String(), "That does not fit"):
		return llm.Message{Text: "still " + p.logged(name)}, nil
	}
	return p.reply(name, p.words.Draw(t, "word"), string(r.Schema), b.String())
}

// TestNobodySeesWhatItMustNot plants a token in everything that anybody says in
// a random society, and looks for it in all that anybody gets.
func TestNobodySeesWhatItMustNot(t *testing.T) {
	got := map[string]int{} // how often somebody got what it may see
	check := func(t *rapid.T) {
		b := bus.New(bus.Options{})
		defer b.Close(context.Background())
		p := &planted{author: map[string]string{}, turn: map[string]society.Kind{}, round: map[string]int{}, cut: map[string]bool{}, cleaned: map[string]bool{}, sent: map[string]bool{}, agreed: map[string]bool{}, seat: map[string]society.Prompt{},
			words: rapid.SampledFrom([]string{"yes", "yes", "yes", "no", "again", "malformed", "fail"})}
		p.kind = rapid.SampledFrom([]string{"delegation", "oversight", "cooperation", "competition", "coopetition"}).Draw(t, "kind")
		n := 2
		if p.kind != "delegation" && p.kind != "oversight" {
			n = rapid.IntRange(2, 4).Draw(t, "members")
		}
		cast := newCast(nil)
		model := &speaking{do: func(_ context.Context, r llm.Request) (llm.Message, error) { return p.speak(t, cast, r) }}
		s := society.New("soc", society.Options{EscalateTo: "lead", Log: society.NewLog(nil, society.LogOptions{})})
		mk := func(name string) *society.Agent {
			if rapid.IntRange(0, 3).Draw(t, "is a peer") == 3 {
				return p.afar(t, b, name, cast)
			}
			return &society.Agent{Name: name, Speaker: sitting{society.Model(llm.Options{Model: model, Tools: []llm.Tool{p.tool(name, cast)}}), p, cast}}
		}
		var members list
		for _, name := range []string{"a", "b", "c", "d"}[:n] {
			p.members = append(p.members, name)
			members = append(members, mk(name))
		}
		if err := s.Add(mk("lead")); err != nil {
			t.Fatal(err)
		}
		s.Put(origin.With(context.Background(), "test"), "art", p.token("shelf", ""))
		e := p.edge(t, s, members, mk("judge"), cast)
		task := p.token("task", "")
		r, _ := agent.Run(context.Background(), e, agent.Task{Input: task, Origin: "test"})
		synctest.Wait() // peers have heard what came of it
		for _, x := range p.shown {
			p.look(t, got, x.viewer, "a prompt", x.text, x.round)
		}
		turns := s.Log().Turns(r.RunID)
		for _, viewer := range append(p.members, "judge", "lead") {
			for _, turn := range e.View(viewer, turns) {
				if turn.Raw != nil && turn.Speaker != viewer {
					t.Errorf("%s is shown what a guardrail took out of what %s said", viewer, turn.Speaker)
				}
				text, _ := json.Marshal(turn)
				p.look(t, got, viewer, "its view of the trace", string(text), 0)
			}
		}
	}
	rapid.Check(t, func(rt *rapid.T) { inBubble(t, func() { check(rt) }) })
	for _, want := range []string{"delegation task", "oversight log", "oversight work", "cooperation log", "cooperation work", "competition submit", "coopetition log", "coopetition work"} {
		if got[want] == 0 {
			t.Errorf("nobody ever got anything of another's: %s", want)
		}
	}
}

func (p *planted) look(t *rapid.T, got map[string]int, viewer, where, text string, now int) {
	for token := range p.author {
		switch {
		case !strings.Contains(text, token):
		case !p.allowed(viewer, token, now):
			t.Fatalf("%s: %s has in round %d in %s %s of %s (%s, round %d):\n%s", p.kind, viewer, now, where, token, p.author[token], p.turn[token], p.round[token], text)
		case p.author[token] != viewer && viewer != "lead":
			got[p.kind+" "+cmp.Or(string(p.turn[token]), p.author[token])]++
		}
	}
}

// reply is a random answer to whatever was asked, with tokens in it. Who picks
// nobody says all that it has read.
func (p *planted) reply(name, word, schema, prompt string) (llm.Message, error) {
	switch {
	case word == "fail" && p.n%3 == 0:
		return llm.Message{}, fmt.Errorf("broken %s", p.logged(name))
	case word == "malformed":
		return llm.Message{Text: p.logged(name)}, nil
	case strings.Contains(schema, `"verdict"`):
		v := "revise"
		if !strings.Contains(schema, "revise") || word == "no" {
			v = "reject"
		}
		for _, yes := range []string{"approve", "accept"} {
			if word == "yes" && strings.Contains(schema, yes) {
				v = yes
			}
		}
		return llm.Message{Text: fmt.Sprintf(`{"comments":%q,"verdict":%q}`, p.token(name, society.ToReview), v)}, nil
	case strings.Contains(schema, `"winner"`):
		w, because := "A", "x"
		if word == "no" && strings.Contains(schema, "none") {
			w = "none"
			because = "not " + strings.Join(aToken.FindAllString(prompt, 20), ", nor ")
		}
		return llm.Message{Text: fmt.Sprintf(`{"because":%q,"winner":%q}`, because, w)}, nil
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
	case strings.Contains(schema, `"agree"`) && word == "yes":
		return llm.Message{Text: `{"agree":true}`}, nil
	case strings.Contains(schema, `"agree"`):
		return llm.Message{Text: fmt.Sprintf(`{"agree":%v,"draft":%s}`, word == "yes", body)}, nil
	case strings.Contains(schema, `"progress"`):
		return llm.Message{Text: fmt.Sprintf(`{"draft":%s,"progress":%q}`, body, p.token(name, "progress"))}, nil
	}
	return llm.Message{Text: fmt.Sprintf(`{"draft":%s}`, body)}, nil
}

func (p *planted) edge(t *rapid.T, s *society.Society, members list, judge *society.Agent, cast *cast) *society.Interaction {
	sh := society.Shared{MaxRounds: rapid.IntRange(1, 3).Draw(t, "rounds"), Artifacts: []society.Artifact{{Name: "art"}}, Events: []string{"news"}}
	p.hears = func(string, string, int, int) bool { return true }
	if rapid.Bool().Draw(t, "guarded") {
		every := rapid.IntRange(1, 4).Draw(t, "every")
		sh.Guardrails = []workflow.Guardrail{{Name: "g", On: workflow.Revise, Check: func(_ context.Context, draft any, _ map[string]any) (workflow.Finding, error) {
			cast.mu.Lock()
			defer cast.mu.Unlock()
			token := aToken.FindString(fmt.Sprint(draft))
			if p.looked++; token == "" || p.looked%every != 0 {
				return workflow.Finding{}, nil
			}
			p.sent[token] = true
			return workflow.Violates("do it again"), nil
		}}}
	}
	if rapid.Bool().Draw(t, "cleaned") {
		sh.Guardrails = append(sh.Guardrails, workflow.Guardrail{Name: "c", On: workflow.Sanitize, Check: func(_ context.Context, draft any, _ map[string]any) (workflow.Finding, error) {
			cast.mu.Lock()
			defer cast.mu.Unlock()
			text, err := json.Marshal(draft)
			raw := aToken.FindString(string(text))
			if err != nil || raw == "" || p.cleaned[raw] {
				return workflow.Finding{}, err
			}
			p.cut[raw] = true
			clean := p.token(p.author[raw], p.turn[raw])
			p.cleaned[clean] = true
			var out any
			err = json.Unmarshal([]byte(strings.ReplaceAll(string(text), raw, clean)), &out)
			return workflow.Replace(out), err
		}})
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
		sh.Protocol = p.protocol(t)
		return must(s.Cooperate(members, &society.Cooperation{Shared: sh, Merge: rapid.SampledFrom([]society.Merge{"revise", "append"}).Draw(t, "merge")}))
	case "competition":
		p.open = rapid.Bool().Draw(t, "open")
		if p.open || rapid.Bool().Draw(t, "market") {
			sh.Protocol = &protocol.Market{Heard: p.open, Turns: p.open, Bid: json.RawMessage(`{"type":"object","required":["draft"],"properties":{"draft":{"type":"string","maxLength":200}}}`)}
		}
		return must(s.Compete(members, &society.Competition{Shared: sh, Resolve: resolve}))
	}
	sh.Artifacts, sh.Protocol = nil, p.protocol(t)
	return must(s.Negotiate(members, &society.Coopetition{Shared: sh, CooperateOn: []string{"coop"}, CompeteOn: []string{"comp"}, Resolve: resolve}))
}

// protocol draws one for those who hear each other, and says who does.
func (p *planted) protocol(t *rapid.T) protocol.Spec {
	at := func(name string) int { return slices.Index(p.members, name) }
	switch rapid.SampledFrom([]string{"none", "previous", "broadcast", "moderator", "queue", "own"}).Draw(t, "protocol") {
	case "previous":
		p.hears = func(viewer, author string, _, _ int) bool {
			return at(viewer) == (at(author)+1)%len(p.members)
		}
		return protocol.Sequential{Sees: protocol.Previous}
	case "broadcast": // the first round is sealed
		p.hears = func(_, _ string, said, now int) bool { return said > 1 || now != 1 }
		return protocol.Broadcast{}
	case "moderator":
		p.hears = func(viewer, _ string, said, now int) bool { return said > 1 || now != 1 || viewer == "b" }
		return protocol.Broadcast{Moderator: "b"}
	case "queue":
		return protocol.Queue{}
	case "own":
		own := whims{rapid.SliceOfN(rapid.Bool(), 48, 48).Draw(t, "whims")}
		p.hears = func(viewer, author string, said, _ int) bool { return own.hears(said, at(author), at(viewer)) }
		return own
	}
	return nil
}

// whims is a protocol in which other ones listen in each round.
type whims struct{ yes []bool }

func (w whims) hears(round, author, viewer int) bool { return w.yes[(round%3)*16+author*4+viewer] }

func (w whims) Open(members []string) (protocol.Protocol, error) {
	return &whim{whims: w, members: members, round: 1}, nil
}

type whim struct {
	whims
	members   []string
	at, round int
}

func (w *whim) Next() []string {
	if w.at == len(w.members) {
		return nil
	}
	w.at++
	return w.members[w.at-1 : w.at]
}

func (w *whim) Listeners(speaker string) (list []string) {
	for i, m := range w.members {
		if w.hears(w.round, slices.Index(w.members, speaker), i) {
			list = append(list, m)
		}
	}
	return list
}

func (w *whim) Route(protocol.Message) {}
func (w *whim) Advance()               { w.at = 0; w.round++ }
func (w *whim) Stop() string           { return "" }

// speaking is a model of a function.
type speaking struct {
	do func(context.Context, llm.Request) (llm.Message, error)
}

func (s *speaking) Chat(ctx context.Context, r llm.Request, _ func(string) error) (llm.Message, error) {
	return s.do(ctx, r)
}
