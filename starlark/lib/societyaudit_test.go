package lib_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent"
	"edged/agent/llm"
	"edged/agent/llm/replay"
)

// TestSocietyIsAudited: what tools do in turns is in the audit, and told, with
// the name of who did it and whose words led to it.
func TestSocietyIsAudited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		var text bytes.Buffer
		r.host.Audit = llm.NewAudit(&text, nil)
		m := replay.NewScript(replay.Call("go", map[string]any{"place": "dock"}), replay.Say("There."), replay.Say(`{"draft":"there"}`), replay.Say(`{"comments":"","verdict":"accept"}`))
		r.host.Models = func(string, string) (llm.Model, error) { return m, nil }
		b := r.start(`
def go(place):
    """Drive.

    Args:
      place: one of hall, dock
    """
    return "there"

e = Society("home").connect(Agent("pm", model = "m"), Agent("dev", model = "m", tools = [Tool(go, effect = "write")]), Delegation())
on("go", lambda ev: bus.publish("out", e.run("to the dock").receipts))
`)
		defer r.stop(b)
		r.publish("go", nil)
		synctest.Wait()
		if got := text.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, `"agent":"dev","origin":"test","tool":"go","args":{"place":"dock"},"ran":true`) {
			t.Errorf("got %s, %s", got, r.errors())
		}
		if got := fmt.Sprint(r.payloads("out")); !strings.Contains(got, "tool:go") {
			t.Errorf("got %s", got)
		}
		if got := r.payloads("edged/agent/dev/tool"); len(got) != 1 {
			t.Errorf("got %v", got)
		}
	})
}

// together is a model that notes how many ask it at once.
type together struct {
	mu        sync.Mutex // guards the rest
	now, most int
}

func (m *together) Chat(ctx context.Context, r llm.Request, _ func(string) error) (llm.Message, error) {
	m.mu.Lock()
	m.now++
	m.most = max(m.most, m.now)
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.now--
		m.mu.Unlock()
	}()
	if err := ctx.Err(); err != nil {
		return llm.Message{}, err
	}
	if strings.Contains(string(r.Schema), "verdict") {
		return llm.Message{Text: `{"comments":"","verdict":"approve"}`}, nil
	}
	return llm.Message{Text: `{"draft":"x"}`}, nil
}

// TestSocietyRunsSideBySide: an interaction may run several times at once, and
// each has its own turns.
func TestSocietyRunsSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		m := &together{}
		r.host.Models = func(string, string) (llm.Model, error) { return m, nil }
		b := r.start(`
s = Society("home")
e = s.connect(Agent("a", model = "m"), Agent("b", model = "m"), Oversight())
both = Parallel("both", [e, e, Sequence("s", [e, e])])
on("go", lambda ev: bus.publish("out", [[len(c.turns), c.run_id] for c in both.run("x").children[:2]]))
on("go", lambda ev: bus.publish("out2", len(e.run("x").turns)))
`)
		defer r.stop(b)
		for range 10 {
			r.publish("go", nil)
		}
		synctest.Wait()
		for _, p := range append(r.payloads("out2"), 2) {
			if fmt.Sprint(p) != "2" {
				t.Errorf("got %v", p)
			}
		}
		if n := len(r.payloads("out2")); n != 10 || len(r.errors()) != 0 {
			t.Errorf("got %d, %s", n, r.errors())
		}
		for _, p := range r.payloads("out") {
			for _, c := range p.([]any) {
				if c.([]any)[0] != int64(2) {
					t.Errorf("got %v", p)
				}
			}
		}
		runs := map[string]int{}
		for _, id := range b.Turns().Runs() {
			runs[fmt.Sprint(len(b.Turns().Turns(id)))]++
		}
		if runs["2"] != 10 || runs["8"] != 10 {
			t.Errorf("got %v", runs)
		}
	})
}

// TestTurnsAreCounted: the trace tells what a turn cost.
func TestTurnsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		said := []string{`{"draft":"x"}`, "maybe", `{"comments":"","verdict":"approve"}`}
		m := chatting(func() (llm.Message, error) {
			time.Sleep(time.Second)
			text := said[0]
			said = said[1:]
			return llm.Message{Text: text, Usage: agent.Usage{Calls: 1, PromptTokens: 30, OutputTokens: 4}}, nil
		})
		r.host.Models = func(string, string) (llm.Model, error) { return m, nil }
		b := r.start(`
e = Society("home").connect(Agent("a", model = "m"), Agent("b", model = "m"), Oversight())
on("go", lambda ev: e.run("x"))
`)
		defer r.stop(b)
		r.publish("go", nil)
		time.Sleep(time.Minute)
		var got []string
		for _, p := range r.payloads("edged/society/home/turn") {
			x := p.(map[string]any)
			got = append(got, fmt.Sprint(x["speaker"], x["verdict"], x["asked"], x["calls"], x["prompt_tokens"], x["output_tokens"], x["elapsed"]))
		}
		if want := "[a<nil> 1 1 30 4 1 bapprove2 2 60 8 2]"; fmt.Sprint(got) != want {
			t.Errorf("got %v, want %s; %s", got, want, r.errors())
		}
	})
}

// chatting is a model of a function.
type chatting func() (llm.Message, error)

func (c chatting) Chat(context.Context, llm.Request, func(string) error) (llm.Message, error) {
	return c()
}
