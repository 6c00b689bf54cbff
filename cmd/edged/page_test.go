package main

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edged/bus"
	"edged/hw"
)

// Who hangs is named, and asked again once it has come back.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPage()
		free := make(chan struct{})
		well := func(context.Context) error { return nil }
		hangs := func(context.Context) error { <-free; return nil }
		ask := func() string {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			if err := p.health(ctx, [...]hw.Probe{well, hangs, well}); err != nil {
				return err.Error()
			}
			return "well"
		}
		for range 3 {
			if got, want := ask(), "actuators: it does not answer"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		close(free)
		synctest.Wait()
		if got := ask(); got != "well" {
			t.Errorf("afterwards: %s", got)
		}
		err := p.health(t.Context(), [...]hw.Probe{well, func(context.Context) error { panic("oh") }, well})
		if want := "actuators: internal fault: oh"; err == nil || err.Error() != want {
			t.Errorf("a probe that breaks: %v, want %s", err, want)
		}
	})
}

// A card tells of the last run: what was asked, what tools really did, how it
// ended.
func TestDeeds(t *testing.T) {
	b := bus.New(bus.Options{})
	d, err := watchDeeds(b)
	if err != nil {
		t.Fatal(err)
	}
	say := func(what string, v any) {
		if _, err := b.Publish(t.Context(), "agent:butler", "edged/agent/butler/"+what, v); err != nil {
			t.Fatal(err)
		}
	}
	card := func() (c agentCard) {
		d.tell(func(name string) *agentCard { c.Name = name; return &c })
		return c
	}
	say("start", map[string]any{"task": "light the hall", "origin": "page"})
	say("model", map[string]any{"prompt_tokens": 200, "output_tokens": 20})
	for i := range 2 * lastTools {
		said := map[string]any{"tool": "light", "args": map[string]any{"n": i}, "ran": i%4 != 1}
		if i%4 == 2 {
			said["error"] = "jammed"
		}
		say("tool", said)
	}
	c := card()
	if !c.Busy || c.Task != "light the hall" || c.Origin != "page" || c.Tokens != 220 || c.Status != "" {
		t.Errorf("while it runs: %+v", c)
	}
	if c.Asked != 16 || c.Proved != 8 || len(c.Tools) != lastTools {
		t.Errorf("%d tools asked, %d proved, %d kept; want 16, 8, %d", c.Asked, c.Proved, len(c.Tools), lastTools)
	}
	for i, want := range []string{"", "it did not run", "jammed", ""} {
		if got := c.Tools[i]; got.Error != want || !strings.Contains(string(got.Args), "n") {
			t.Errorf("tool %d: %+v, want error %q", i, got, want)
		}
	}
	say("end", map[string]any{"status": "done", "reply": "It is lit.", "elapsed": 0.5})
	if c := card(); c.Busy || c.Status != "done" || c.Reply != "It is lit." || c.Elapsed != 0.5 || c.Ended.IsZero() {
		t.Errorf("when it has ended: %+v", c)
	}
	say("start", map[string]any{"task": "again"})
	if c := card(); !c.Busy || c.Task != "again" || c.Asked != 0 || c.Status != "" || len(c.Tools) > 0 {
		t.Errorf("the next run: %+v", c)
	}
	for i := range 2 * mostAgents {
		if _, err := b.Publish(t.Context(), "x", "edged/agent/helper"+strconv.Itoa(i)+"/start", nil); err != nil {
			t.Fatal(err)
		}
	}
	if len(d.of) > mostAgents {
		t.Errorf("%d agents are remembered", len(d.of))
	}
	d.close()
	if err := b.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// Metrics of one name stand together, and what is odd in a label is escaped.
func TestExposition(t *testing.T) {
	x := &exposition{lines: map[string][]string{}}
	x.add("edged_a_total", 1, "name", "x")
	x.add("edged_b", 0.5)
	x.add("edged_a_total", 2, "name", "a \"b\"\\\n")
	want := "# TYPE edged_a_total counter\nedged_a_total{name=\"x\"} 1\nedged_a_total{name=\"a \\\"b\\\"\\\\\\n\"} 2\n# TYPE edged_b gauge\nedged_b 0.5\n"
	if got := string(x.bytes()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// What comes from elsewhere is text on the page, never markup.
func TestPlainPageEscapes(t *testing.T) {
	var m markup
	evil := `"><script>alert(1)</script>`
	m.questions(questions{
		Confirm: []openConfirm{{question{ID: evil, Origin: evil}, evil}},
		Answer:  []openInquiry{{inquiry{ID: evil, Options: []string{evil}}, evil, evil}, {inquiry{ID: evil, Form: []byte(evil)}, evil, evil}},
	}, true)
	if text := m.String(); strings.Contains(text, "<script") || strings.Contains(text, `""`) {
		t.Errorf("markup of others: %s", text)
	}
}
