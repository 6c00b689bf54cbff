package intent

import (
	"fmt"
	"testing"
	"time"
)

// household is 1,000 sentences with slots, as a large house has them.
func household() ([]Intent, Options) {
	things := []string{"light", "lamp", "fan", "heater", "blind", "door", "window", "radio", "kettle", "pump"}
	verbs := []string{"turn on", "turn off", "open", "close", "start", "pause", "check", "show me", "fetch", "find"}
	forms := []string{
		"[please] %s [the] %s[s] in [the] {room}", "%s [all] [the] %s[s] (in|at) <room>", "%s [the] {name} %s", "%s [the] %s[s] for {minutes} minute[s]", "%s [the] %s to {percent}[%%| percent]",
		"[can you] %s [my] %s (now|later|again)", "(%s;[the] %s;in {room})", "%s %s number {minutes}", "%s [the] %s called {name}", "%s [the] %s (by|with) {name} in {room}",
	}
	var ins []Intent
	for v, verb := range verbs {
		for i, thing := range things {
			in := Intent{Tool: fmt.Sprintf("tool_%d_%d", v, i), Response: "OK."}
			for _, f := range forms {
				in.Sentences = append(in.Sentences, fmt.Sprintf(f, verb, thing))
			}
			ins = append(ins, in)
		}
	}
	var rooms, names []string
	for i := range 40 {
		rooms = append(rooms, fmt.Sprintf("room %c%c", 'a'+i%26, 'a'+i/26))
		names = append(names, fmt.Sprintf("name%c%c [small|big] one", 'a'+i%26, 'a'+i/26))
	}
	rooms = append(rooms, "kitchen", "living room", "hall")
	names = append(names, "uncle bob")
	return ins, Options{
		Lists: map[string]List{"room": Words(rooms...), "name": Words(names...), "minutes": {Range: &Range{From: 1, To: 100}}, "percent": {Range: &Range{To: 100}}},
		Rules: map[string]string{"room": "[the] {room}"},
	}
}

func BenchmarkCompile1000(b *testing.B) {
	ins, o := household()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compile(ins, o); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	ins, o := household()
	m := compile(b, o, ins...)
	for _, c := range []struct {
		name, say string
		ok        bool
	}{
		{"short", "open blind number five", true},
		{"long", "please turn on the lights in the living room", true},
		{"numbers", "turn off the heater for twenty one minutes", true},
		{"permuted", "in kitchen turn on the radio", true},
		{"misheard", "turn on the lites in the kitchin", true},
		{"chat", "what is the capital of France", false},
		{"near", "turn on the lights in the cellar", false},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got, ok := m.Match(c.say); ok != c.ok {
					b.Fatal(ok, got)
				}
			}
		})
	}
}

func TestCompilesInTime(t *testing.T) {
	ins, o := household()
	start := time.Now()
	m := compile(t, o, ins...)
	took := time.Since(start)
	t.Logf("%d sentences, %d states, %d words, %v", len(m.sentences), len(m.states), len(m.words), took)
	if took > 2*time.Second { // 200 ms is the aim, BenchmarkCompile1000 measures; this catches an explosion
		t.Errorf("took %v", took)
	}
	if len(m.states) > 100_000 {
		t.Errorf("%d states", len(m.states))
	}
}
