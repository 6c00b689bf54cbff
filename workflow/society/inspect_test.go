package society_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"edged/agent/llm"
	"edged/bus/origin"
	"edged/workflow"
	"edged/workflow/society"
	"edged/workflow/society/protocol"
)

// TestSeatsAreWhatRuns: the inspector shows the very prompt that the runtime
// sends.
func TestSeatsAreWhatRuns(t *testing.T) {
	c := newCast(t)
	s := society.New("x", society.Options{})
	s.Put(origin.With(context.Background(), "test"), "art", "OLD")
	e := must(s.Connect(c.agent("boss", review("accept", "")), c.agent("worker", draft("d")), &society.Delegation{Instructions: "be quick", Shared: society.Shared{Artifacts: []society.Artifact{{Name: "art"}}}}))
	seats, err := e.Seats("the task")
	if err != nil || len(seats) != 3 || len(c.asked) != 0 {
		t.Fatalf("got %+v, %v", seats, err)
	}
	run(t, e, "the task")
	for who, s := range map[string]society.Seat{"worker": seats[0], "boss": seats[1]} {
		if want := s.System + "\n" + s.Prompt + "\n"; c.prompts[who][0] != want || c.schemas[who][0] != s.Schema {
			t.Errorf("got  %s\nwant %s", c.prompts[who][0], want)
		}
	}
	if p := seats[2].Prompt; !strings.Contains(p, `Your last draft: "‹draft of worker›"`) || !strings.Contains(p, `Comments: "‹comments of boss›"`) {
		t.Errorf("got %s", p)
	}
	var table []string
	for _, v := range e.Sights() {
		if v.View != society.Nothing {
			table = append(table, v.Viewer+"<-"+v.Author+":"+v.Topic+"="+string(v.View))
		}
	}
	want := "boss<-:task=full boss<-worker:draft=summary boss<-worker:sealed=summary boss<-worker:comments=summary boss<-worker:log=summary " +
		"worker<-:task=full worker<-:criteria=full worker<-:artifact=full worker<-boss:comments=full"
	if got := strings.Join(table, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if lines, err := e.Simulate(1); err != nil || strings.Join(lines, "|") != "round 1: worker → boss|round 1: boss → worker" {
		t.Errorf("got %v, %v", lines, err)
	}
}

// TestCalls: models are counted, with their tools and the person they fall back
// on; functions and peers are not.
// mute is a protocol in which nobody speaks.
type mute struct{ protocol.Protocol }

func (mute) Open([]string) (protocol.Protocol, error) { return mute{}, nil }
func (mute) Next() []string                           { return nil }
func (mute) Listeners(string) []string                { return nil }
func (mute) Advance()                                 {}
func (mute) Stop() string                             { return "" }

func TestCalls(t *testing.T) {
	model := func(name string, tools ...llm.Tool) *society.Agent {
		return &society.Agent{Name: name, Speaker: society.Model(llm.Options{Tools: tools})}
	}
	code := func(name string) *society.Agent {
		return &society.Agent{Name: name, Speaker: society.Func(func(context.Context, society.Prompt) (any, error) { return nil, nil })}
	}
	look := llm.Tool{Name: "look", Effect: llm.Read}
	for _, c := range []struct {
		name string
		make func(s *society.Society) (*society.Interaction, error)
		want int
	}{
		{"oversight", func(s *society.Society) (*society.Interaction, error) {
			return s.Connect(model("a"), model("b"), &society.Oversight{Shared: society.Shared{MaxRounds: 3}})
		}, 3 * (2 + 2)},
		{"code reviews", func(s *society.Society) (*society.Interaction, error) {
			return s.Connect(model("a"), code("b"), &society.Oversight{Shared: society.Shared{MaxRounds: 3}})
		}, 3 * 2},
		{"with tools and a target", func(s *society.Society) (*society.Interaction, error) {
			if err := s.Add(model("boss")); err != nil {
				return nil, err
			}
			return s.Connect(model("a", look), model("b", look), &society.Oversight{OnDeadlock: &society.Escalate{To: "boss"}, Shared: society.Shared{MaxRounds: 1, OnTimeout: society.RetryOnce}})
		}, 2*(2+4+2) + 2},
		{"a judge asked twice", func(s *society.Society) (*society.Interaction, error) {
			return s.Compete(list{model("a"), model("b"), code("c")}, &society.Competition{Resolve: society.JudgePicks{Judge: model("j"), Swap: true, OnNeither: society.RetryNeither}})
		}, 2 * (4 + 4)},
		{"the judge is late", func(s *society.Society) (*society.Interaction, error) {
			return s.Compete(list{code("a"), code("b")}, &society.Competition{Resolve: society.JudgePicks{Judge: model("j")}, Shared: society.Shared{Timeout: time.Second, OnTimeout: society.RetryOnce}})
		}, 2 + 2},
		{"sent back", func(s *society.Society) (*society.Interaction, error) {
			back := workflow.Guardrail{Name: "g", On: workflow.Revise, Check: func(context.Context, any, map[string]any) (workflow.Finding, error) { return workflow.Finding{}, nil }}
			return s.Compete(list{model("a"), model("b")}, &society.Competition{Resolve: society.JudgePicks{Judge: model("j")}, Shared: society.Shared{MaxRounds: 3, Guardrails: []workflow.Guardrail{back}}})
		}, 3*4 + 2},
		{"nobody reviews", func(s *society.Society) (*society.Interaction, error) {
			return s.Connect(model("a"), model("b"), &society.Delegation{NoReview: true})
		}, 2},
		{"votes", func(s *society.Society) (*society.Interaction, error) {
			return s.Compete(list{model("a"), model("b"), code("c")}, &society.Competition{Resolve: society.MajorityVote{}})
		}, 4 + 4},
		{"auction", func(s *society.Society) (*society.Interaction, error) {
			return s.Compete(list{code("a"), code("b")}, &society.Competition{Resolve: society.BestScore{Field: "cost"}})
		}, 0},
		{"coopetition", func(s *society.Society) (*society.Interaction, error) {
			return s.Negotiate(list{model("a"), code("b")}, &society.Coopetition{CooperateOn: []string{"x"}, CompeteOn: []string{"y"}, Resolve: society.BestScore{Field: "y"}, Shared: society.Shared{MaxRounds: 2}})
		}, 2*2 + 2},
	} {
		e := must(c.make(society.New("x", society.Options{})))
		if got := e.Calls(); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

// TestOutline: who decides has a seat, and nobody is asked.
func TestOutline(t *testing.T) {
	k := newCast(t)
	s := society.New("x", society.Options{Description: "a race", EscalateTo: "boss"})
	if err := s.Add(k.agent("boss", review("accept", ""))); err != nil {
		t.Fatal(err)
	}
	must(s.Compete(list{k.agent("a", draft("1")), k.agent("b", draft("2"))}, &society.Competition{Resolve: society.JudgePicks{Judge: k.judge("j", "2")}, Quorum: 1,
		Shared: society.Shared{Name: "race", Artifacts: []society.Artifact{{Name: "route"}}, Timeout: time.Minute}}))
	must(s.Negotiate(list{k.agent("c", draft("1")), k.agent("d", draft("2"))}, &society.Coopetition{CooperateOn: []string{"x"}, CompeteOn: []string{"y"}, Resolve: society.MajorityVote{},
		Shared: society.Shared{Name: "door"}}))
	must(s.Cooperate(list{k.agent("e", draft("1")), k.agent("f", draft("2"))}, &society.Cooperation{MergeBy: k.agent("m", draft("3")), Shared: society.Shared{Name: "both", Protocol: protocol.Broadcast{}}}))
	o := s.Outline(time.Second)
	if len(k.asked) != 0 || len(o.Agents) != 9 || len(o.Problems) != 1 {
		t.Fatalf("got %v", o)
	}
	var seats []string
	for _, e := range o.Edges {
		for _, s := range e.Seats {
			seats = append(seats, fmt.Sprintf("%s:%s:%s:%d", e.Name, s.Agent, s.Kind, s.Round))
		}
	}
	want := "race:a:submit:1 race:b:submit:1 race:j:judge:1 race:boss:escalate:1 " +
		"door:c:work:1 door:d:agree:1 door:c:agree:2 door:c:submit:1 door:d:submit:1 door:c:vote:1 door:d:vote:1 door:boss:escalate:1 " +
		"both:e:work:1 both:f:work:1 both:m:merge:1 both:boss:escalate:1"
	if got := strings.Join(seats, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	race := o.Edges[0]
	if p := race.Seats[2].Prompt; strings.Contains(p, " a") && strings.Contains(p, "of a›") || !strings.Contains(p, `Submission A: "‹submission›"`) {
		t.Errorf("got %s", p)
	}
	if race.Resolve != "JudgePicks by j" || race.Timeout != "1m0s" || fmt.Sprint(race.Escalation, race.Artifacts, race.Quorum) != "[boss] [route] 1" {
		t.Errorf("got %+v", race)
	}
	if p := o.Edges[2].Seats[2].Prompt; !strings.Contains(p, `Draft of e: "‹draft of e›"`) {
		t.Errorf("got %s", p)
	}
}

// TestSightsAreHeard: what the edge would show to all, the protocol may keep
// from some; and who has no turn without what others say has a seat all the
// same.
func TestSightsAreHeard(t *testing.T) {
	k := newCast(t)
	s := society.New("x", society.Options{})
	e := must(s.Cooperate(list{k.agent("a", draft("1")), k.agent("b", draft("2")), k.agent("c", draft("3"))}, &society.Cooperation{
		Merge: society.Append, Shared: society.Shared{Protocol: protocol.Sequential{Sees: protocol.Previous}}}))
	var got []string
	for _, v := range e.Sights() {
		if v.Topic == society.TopicDraft && v.View == society.Full {
			got = append(got, v.Viewer+"<-"+v.Author)
		}
	}
	if strings.Join(got, " ") != "a<-c b<-a c<-b" {
		t.Errorf("got %v", got)
	}
	silent := must(s.Cooperate(list{k.agent("d", draft("1")), k.agent("e", draft("2"))}, &society.Cooperation{
		Merge: society.Append, Shared: society.Shared{Protocol: mute{}}}))
	seats, err := silent.Seats("x")
	if err != nil || len(seats) != 2 || seats[1].Agent != "e" {
		t.Errorf("got %v, %v", seats, err)
	}
}
