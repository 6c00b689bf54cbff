package builtin_test

import (
	"slices"
	"strings"
	"testing"

	"edged/agent/llm/builtin"
)

func TestContent(t *testing.T) {
	for text, want := range map[string][]string{
		"could you go back 2 meters": {"go back", "back _", "meters"},
		"go 2 meters":                {"go _", "meters"},
		"robot come here":            {"come here"},
		"please go":                  nil,
		"turn it to the left":        {"turn", "left"},
	} {
		if got := builtin.Content(text); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestNotAboutIt: what was meant has no tool; some other is not called for it.
func TestNotAboutIt(t *testing.T) {
	m := model(t)
	for _, text := range []string{
		"go away", "come back", "go on", "robot, come here", "come over here", "go there", "turn back", "get up", "get out", "give me that", "go down", "go out",
		"geh in die Küche", "geh zum kitchen", "va a la cocina", "tourne à gauche", "dreh dich nach links",
	} {
		if got := answers(t, m, text); !strings.HasPrefix(got, "declined") {
			t.Errorf("%q: got %s", text, got)
		}
	}
	for text, want := range map[string]string{
		"go back":              `move{"direction":"backward","meters":1}`,
		"come closer":          `move{"direction":"forward","meters":1}`,
		"turn around":          `turn{"degrees":180,"direction":"left"}`,
		"go back to the dock":  `go_to{"place":"dock"}`,
		"say geh in die Küche": `say{"text":"geh in die Küche"}`,
		"let go":               `put_down{}`,
	} {
		if got := answers(t, m, text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}
