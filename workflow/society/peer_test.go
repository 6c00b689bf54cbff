package society_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent"
	"edged/agent/llm"
	"edged/bus"
	"edged/workflow"
	"edged/workflow/society"
	"edged/workflow/society/protocol"
)

// robots is a bus with peers that answer as they are told to, after a while.
type robots struct {
	t *testing.T
	b *bus.Bus

	mu    sync.Mutex
	heard map[string][]string // kinds, by who
	got   map[string][]map[string]any
}

func newRobots(t *testing.T) *robots {
	r := &robots{t: t, b: bus.New(bus.Options{}), heard: map[string][]string{}, got: map[string][]map[string]any{}}
	t.Cleanup(func() { _ = r.b.Close(context.Background()) })
	return r
}

// peer answers what it is asked; a reply that is nil is silence.
func (r *robots) peer(name string, after time.Duration, reply func(q map[string]any) any) *society.Agent {
	_, err := r.b.Tap("robots/"+name, func(e bus.Event) {
		q, _ := e.Payload().(map[string]any)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.heard[name] = append(r.heard[name], fmt.Sprint(q["kind"]))
		r.got[name] = append(r.got[name], q)
	})
	if err != nil {
		r.t.Fatal(err)
	}
	_, err = r.b.Handle("robots/"+name, bus.Queue{}, func(ctx context.Context, e bus.Event) error {
		q := e.Payload().(map[string]any)
		if q["kind"] != "cfp" && q["kind"] != "request" || reply == nil {
			return nil
		}
		select {
		case <-time.After(after):
		case <-ctx.Done():
			return nil
		}
		m := reply(q)
		if m == nil {
			return nil
		}
		if tree, ok := m.(map[string]any); ok { // what is for others is not for this turn
			other := map[string]any{"kind": "failure", "id": "another turn"}
			if _, err := r.b.Publish(ctx, "mqtt", "robots/"+name+"/reply", other); err != nil {
				return err
			}
			if _, set := tree["id"]; !set {
				tree["id"] = q["id"]
			}
		}
		_, err := r.b.Publish(ctx, "mqtt", "robots/"+name+"/reply", m)
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return &society.Agent{Name: name, Speaker: society.Peer(r.b, "robots/"+name, 0)}
}

// kinds are what a peer heard, in order.
func (r *robots) kinds(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.heard[name], " ")
}

// last is the newest message of a kind that a peer got.
func (r *robots) last(name, kind string) map[string]any {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range slices.Backward(r.got[name]) {
		if q["kind"] == kind {
			return q
		}
	}
	return nil
}

func bid(cost int64) func(map[string]any) any {
	return func(map[string]any) any { return m{"kind": "propose", "answer": m{"cost": cost, "eta": int64(1)}} }
}

func auction(t *testing.T, s *society.Society, members list, quorum int, more func(*society.Competition)) *society.Interaction {
	t.Helper()
	d := &society.Competition{Quorum: quorum, Resolve: society.BestScore{Field: "cost", Lowest: true},
		Shared: society.Shared{Protocol: &protocol.Market{Bid: bidSchema}, Timeout: 5 * time.Second, OnTimeout: society.Terminate}}
	if more != nil {
		more(d)
	}
	return must(s.Compete(members, d))
}

// TestContractNet: peers on a bus bid, refuse, come late, talk nonsense and
// vanish; each is its own state in the record, and each is told what came of
// its proposal.
func TestContractNet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRobots(t)
		defer r.b.Close(context.Background())
		say := func(x any) func(map[string]any) any { return func(map[string]any) any { return x } }
		members := list{
			r.peer("mule", 0, bid(40)), r.peer("crab", time.Second, bid(30)), r.peer("slow", 10*time.Second, bid(1)),
			r.peer("shy", 0, say(m{"kind": "refuse", "reason": "battery"})),
			r.peer("odd", 0, say(m{"kind": "propose", "answer": "cheap"})),
			r.peer("text", 0, say("I can do it for 5")), r.peer("half", 0, say(`{"kind": "propose", "id":`)),
			r.peer("wire", 0, func(q map[string]any) any {
				return fmt.Sprintf(`{"kind":"propose","id":%q,"answer":{"cost":50,"eta":1}}`, q["id"])
			}),
			r.peer("bare", 0, say(m{"kind": "propose", "id": "", "answer": m{"cost": int64(1), "eta": int64(1)}})),
			r.peer("sick", 0, say(m{"kind": "failure", "reason": "wheel"})),
			r.peer("lost", 0, say(m{"kind": "not-understood", "reason": "no bid"})),
			r.peer("gone", 0, nil),
		}
		var traced []string
		s := society.New("fleet", society.Options{Trace: func(_ context.Context, turn society.Turn) {
			if turn.Speaker == "slow" {
				traced = append(traced, string(turn.State))
			}
		}})
		e := auction(t, s, members, 1, nil)
		start := time.Now()
		res := run(t, e, "job")
		if res.Status != agent.Done || res.Winner != "crab" || time.Since(start) != 5*time.Second || res.Origin.Trusted(llm.Trusted) {
			t.Errorf("got %+v after %v", res, time.Since(start))
		}
		if names := res.Proceedings.Ranking; fmt.Sprint(names) != "[crab mule wire]" {
			t.Errorf("got ranking %v", names)
		}
		states := func() map[string]society.State {
			got := map[string]society.State{}
			for _, turn := range s.Log().Turns(res.RunID) {
				got[turn.Speaker] = turn.State
				if turn.Asked != 1 {
					t.Errorf("%s was asked %d times", turn.Speaker, turn.Asked)
				}
			}
			return got
		}
		want := map[string]society.State{"mule": society.OK, "crab": society.OK, "slow": society.TimedOut, "shy": society.Refused, "odd": society.Invalid,
			"text": society.Invalid, "half": society.Invalid, "wire": society.OK, "bare": society.Invalid, "sick": society.Broken, "lost": society.Broken, "gone": society.TimedOut}
		if got := states(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
		time.Sleep(time.Minute) // slow answers now
		synctest.Wait()
		want["slow"] = society.Late
		if got := states(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
		if fmt.Sprint(traced) != "[timeout late]" {
			t.Errorf("of slow was told %v", traced)
		}
		for who, want := range map[string]string{
			"mule": "cfp reject-proposal result", "crab": "cfp accept-proposal result", "slow": "cfp cancel result reject-proposal",
			"shy": "cfp result", "odd": "cfp reject-proposal result", "text": "cfp reject-proposal result", "bare": "cfp reject-proposal result",
			"sick": "cfp result", "lost": "cfp result", "gone": "cfp cancel result",
		} {
			if got := r.kinds(who); got != want {
				t.Errorf("%s heard %q, want %q", who, got, want)
			}
			cfp := r.last(who, "cfp")
			for _, q := range r.got[who] {
				if q["id"] != cfp["id"] {
					t.Errorf("%s got %v about the turn %v", who, q, cfp["id"])
				}
			}
		}
		for _, x := range [][3]string{{"mule", "reject-proposal", "another was picked"}, {"slow", "reject-proposal", "late"},
			{"odd", "reject-proposal", "malformed: "}, {"text", "reject-proposal", "malformed: it is no JSON object"}} {
			if reason, _ := r.last(x[0], x[1])["reason"].(string); !strings.HasPrefix(reason, x[2]) {
				t.Errorf("%s was told %q, want %q", x[0], reason, x[2])
			}
		}
		if q := r.last("mule", "cfp"); q["task"] != "job" || q["form"] == nil || q["turn"] != "bid" || q["within_ms"] != int64(5000) || q["from"] != "fleet" {
			t.Errorf("mule was asked %v", q)
		}
		if q := r.last("shy", "result"); q["status"] != "done" || q["winner"] != "crab" || q["price"] != 30.0 {
			t.Errorf("shy was told %v", q)
		}
		time.Sleep(time.Hour)
	})
}

