package builtin_test

import (
	"errors"
	"strings"
	"testing"

	"edged/agent/llm"
)

// answers tells what is made of a sentence: a call, or why there is none.
func answers(t *testing.T, m llm.Model, text string) string {
	t.Helper()
	a, err := m.Chat(t.Context(), ask(text), nil)
	if errors.Is(err, llm.ErrNoMatch) {
		return "declined: " + err.Error()
	} else if err != nil {
		t.Fatal(err)
	}
	return a.Calls[0].Name + string(a.Calls[0].Args)
}

// TestOneThingAtATime: of two commands, none is done.
func TestOneThingAtATime(t *testing.T) {
	m := model(t)
	for _, text := range []string{
		"turn left and then right", "go to the kitchen and turn on the light", "turn left and go to the kitchen", "turn left, then right",
		"please turn left and drive two meters forward", "pick up the cup and put it down", "turn on the light in the kitchen and in the hall",
	} {
		if got := answers(t, m, text); !strings.HasPrefix(got, "declined") {
			t.Errorf("%q: got %s", text, got)
		}
	}
	for text, want := range map[string]string{
		"say hello and goodbye":                     `say{"text":"hello and goodbye"}`,
		"say first left and then right":             `say{"text":"first left and then right"}`,
		"go and fetch the ball":                     `pick_up{"object":"ball"}`,
		"go ahead and turn left":                    `turn{"degrees":90,"direction":"left"}`,
		"and now turn left":                         `turn{"degrees":90,"direction":"left"}`,
		"turn left two hundred and seventy degrees": `turn{"degrees":270,"direction":"left"}`,
		"drive two and a half meters forward":       `move{"direction":"forward","meters":2.5}`,
	} {
		if got := answers(t, m, text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}
