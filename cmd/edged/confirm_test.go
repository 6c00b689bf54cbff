package main

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"edged/bus"
)

// asking starts a question and gives what came of it, and its id.
func asking(t *testing.T, b *bus.Bus, p *persons) (id string, end chan error) {
	t.Helper()
	sub, err := b.Subscribe(questionTopic, bus.Queue{})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	end = make(chan error, 1)
	go func() {
		end <- p.confirm(t.Context(), question{Agent: "butler", Tool: "unlock", Args: json.RawMessage(`{"door":"front"}`)})
	}()
	e, err := sub.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id, _ = e.Payload().(map[string]any)["id"].(string)
	return id, end
}

func TestConfirm(t *testing.T) {
	for _, x := range []struct {
		name   string
		source string
		yes    bool
		retain bool
		want   string
	}{
		{"yes over MQTT", "mqtt", true, false, ""},
		{"no over MQTT", "mqtt", false, false, "a person said no"},
		{"a script says yes", "script:main.star", true, false, "nobody confirmed it in time"},
		{"an agent says yes", "agent:butler", true, false, "nobody confirmed it in time"},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := bus.New(bus.Options{})
				p := newPersons(b)
				if err := p.hear(); err != nil {
					t.Fatal(err)
				}
				id, end := asking(t, b, p)
				if _, err := b.Publish(t.Context(), x.source, answerTopic, map[string]any{"id": id, "yes": x.yes}); err != nil {
					t.Fatal(err)
				}
				got := ""
				if err := <-end; err != nil {
					got = err.Error()
				}
				if got != x.want {
					t.Errorf("got %q, want %q", got, x.want)
				}
				if len(p.list()) > 0 {
					t.Error("the question is still open")
				}
				if err := b.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// An answer over MQTT that is none is told of.
func TestAnswerToNothing(t *testing.T) {
	b := bus.New(bus.Options{})
	p := newPersons(b)
	if err := p.hear(); err != nil {
		t.Fatal(err)
	}
	var got []string
	if _, err := b.Tap(unconfirmedTopic, func(e bus.Event) { got = append(got, string(e.Bytes())) }); err != nil {
		t.Fatal(err)
	}
	for _, source := range []string{"mqtt", "script:main.star"} {
		if _, err := b.Publish(t.Context(), source, answerTopic, map[string]any{"id": "gone", "yes": true}); err != nil {
			t.Fatal(err)
		}
	}
	if want := `{"id":"gone","reason":"confirm: nothing waits for an answer","yes":true}`; len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %s", got, want)
	}
}

// The first answer counts; an answer to something else is none.
func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		p := newPersons(b)
		if _, err := p.answer("cli", "", true); err == nil {
			t.Error("an answer to nothing was taken")
		}
		began := time.Now()
		one, first := asking(t, b, p)
		_, second := asking(t, b, p)
		if _, err := p.answer("cli", "", true); err == nil {
			t.Error("an answer to one of two questions was taken")
		}
		if _, err := p.answer("cli", "other", true); err == nil {
			t.Error("an answer to no question was taken")
		}
		if q, err := p.answer("cli", one, false); err != nil || q.String() != `butler wants unlock {"door":"front"}` {
			t.Errorf("%q, %v", q, err)
		}
		if _, err := p.answer("cli", one, true); err == nil {
			t.Error("a second answer was taken")
		}
		if err := <-first; !errors.Is(err, errRefused) {
			t.Errorf("first: %v, want that a person said no", err)
		}
		if err := <-second; err == nil || time.Since(began) != confirmTime {
			t.Errorf("second: %v after %v, want it to lapse after %v", err, time.Since(began), confirmTime)
		}
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
