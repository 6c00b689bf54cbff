package train

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"edged/agent/llm"
	"edged/agent/llm/builtin"
	"edged/agent/llm/builtin/engine"
)

func small() engine.Config {
	return engine.Config{Vocab: 320, Dim: 64, Layers: 2, Heads: 2, FF: 96, Ctx: 512, Eps: 1e-5, Theta: 10000}
}

func demoVoice(t testing.TB) *voice {
	t.Helper()
	p, err := read(Demo())
	if err != nil {
		t.Fatal(err)
	}
	return newVoice(p, 1, 1)
}

// TestGradient: the analytic gradient agrees with a numerical one on weights of
// every kind, along a random direction so that rounding averages out.
func TestGradient(t *testing.T) {
	n, err := engine.New(small(), 3)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for _, p := range n.Params { // larger weights make the differences measurable
		for i := range p.W {
			p.W[i] += float32(rng.NormFloat64() * 0.1)
		}
	}
	v := demoVoice(t)
	e := v.row(v.vocabulary(320))
	a := newAdam(n, 1, InTurn)
	w := a.workers[0]
	loss := func() float64 { a.transpose(); l, _ := w.run(e); return l }
	loss()
	g := map[*engine.Param][]float32{}
	for p, x := range w.grads {
		g[p] = slices.Clone(x)
	}
	for _, p := range n.Params {
		dir := make([]float32, len(p.W))
		var want, norm float64
		for i := range dir {
			dir[i] = float32(rng.NormFloat64())
			norm += float64(g[p][i]) * float64(g[p][i])
			want += float64(dir[i]) * float64(g[p][i])
		}
		const h = 1e-3
		move := func(k float32) {
			for i := range dir {
				p.W[i] += k * dir[i]
			}
		}
		move(h)
		up := loss()
		move(-2 * h)
		down := loss()
		move(h)
		if got := (up - down) / (2 * h); math.Abs(got-want) > 0.03*math.Sqrt(norm)+0.05*math.Abs(want) {
			t.Errorf("%s: numerical %.4f, analytic %.4f (norm %.3f)", p.Name, got, want, math.Sqrt(norm))
		}
	}
}

// TestEngineAgrees: the engine, token by token, comes to the states of the
// training pass.
func TestEngineAgrees(t *testing.T) {
	n, err := engine.New(small(), 3)
	if err != nil {
		t.Fatal(err)
	}
	v := demoVoice(t)
	e := v.row(v.vocabulary(320))
	a := newAdam(n, 1, InTurn)
	a.transpose()
	w := a.workers[0]
	w.run(e)
	s := n.Session(rowLen)
	d := n.Config.Dim
	for i := 0; i < rowLen && e.starts[i] == 0; i++ {
		s.Step(e.tokens[i])
		for j, got := range s.Hidden() {
			if want := w.xf[i*d+j]; math.Abs(float64(got-want)) > 1e-4 {
				t.Fatalf("position %d: engine %v, training %v", i, got, want)
			}
		}
	}
}