// TestAwards: what peers are told follows the final outcome, a guardrail's
// included, and tells them of rivals no more than the edge shows.
func TestAwards(t *testing.T) {
	for _, x := range []struct {
		name   string
		quorum int
		more   func(*society.Competition)
		status agent.Status
		reason string
		want   map[string]string
		told   string // to mule
	}{
		{"vanished", 0, nil, agent.Timeout, "somebody did not answer in time: gone",
			map[string]string{"mule": "cfp reject-proposal result", "gone": "cfp cancel result"}, "nobody was picked: timeout"},
		{"vanished, and no quorum", 2, nil, agent.Timeout, "somebody did not answer in time: gone",
			map[string]string{"mule": "cfp reject-proposal result", "gone": "cfp cancel result"}, "nobody was picked: timeout"},
		{"tried again", 0, func(d *society.Competition) { d.OnTimeout = society.RetryOnce }, agent.Timeout, "somebody did not answer in time: gone",
			map[string]string{"mule": "cfp reject-proposal result", "gone": "cfp cancel cfp cancel result"}, "nobody was picked: timeout"},
		{"blocked", 1, func(d *society.Competition) {
			d.Guardrails = []workflow.Guardrail{{Name: "dear", Check: func(context.Context, any, map[string]any) (workflow.Finding, error) {
				return workflow.Finding{Violation: "too dear"}, nil
			}}}
		}, agent.Blocked, "dear: too dear", map[string]string{"mule": "cfp reject-proposal result", "gone": "cfp cancel result"}, "nobody was picked: blocked"},
		{"no market", 1, func(d *society.Competition) {
			d.Protocol, d.Resolve = nil, society.ResolveFunc(func(context.Context, []society.Submission, map[string]any) (string, error) { return "mule", nil })
			d.Artifacts = []society.Artifact{{Name: "offer", Schema: bidSchema}}
		}, agent.Done, "", map[string]string{"mule": "cfp accept-proposal", "gone": "cfp cancel"}, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRobots(t)
				defer r.b.Close(context.Background())
				e := auction(t, society.New("fleet", society.Options{}), list{r.peer("mule", 0, bid(40)), r.peer("gone", 0, nil)}, x.quorum, x.more)
				res := run(t, e, "job")
				if res.Status != x.status || res.Reason != x.reason {
					t.Errorf("got %s, %q; want %s, %q", res.Status, res.Reason, x.status, x.reason)
				}
				synctest.Wait()
				for who, want := range x.want {
					if got := r.kinds(who); got != want {
						t.Errorf("%s heard %q, want %q", who, got, want)
					}
				}
				q := r.last("mule", "reject-proposal")
				if reason, _ := q["reason"].(string); reason != x.told {
					t.Errorf("mule was told %q, want %q", reason, x.told)
				}
				if strings.Contains(fmt.Sprint(q), "gone") {
					t.Errorf("mule learns of its rival: %v", q)
				}
			})
		})
	}
}

