package llm_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent/llm"
	"edged/agent/llm/llmtest"
	"edged/agent/llm/replay"
)

// counted is a model with one answer that counts how often it was asked.
type counted struct {
	info    llm.Info
	infoErr error
	err     error
	said    string // before the error
	mu      sync.Mutex
	asked   int
	read    int // how often it was asked what it can do
}

func (c *counted) Chat(_ context.Context, _ llm.Request, say func(string) error) (llm.Message, error) {
	c.mu.Lock()
	c.asked++
	c.mu.Unlock()
	if c.said != "" && say != nil {
		if err := say(c.said); err != nil {
			return llm.Message{}, err
		}
	}
	if c.err != nil {
		return llm.Message{}, c.err
	}
	return llm.Message{Role: llm.Assistant, Text: c.info.Name}, nil
}

func (c *counted) Describe(context.Context) (llm.Info, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read++
	return c.info, c.infoErr
}

func able(name string) *counted {
	return &counted{info: llm.Info{Name: name, Tools: true, Schema: true, Thinking: true}}
}

func TestChainIsModel(t *testing.T) {
	llmtest.Run(t, func(t *testing.T) llm.Model {
		down := able("down")
		down.err = llm.ErrDown
		return llm.NewChain(llm.ChainOptions{}, llm.Link{Name: "down", Model: down}, llm.Link{Name: "script", Model: scripted(t)})
	}, traits())
}

func TestChainBehindQueueIsModel(t *testing.T) {
	llmtest.Run(t, func(t *testing.T) llm.Model {
		q := llm.NewQueue(llm.QueueOptions{})
		return llm.NewChain(llm.ChainOptions{}, llm.Link{Name: "script", Model: q.Front(scripted(t))})
	}, traits())
}

func TestWhichErrorsPass(t *testing.T) {
	for _, row := range []struct {
		err    error
		passes bool
	}{
		{llm.ErrDown, true},
		{llm.ErrMemory, true},
		{llm.ErrUnknownModel, true},
		{llm.ErrServer, true},
		{llm.ErrNoDone, true},
		{llm.ErrNoTools, true},
		{llm.ErrNoThinking, true},
		{llm.ErrContext, true},
		{llm.ErrQueueFull, true},
		{llm.ErrNoMatch, true},
		{fmt.Errorf("%w: %w", llm.ErrDown, &net.OpError{Op: "dial", Err: context.DeadlineExceeded}), true},
		{llm.ErrCutOff, false},
		{llm.ErrEmpty, false},
		{llm.ErrSchema, false},
		{llm.ErrBadSchema, false},
		{llm.ErrDiffers, false},
		{context.Canceled, false},
		{errors.New("a bug"), false}, // no second request because of a mistake of ours
	} {
		t.Run(row.err.Error(), func(t *testing.T) {
			first, second := able("first"), able("second")
			first.err = &llm.Trouble{Err: fmt.Errorf("test: %w", row.err), Model: "first"}
			var skips []string
			c := llm.NewChain(llm.ChainOptions{Skipped: func(_ context.Context, s llm.Skip) { skips = append(skips, s.Model) }},
				llm.Link{Name: "first", Model: first}, llm.Link{Name: "second", Model: second})
			a, err := c.Chat(t.Context(), llmtest.Ask("x"), nil)
			if row.passes {
				if err != nil || a.Text != "second" || !slices.Equal(skips, []string{"first"}) {
					t.Errorf("got %q, error %v, skips %v; want the answer of the second", a.Text, err, skips)
				}
				return
			}
			if !errors.Is(err, row.err) || second.asked != 0 || len(skips) != 0 {
				t.Errorf("got error %v and %d requests to the second, want the first's error and none", err, second.asked)
			}
		})
	}
}