// TestLearns: a few steps make the loss fall, the same way each time, whoever
// runs the workers; the file is one that the model can be made of.
func TestLearns(t *testing.T) {
	var first, last float64
	o := Options{Steps: 12, Workers: 2, Rows: 4, Config: small(), Spawn: spawn}
	o.Progress = func(p Progress) {
		if p.Step == 1 {
			first = p.Loss
		}
		last = p.Loss
	}
	make := func(o Options) []byte {
		f, err := Train(t.Context(), Demo(), o)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := f.Write(&b, engine.Q8); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	one := make(o)
	if last >= first {
		t.Errorf("the loss went from %.3f to %.3f", first, last)
	}
	o.Spawn = InTurn
	if !bytes.Equal(one, make(o)) {
		t.Error("the same seed, steps and workers gave another file")
	}
	m, err := builtin.New(builtin.Options{Data: one})
	if err != nil {
		t.Fatal(err)
	}
	k := m.Known()
	if len(k.Tools) != len(Demo().Tools) || !slices.Contains(k.Tools[1].Values["degrees"], "180") {
		t.Errorf("the file says it knows %+v", k)
	}
	if _, err := Evaluate(t.Context(), m, Demo(), 5, 1, []string{"hello"}); err != nil {
		t.Error(err)
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	o := Options{Rows: 1, Config: small(), Progress: func(p Progress) {
		if p.Step == 2 {
			cancel()
		}
		if p.Step > 2 {
			t.Errorf("step %d after the end", p.Step)
		}
	}}
	if f, err := Train(ctx, Demo(), o); !errors.Is(err, context.Canceled) || f != nil {
		t.Errorf("got %v, %v", f, err)
	}
}

// TestLimit: a run that is given a time sets its steps by the first ones.
func TestLimit(t *testing.T) {
	var p Progress
	o := Options{Rows: 1, Config: small(), Limit: time.Nanosecond, Progress: func(now Progress) { p = now }}
	if _, err := Train(t.Context(), Demo(), o); err != nil || p.Step != 5 {
		t.Errorf("got %+v, %v", p, err)
	}
}

// TestSamples: what is made up is what it says: valid calls of known tools, and
// phrasings held out never show up in training.
func TestSamples(t *testing.T) {
	v := demoVoice(t)
	tools, calls := map[string]int{}, 0
	for range 3000 {
		s := v.sample(false)
		if s.tool == nil {
			tools[""]++
			continue
		}
		calls++
		var c struct {
			Name      string
			Arguments map[string]any
		}
		if err := json.Unmarshal([]byte(s.answer), &c); err != nil || c.Name != s.tool.Name {
			t.Fatalf("%q: %s: %v", s.user, s.answer, err)
		}
		for _, p := range s.tool.schema.Props {
			if _, ok := c.Arguments[p.Name]; p.Required && !ok {
				t.Fatalf("%q: %s lacks %s", s.user, s.answer, p.Name)
			}
		}
		if n, ok := c.Arguments["degrees"].(float64); ok && (n < 1 || n > 360) {
			t.Fatalf("%q: %v degrees", s.user, n)
		}
		tools[c.Name]++
	}
	if len(tools) != len(Demo().Tools)+1 || tools[""] < 700 {
		t.Errorf("of 3000: %v", tools)
	}
}

func TestPhrases(t *testing.T) {
	params := json.RawMessage(`{"type":"object","properties":{"room":{"enum":["hall","kitchen"]},"on":{"type":"boolean"}},"required":["room","on"]}`)
	for text, want := range map[string]string{
		"light {room":                      "not closed",
		"light (on|off":                    "not closed",
		"light on) in {room}":              "closes nothing",
		"light {on}":                       "what room is",
		"light {on} in {place}":            "{place} is no parameter",
		"(turn|put) {on} {room}":           "",
		"[please] {on} in {room}":          "",
		"{on} [the light in [the]] {room}": "",
	} {
		_, err := read(Robot{Tools: []Tool{{Name: "light", Params: params, Say: []Phrase{{Text: text}}}}})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	for name, r := range map[string]Robot{
		"no tools":           {},
		"no example phrases": {Tools: []Tool{{Name: "light"}}},
		"level is no":        {Tools: []Tool{{Name: "light", Say: []Phrase{{Text: "light", Args: map[string]any{"level": 1}}}}}},
	} {
		if _, err := read(r); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %q", err, name)
		}
	}
}

func TestFromTool(t *testing.T) {
	one := FromTool(llm.Tool{Name: "wave", Doc: "Waves.", Effect: llm.Write})
	one.Say = []Phrase{{Text: "wave (hello|goodbye)"}}
	p, err := read(Robot{Tools: []Tool{one}})
	if err != nil {
		t.Fatal(err)
	}
	k := p.known().Tools[0]
	if k.Name != "wave" || !k.Motion || !slices.Equal(k.Begins, []string{"wave"}) {
		t.Errorf("got %+v", k)
	}
}

// TestHeldByItself: if no phrases are held out, every sixth is.
func TestHeldByItself(t *testing.T) {
	var say []Phrase
	for i := range 12 {
		say = append(say, Phrase{Text: "wave " + inWords(i)})
	}
	p, err := read(Robot{Tools: []Tool{{Name: "wave", Say: say}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.tools[0].held) != 2 || len(p.tools[0].say) != 10 {
		t.Errorf("%d held, %d said", len(p.tools[0].held), len(p.tools[0].say))
	}
}

func TestInWords(t *testing.T) {
	for n := range 1000 {
		want := number(float64(n))
		if got := builtin.Hear(inWords(n) + " meters").Text; got != want+" meters" {
			t.Errorf("%d is said %q and heard %q", n, inWords(n), got)
		}
	}
}