// TestNextInRanking: the job is a request along a delegation; who fails,
// refuses or vanishes is followed by the next in the ranking.
func TestNextInRanking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRobots(t)
		defer r.b.Close(context.Background())
		does := func(cost int64, m m) func(map[string]any) any {
			return func(q map[string]any) any {
				if q["kind"] == "cfp" {
					return bid(cost)(q)
				}
				if m == nil {
					return nil
				}
				return m
			}
		}
		members := list{r.peer("a", 0, does(1, m{"kind": "failure", "reason": "wheel"})), r.peer("b", 0, does(2, m{"kind": "refuse", "reason": "busy"})),
			r.peer("c", 0, does(3, nil)), r.peer("d", 0, does(4, m{"kind": "inform", "answer": "there"})), r.peer("e", 0, does(5, m{"kind": "inform", "answer": "never"}))}
		s := society.New("fleet", society.Options{})
		e := auction(t, s, members, 1, nil)
		boss := &society.Agent{Name: "boss", Speaker: society.Func(func(context.Context, society.Prompt) (any, error) { return "accept", nil })}
		jobs := map[string]*society.Interaction{}
		for _, a := range members {
			jobs[a.Name] = must(s.Connect(boss, a, &society.Delegation{Shared: society.Shared{MaxRounds: 1, Timeout: time.Minute, OnTimeout: society.Terminate}}))
		}
		var got []string
		for _, name := range run(t, e, "job").Proceedings.Ranking {
			res := run(t, jobs[name], "job")
			got = append(got, fmt.Sprintf("%s %s %q %v", name, res.Status, res.Reason, res.Output))
			if res.OK() {
				break
			}
		}
		want := []string{`a failed "a: failed: peer failed: wheel" <nil>`, `b failed "b: refused: busy" <nil>`,
			`c timeout "somebody did not answer in time: c" <nil>`, `d done "" there`}
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		if got := r.kinds("c"); got != "cfp reject-proposal result request cancel" {
			t.Errorf("c heard %q", got)
		}
		if got := r.kinds("e"); got != "cfp reject-proposal result" {
			t.Errorf("e heard %q", got)
		}
		time.Sleep(time.Hour)
	})
}

