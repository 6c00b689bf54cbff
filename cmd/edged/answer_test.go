package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edged/bus"
	"edged/cmd/edged/internal/config"
	"edged/starlark/lib"
	"edged/workflow/graph"
)

type inquired struct {
	text string
	err  error
}

// inquiring asks in words and gives the question's ID, and what came of it.
func inquiring(t *testing.T, ctx context.Context, b *bus.Bus, p *persons, q lib.Ask) (string, chan inquired) {
	t.Helper()
	sub, err := b.Subscribe(inquiryTopic, bus.Queue{})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	end := make(chan inquired, 1)
	go func() {
		text, err := p.inquire(ctx, newInquiry(q))
		end <- inquired{text, err}
	}()
	e, err := sub.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id, _ := e.Payload().(map[string]any)["id"].(string)
	return id, end
}

var fence = lib.Ask{By: "graph:request", Run: "r1", Path: "3", Prompt: "Go anyway?", Options: []string{"yes", "no"}, Default: "no"}

// Only what came in by MQTT just now, and fits, is an answer.
func TestAnswersOverMQTT(t *testing.T) {
	for _, x := range []struct {
		name, source string
		payload      any
		want         string
		refused      string
	}{
		{"yes", "mqtt", map[string]any{"answer": " Yes"}, "yes", ""},
		{"no", "mqtt:home", map[string]any{"answer": "no"}, "no", ""},
		{"no option", "mqtt", map[string]any{"answer": "perhaps"}, "", `answer: "perhaps" is none of yes, no`},
		{"nothing", "mqtt", map[string]any{"answer": ""}, "", "answer: nothing was said"},
		{"another question", "mqtt", map[string]any{"id": "other", "answer": "yes"}, "", "answer: no question other waits for an answer"},
		{"a script", "script:main.star", map[string]any{"answer": "yes"}, "", ""},
		{"an agent", "agent:butler", map[string]any{"answer": "yes"}, "", ""},
		{"the graph", "graph:request", map[string]any{"answer": "yes"}, "", ""},
		{"a test of the robot", "workflow:request", map[string]any{"answer": "yes"}, "", ""},
		{"a device", "hw:mic", map[string]any{"answer": "yes"}, "", ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := bus.New(bus.Options{})
				p := newPersons(b)
				if err := p.hearWords(); err != nil {
					t.Fatal(err)
				}
				refused, err := b.Subscribe(refusedTopic, bus.Queue{})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				id, end := inquiring(t, ctx, b, p, fence)
				m := x.payload.(map[string]any)
				if m["id"] == nil {
					m["id"] = id
				}
				if _, err := b.Publish(t.Context(), x.source, wordsTopic, m); err != nil {
					t.Fatal(err)
				}
				got := <-end
				if got.text != x.want || x.want == "" && !errors.Is(got.err, context.DeadlineExceeded) {
					t.Errorf("got %q %v, want %q", got.text, got.err, x.want)
				}
				why := ""
				if refused.Stats().Queued > 0 {
					e, _ := refused.Next(t.Context())
					why, _ = e.Payload().(map[string]any)["reason"].(string)
				}
				if why != x.refused {
					t.Errorf("refused: %q, want %q", why, x.refused)
				}
				if len(p.inquiries()) > 0 {
					t.Error("the question is still open")
				}
				refused.Close()
				if err := b.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// The same step has the same ID after a restart; IDs, their beginnings and runs
// name a question; a tool's question is not answered in words.
func TestReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		p := newPersons(b)
		if _, _, err := p.reply("cli", []string{"yes"}); err == nil || err.Error() != "answer: nothing waits for an answer" {
			t.Errorf("got %v", err)
		}
		one, first := inquiring(t, t.Context(), b, p, fence)
		if again := newInquiry(fence).ID; again != one {
			t.Errorf("after a restart it is %s, was %s", again, one)
		}
		_, tool := asking(t, b, p)
		if _, _, err := p.reply("cli", []string{"maybe"}); err == nil || !strings.Contains(err.Error(), "none of yes, no") {
			t.Errorf("got %v, want the options", err)
		}
		where := lib.Ask{By: "society:home", Run: "r2", Path: "1", Prompt: "Where to?"}
		two, second := inquiring(t, t.Context(), b, p, where)
		if _, _, err := p.reply("cli", []string{"yes"}); err == nil || !strings.Contains(err.Error(), "2 questions wait") {
			t.Errorf("got %v, want that there are two", err)
		}
		if q, text, err := p.reply("cli", []string{two[:4], "to", "the", "porch"}); err != nil || text != "to the porch" || q.String() != "home asks: Where to?" {
			t.Errorf("got %v %q %v", q, text, err)
		}
		if got := <-second; got.text != "to the porch" {
			t.Errorf("got %+v", got)
		}
		other := fence
		other.Path, other.Prompt = "4", "Which way?"
		three, third := inquiring(t, t.Context(), b, p, other)
		if _, _, err := p.reply("cli", []string{"r1", "yes"}); err == nil || !strings.Contains(err.Error(), `"r1" may be one of 2 questions`) {
			t.Errorf("got %v, want that the run has two questions", err)
		}
		if _, _, err := p.reply("cli", []string{three, "no"}); err != nil || (<-third).text != "no" {
			t.Errorf("got %v", err)
		}
		if _, ok := p.key('y'); ok {
			t.Error("a key answered one of two questions")
		}
		if _, err := p.answer("cli", "", false); err != nil {
			t.Error(err)
		}
		if err := <-tool; !errors.Is(err, errRefused) {
			t.Errorf("the tool's: %v", err)
		}
		if said, ok := p.key('n'); !ok || said != "no: request asks: Go anyway? [yes/no]" {
			t.Errorf("got %q %v", said, ok)
		}
		if got := <-first; got.text != "no" {
			t.Errorf("got %+v", got)
		}
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// An answer to a form is JSON.
func TestForms(t *testing.T) {
	q := newInquiry(lib.Ask{Prompt: "Plan?", Form: []byte(`{"type":"object"}`)})
	if _, err := q.fits("go"); err == nil || !strings.Contains(err.Error(), `wants JSON of the schema {"type":"object"}`) {
		t.Errorf("got %v", err)
	}
	if text, err := q.fits(`{"a": 1}`); err != nil || text != `{"a": 1}` {
		t.Errorf("got %q %v", text, err)
	}
}

// Questions that nobody answers don't pile up, and a prompt has no hand in the
// terminal.
func TestManyQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		p := newPersons(b)
		ctx, cancel := context.WithCancel(t.Context())
		for range mostInquiries {
			go p.inquire(ctx, newInquiry(lib.Ask{Prompt: "?"}))
		}
		synctest.Wait()
		if _, err := p.inquire(ctx, newInquiry(fence)); !errors.Is(err, graph.ErrLater) {
			t.Errorf("got %v, want that nobody can be asked now", err)
		}
		cancel()
		synctest.Wait()
		if n := len(p.inquiries()); n > 0 {
			t.Errorf("%d questions are still open", n)
		}
		if got := (inquiry{By: "a", Prompt: "\x1b[2Jgo?\nnow"}).String(); got != "a asks:  [2Jgo?\nnow" {
			t.Errorf("got %q", got)
		}
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// Answers of people come in by MQTT only if the settings say so.
func TestAnswersAreSubscribedTo(t *testing.T) {
	for _, confirm := range []bool{false, true} {
		r := &robot{runOptions: runOptions{cfg: &config.Config{}}}
		r.cfg.MQTT.URL, r.cfg.MQTT.Confirm = "mqtt://broker", confirm
		var filters []string
		for _, s := range r.mapping().Subscribe {
			filters = append(filters, s.Filter)
		}
		for _, topic := range []string{answerTopic, wordsTopic} {
			if slices.Contains(filters, topic) != confirm {
				t.Errorf("mqtt.confirm %v: subscribed to %q", confirm, filters)
			}
		}
	}
}