// What was said can't be unsaid: the next model would begin again.
func TestNoSecondVoice(t *testing.T) {
	first, second := able("first"), able("second")
	first.said, first.err = "The kit", llm.ErrNoDone
	c := llm.NewChain(llm.ChainOptions{}, llm.Link{Name: "first", Model: first}, llm.Link{Name: "second", Model: second})
	_, err := c.Chat(t.Context(), llmtest.Ask("x"), func(string) error { return nil })
	if !errors.Is(err, llm.ErrNoDone) || second.asked != 0 {
		t.Errorf("got error %v and %d requests to the second, want %v and none", err, second.asked, llm.ErrNoDone)
	}
	if a, err := c.Chat(t.Context(), llmtest.Ask("x"), nil); err != nil || a.Text != "second" {
		t.Errorf("got %q and error %v, want the second: nobody listened", a.Text, err)
	}
}

func TestNeeds(t *testing.T) {
	tool := llm.Tool{Name: "stop"}
	for _, row := range []struct {
		name string
		r    llm.Request
		info llm.Info
		err  error
	}{
		{"tools", llmtest.Offer(llmtest.Ask("x"), tool), llm.Info{Schema: true, Thinking: true}, llm.ErrNoTools},
		{"schema", llmtest.Under(llmtest.Ask("x"), `{}`), llm.Info{Tools: true, Thinking: true}, llm.ErrBadSchema},
		{"thinking", llm.Request{Sampling: llm.Sampling{Think: true}}, llm.Info{Tools: true, Schema: true}, llm.ErrNoThinking},
	} {
		t.Run(row.name, func(t *testing.T) {
			first := &counted{info: row.info}
			var skips []llm.Skip
			c := llm.NewChain(llm.ChainOptions{Skipped: func(_ context.Context, s llm.Skip) { skips = append(skips, s) }},
				llm.Link{Name: "first", Model: first}, llm.Link{Name: "second", Model: able("second")})
			for range 3 {
				if a, err := c.Chat(t.Context(), row.r, nil); err != nil || a.Text != "second" {
					t.Fatalf("got %q and error %v, want the second", a.Text, err)
				}
			}
			if first.asked != 0 || first.read != 1 {
				t.Errorf("the first was asked %d times and read %d times, want never and once", first.asked, first.read)
			}
			if len(skips) != 3 || skips[0].Asked || !errors.Is(skips[0].Err, row.err) {
				t.Errorf("got skips %v, want three with %q", skips, row.err)
			}
		})
	}
	choice := llmtest.Offer(llmtest.Ask("x"), tool)
	choice.Choice = llm.ChoiceNone
	c := llm.NewChain(llm.ChainOptions{}, llm.Link{Name: "first", Model: &counted{info: llm.Info{Name: "first"}}})
	if _, err := c.Chat(t.Context(), choice, nil); err != nil {
		t.Errorf("got error %v, want none: no tool may be called anyway", err)
	}
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := able("first"), able("second")
		first.infoErr = llm.ErrDown
		var last llm.Skip
		c := llm.NewChain(llm.ChainOptions{Backoff: time.Second, MaxBackoff: 4 * time.Second, Skipped: func(_ context.Context, s llm.Skip) { last = s }},
			llm.Link{Name: "first", Model: first}, llm.Link{Name: "second", Model: second})
		start := time.Now()
		var tried []int
		for time.Since(start) < 20*time.Second {
			n := first.read
			if _, err := c.Chat(t.Context(), llmtest.Ask("x"), nil); err != nil {
				t.Fatal(err)
			}
			if first.read > n {
				tried = append(tried, int(time.Since(start)/time.Second))
			}
			time.Sleep(500 * time.Millisecond)
		}
		if want := []int{0, 1, 3, 7, 11, 15, 19}; !slices.Equal(tried, want) {
			t.Errorf("tried after %v seconds, want %v", tried, want)
		}
		if want := "first: model server is down, asked again in 3.5s"; last.String() == "" || last.Asked {
			t.Errorf("got skip %q, want one like %q", last, want)
		}
		first.infoErr = nil
		time.Sleep(4 * time.Second)
		if a, _ := c.Chat(t.Context(), llmtest.Ask("x"), nil); a.Text != "first" {
			t.Errorf("got %q, want the first: it is up again", a.Text)
		}
		// One failure is not the ninth.
		first.err = llm.ErrDown
		c.Chat(t.Context(), llmtest.Ask("x"), nil)
		if d := time.Until(last.Until); d != time.Second {
			t.Errorf("left alone for %v, want 1s", d)
		}
	})
}

func TestNoneLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := able("ollama"), able("builtin")
		first.err, second.err = llm.ErrDown, llm.ErrNoMatch
		c := llm.NewChain(llm.ChainOptions{}, llm.Link{Name: "ollama:a", Model: first}, llm.Link{Name: "builtin", Model: second})
		_, err := c.Chat(t.Context(), llmtest.Ask("x"), nil)
		var none *llm.NoneLeft
		if !errors.As(err, &none) || len(none.Skips) != 2 || !errors.Is(err, llm.ErrDown) || !errors.Is(err, llm.ErrNoMatch) {
			t.Errorf("got error %v, want both", err)
		}
		_, err = c.Chat(t.Context(), llmtest.Ask("x"), nil)
		want := "llm: no model could answer: ollama:a: model server is down, asked again in 2s; builtin: nothing that this model knows fits"
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %v", err, want)
		}
		if first.asked != 1 || second.asked != 2 {
			t.Errorf("asked %d and %d times, want 1 and 2", first.asked, second.asked)
		}
		if _, err := llm.NewChain(llm.ChainOptions{}).Chat(t.Context(), llmtest.Ask("x"), nil); !errors.Is(err, llm.ErrUnknownModel) {
			t.Errorf("got error %v of a chain of none", err)
		}
	})
}

func TestChainDescribes(t *testing.T) {
	down := able("down")
	down.infoErr = llm.ErrDown
	c := llm.NewChain(llm.ChainOptions{},
		llm.Link{Name: "intent", Model: &counted{info: llm.Info{Tools: true, Context: 64}}},
		llm.Link{Name: "down", Model: down},
		llm.Link{Name: "big", Model: &counted{info: llm.Info{Schema: true, Context: 4096}}})
	got, err := c.Describe(t.Context())
	if want := (llm.Info{Name: "intent, down, big", Tools: true, Schema: true, Context: 4096}); err != nil || got != want {
		t.Errorf("got %+v and error %v, want %+v", got, err, want)
	}
}

// Vectors of two models can't be compared, so the chain keeps to one.
func TestOneModelEmbeds(t *testing.T) {
	var fail error
	a := embedder{able("a"), func() ([]float32, error) { return []float32{1, 0}, fail }}
	b := embedder{able("b"), func() ([]float32, error) { return []float32{0, 1, 0}, nil }}
	a.info.Embed, b.info.Embed = true, true
	c := llm.NewChain(llm.ChainOptions{}, llm.Link{Name: "none", Model: able("none")}, llm.Link{Name: "a", Model: a}, llm.Link{Name: "b", Model: b})
	if v, err := c.Embed(t.Context(), []string{"x"}); err != nil || len(v[0]) != 2 {
		t.Fatalf("got %v and error %v, want the vector of a", v, err)
	}
	fail = llm.ErrDown
	if v, err := c.Embed(t.Context(), []string{"x"}); !errors.Is(err, llm.ErrDown) {
		t.Errorf("got %v and error %v, want %v", v, err, llm.ErrDown)
	}
}

type embedder struct {
	*counted
	vector func() ([]float32, error)
}

func (e embedder) Embed(_ context.Context, texts []string) ([][]float32, error) {
	v, err := e.vector()
	return slices.Repeat([][]float32{v}, len(texts)), err
}

func ExampleChain() {
	down := replay.NewScript(replay.Fail(llm.ErrDown))
	c := llm.NewChain(
		llm.ChainOptions{Skipped: func(_ context.Context, s llm.Skip) { fmt.Println("skipped", s.Model, "because:", s.Err) }},
		llm.Link{Name: "ollama:qwen2.5:1.5b", Model: down},
		llm.Link{Name: "builtin", Model: replay.NewScript(replay.Say("Done."))},
	)
	a, _ := c.Chat(context.Background(), llmtest.Ask("turn left"), nil)
	fmt.Println(a.Text)
	// Output:
	// skipped ollama:qwen2.5:1.5b because: model server is down
	// Done.
}