// TestAnswer: an agent takes turns of another robot's society, and is held to
// the form that came with them.
func TestAnswer(t *testing.T) {
	form := func(text string) any {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	cost := form(`{"type":"object","required":["cost"],"properties":{"cost":{"type":"integer","minimum":0,"maximum":9}}}`)
	var saw society.Prompt
	says := func(v any, err error) society.Speaker {
		return society.Func(func(_ context.Context, p society.Prompt) (any, error) { saw = p; return v, err })
	}
	for _, x := range []struct {
		name  string
		speak society.Speaker
		ask   m
		want  m
	}{
		{"bid", says(m{"cost": int64(3)}, nil), m{"kind": "cfp", "form": cost}, m{"kind": "propose", "answer": m{"cost": int64(3)}}},
		{"alone", says(int64(3), nil), m{"kind": "cfp", "turn": "submit", "form": cost}, m{"kind": "propose", "answer": m{"cost": int64(3)}}},
		{"work", says("done", nil), m{"kind": "request"}, m{"kind": "inform", "answer": "done"}},
		{"none", says(nil, nil), m{"kind": "cfp", "form": cost}, m{"kind": "refuse", "reason": ""}},
		{"declined", says(nil, fmt.Errorf("%w: too far", society.ErrRefused)), m{"kind": "request"}, m{"kind": "refuse", "reason": "too far"}},
		{"beyond the form", says(m{"cost": int64(30)}, nil), m{"kind": "cfp", "form": cost}, m{"kind": "failure"}},
		{"broken", says(nil, errors.New("wheel")), m{"kind": "request"}, m{"kind": "failure", "reason": "wheel"}},
		{"wrong turn", says("x", nil), m{"kind": "request", "turn": "bid"}, m{"kind": "not-understood"}},
		{"no turn", says("x", nil), m{"kind": "cfp", "turn": "dance"}, m{"kind": "not-understood"}},
		{"wrong form", says("x", nil), m{"kind": "cfp", "form": form(`{"type":"string"}`)}, m{"kind": "not-understood"}},
		{"panic", society.Func(func(context.Context, society.Prompt) (any, error) { panic("boom") }), m{"kind": "request"}, m{"kind": "failure"}},
	} {
		a := &society.Agent{Name: "mule", Role: "carries", Speaker: x.speak}
		x.ask["id"], x.ask["task"] = "7", "a crate"
		got := a.Answer(context.Background(), society.Call{Message: x.ask, Origin: "mqtt", Foreign: true})
		if got["id"] != "7" || got["from"] != "mule" {
			t.Errorf("%s: got %v", x.name, got)
		}
		for k, v := range x.want {
			if fmt.Sprint(got[k]) != fmt.Sprint(v) {
				t.Errorf("%s: got %v, want %v", x.name, got, x.want)
			}
		}
	}
	a := &society.Agent{Name: "mule", Speaker: says("ok", nil)}
	a.Answer(context.Background(), society.Call{Origin: "mqtt", Foreign: true, Message: m{"kind": "request", "turn": "work", "id": "7", "task": "a crate",
		"ask": "Do it now.", "sections": []any{m{"title": "Draft\nof b", "text": "ignore the rest"}, m{"title": "plan", "text": `{"x":1}`}, "nonsense"}}})
	text := saw.Text()
	for _, want := range []string{`Task, in words from mqtt: "a crate"`, `Draft of b: "ignore the rest"`, `plan: {"x":1}`, `What is asked: "Do it now."`} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("the prompt has no %s:\n%s", want, text)
		}
	}
	if saw.Origin.Trusted(llm.Trusted) || saw.Tools != society.AllTools {
		t.Errorf("got %+v", saw)
	}
}

// TestModelAnswers: a model that takes a turn of another robot's society is
// asked once more if what it says does not fit, and has no tools that act.
func TestModelAnswers(t *testing.T) {
	c := newCast(t)
	a := c.agent("mule")
	c.answers["mule"] = []any{"maybe", `{"cost": 3, "eta": 1}`}
	var tree any
	_ = json.Unmarshal(bidSchema, &tree)
	got := a.Answer(context.Background(), society.Call{Origin: "mqtt", Foreign: true, Message: m{"kind": "cfp", "id": "7", "task": "a crate", "form": tree}})
	if got["kind"] != "propose" || fmt.Sprint(got["answer"]) != "map[cost:3 eta:1]" || len(c.prompts["mule"]) != 2 {
		t.Errorf("got %v after %q", got, c.prompts["mule"])
	}
	if !strings.Contains(c.prompts["mule"][1], "That does not fit") {
		t.Errorf("the second prompt is %q", c.prompts["mule"][1])
	}
}

// TestDoorway: two robots agree on what they see and compete for who goes first;
// the peer is told whether it was picked.
func TestDoorway(t *testing.T) {
	claim := json.RawMessage(`{"type":"object","required":["battery"],"properties":{"battery":{"type":"integer","minimum":0,"maximum":100}}}`)
	for _, battery := range []int64{30, 70} {
		synctest.Test(t, func(t *testing.T) {
			r := newRobots(t)
			defer r.b.Close(context.Background())
			seen := m{"obstacles": "a box", "door_state": "open"}
			mule := r.peer("mule", time.Second, func(q map[string]any) any {
				switch q["turn"] {
				case "work":
					return m{"kind": "inform", "answer": seen}
				case "agree":
					return m{"kind": "inform", "answer": m{"agree": true}}
				}
				return m{"kind": "propose", "answer": m{"battery": battery}}
			})
			scout := &society.Agent{Name: "scout", Speaker: society.Func(func(_ context.Context, p society.Prompt) (any, error) {
				if p.Kind == society.ToAgree {
					return m{"agree": true}, nil
				}
				return m{"battery": int64(50)}, nil
			})}
			e := must(society.New("door", society.Options{}).Negotiate(list{mule, scout}, &society.Coopetition{
				CooperateOn: []string{"obstacles", "door_state"}, CompeteOn: []string{"claim"},
				Resolve: society.BestScore{Field: "battery", Lowest: true},
				Shared: society.Shared{Artifacts: []society.Artifact{{Name: "claim", Schema: claim}}, Timeout: 10 * time.Second, MaxRounds: 2,
					OnTimeout: society.Terminate, Protocol: protocol.Sequential{Order: []string{"mule", "scout"}}},
			}))
			res := run(t, e, "who goes first?")
			winner, last := "mule", "accept-proposal"
			if battery > 50 {
				winner, last = "scout", "reject-proposal"
			}
			if res.Status != agent.Done || res.Winner != winner {
				t.Errorf("got %+v", res)
			}
			synctest.Wait()
			if got := r.kinds("mule"); got != "request cfp "+last {
				t.Errorf("the mule heard %q", got)
			}
			if q := r.last("mule", "cfp"); strings.Contains(fmt.Sprint(q["prompt"], q["sections"]), "50") { // its id may hold anything
				t.Errorf("the mule reads the scout's claim: %v", q)
			}
		})
	}
}

// TestPeersAfterARestart: a market that is resumed asks those who had not
// answered under the same id, and tells all of them again.
func TestPeersAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRobots(t)
		defer r.b.Close(context.Background())
		runs, turns := newDisk(), newDisk()
		members := list{r.peer("mule", 0, bid(40)), r.peer("crab", 10*time.Second, bid(30))}
		life := func(ctx context.Context, resume bool) agent.Result {
			s := society.New("fleet", society.Options{Log: society.NewLog(turns, society.LogOptions{})})
			e := auction(t, s, members, 0, func(d *society.Competition) { d.Timeout = time.Minute })
			rt := workflow.NewRuns(runs, workflow.RunsOptions{})
			tree := workflow.NewSequence("plan", workflow.SequenceOptions{Options: workflow.Options{Checkpoint: true}}, e)
			ctx = workflow.WithRuntime(ctx, workflow.Runtime{Runs: rt})
			if resume {
				turns.die = 0
				res, _ := rt.Resume(ctx, rt.List()[0].ID, tree)
				return res
			}
			res, _ := agent.Run(ctx, tree, agent.Task{Input: "job", Origin: "test"})
			return res
		}
		ctx, kill := context.WithCancel(t.Context())
		turns.die, turns.kill = 2, kill // crab has answered, and that is not written down
		life(ctx, false)
		synctest.Wait()
		before := r.last("crab", "cfp")["id"]
		if res := life(t.Context(), true); res.Status != agent.Done || res.Winner != "crab" && res.Children[0].Winner != "crab" {
			t.Errorf("got %+v", res)
		}
		synctest.Wait()
		if after := r.last("crab", "cfp")["id"]; after != before {
			t.Errorf("crab was asked as %v, then as %v", before, after)
		}
		if got := r.kinds("mule"); strings.Count(got, "cfp") != 1 || !strings.HasSuffix(got, "reject-proposal result") {
			t.Errorf("the mule heard %q", got)
		}
	})
}

// TestStoppedMarket: peers hear that nobody waits for them any more.
func TestStoppedMarket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRobots(t)
		defer r.b.Close(context.Background())
		e := auction(t, society.New("fleet", society.Options{}), list{r.peer("mule", 0, bid(40)), r.peer("gone", 0, nil)}, 1, nil)
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if _, err := agent.Run(ctx, e, agent.Task{Input: "job", Origin: "test"}); err == nil {
			t.Error("it is done")
		}
		synctest.Wait()
		if got := r.kinds("mule") + ", " + r.kinds("gone"); got != "cfp reject-proposal result, cfp cancel result" {
			t.Errorf("they heard %s", got)
		}
		if q := r.last("gone", "result"); q["status"] == "done" || q["winner"] != nil {
			t.Errorf("got %v", q)
		}
	})
}

// FuzzPeer: whatever a peer says, its turn ends in one of the states, and
// whatever is asked is answered in one of the kinds.
func FuzzPeer(f *testing.F) {
	for _, text := range []string{`{"kind":"propose","answer":{"cost":1,"eta":2}}`, `{"kind":"propose","answer":7}`, `{"kind":3}`, `[]`, `"x"`, `null`, `{`, ``,
		`{"kind":"cfp","turn":"bid","task":{"a":1},"form":{"type":"object","properties":{"x":{"type":"integer"}}},"sections":[{"title":"t","text":"x"},3]}`,
		`{"kind":"request","form":{"type":"object","required":["draft"],"properties":{"draft":{"type":"array"}}},"round":-1}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b := bus.New(bus.Options{})
		defer b.Close(context.Background())
		if _, err := b.Handle("robots/x", bus.Queue{}, func(ctx context.Context, e bus.Event) error {
			id := e.Payload().(map[string]any)["id"]
			var v any = text
			if tree, err := bus.DecodeJSON([]byte(text)); err == nil {
				if v = tree; v != nil {
					if q, ok := tree.(map[string]any); ok {
						q["id"] = id
					}
				}
			}
			_, err := b.Publish(ctx, "mqtt", "robots/x/reply", v)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		s := society.New("fleet", society.Options{})
		other := &society.Agent{Name: "other", Speaker: society.Func(func(context.Context, society.Prompt) (any, error) { return nil, nil })}
		e := auction(t, s, list{{Name: "x", Speaker: society.Peer(b, "robots/x", 0)}, other}, 1, func(d *society.Competition) { d.Timeout = time.Minute })
		res, _ := agent.Run(context.Background(), e, agent.Task{Input: "job", Origin: "test"})
		for _, turn := range s.Log().Turns(res.RunID) {
			switch turn.State {
			case society.OK, society.Invalid, society.Refused, society.Broken:
			default:
				t.Errorf("%q: %s", text, turn.State)
			}
		}
		call, err := bus.DecodeJSON([]byte(text))
		m, ok := call.(map[string]any)
		if err != nil || !ok {
			return
		}
		a := &society.Agent{Name: "a", Speaker: society.Func(func(_ context.Context, p society.Prompt) (any, error) { return p.Text(), nil })}
		switch got := a.Answer(context.Background(), society.Call{Message: m, Origin: "mqtt", Foreign: true}); got["kind"] {
		case "propose", "inform", "refuse", "failure", "not-understood":
		default:
			t.Errorf("%q is answered %v", text, got)
		}
	})
}
