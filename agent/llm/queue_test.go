package llm_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"edged/agent/llm"
	"edged/agent/llm/llmtest"
	"edged/agent/llm/replay"
)

// modelFunc is a model made of a function.
type modelFunc func(ctx context.Context, r llm.Request, say func(string) error) (llm.Message, error)

func (f modelFunc) Chat(ctx context.Context, r llm.Request, say func(string) error) (llm.Message, error) {
	return f(ctx, r, say)
}

// slow is a model that takes a while and keeps the order in which it was asked.
func slow(d time.Duration, order *[]string) modelFunc {
	return func(ctx context.Context, r llm.Request, _ func(string) error) (llm.Message, error) {
		*order = append(*order, r.Messages[len(r.Messages)-1].Text)
		select {
		case <-time.After(d):
			return llm.Message{Role: llm.Assistant, Text: "ok"}, nil
		case <-ctx.Done():
			return llm.Message{}, ctx.Err()
		}
	}
}

func as(ctx context.Context, p llm.Priority) context.Context { return llm.WithPriority(ctx, p) }

func ExampleQueue() {
	q := llm.NewQueue(llm.QueueOptions{})
	m := q.Front(replay.NewScript(replay.Say("hello")))
	ctx := llm.WithPriority(context.Background(), llm.Person)
	a, _ := m.Chat(ctx, llmtest.Ask("hi"), nil)
	fmt.Println(a.Text)
	for _, l := range q.Status().Lines {
		fmt.Println(l.Priority, l.Served)
	}
	// Output:
	// hello
	// safety 0
	// person 1
	// workflow 0
	// background 0
}

// scripted is a model that passes the conformance suite: it says what the
// suite wants to hear.
func scripted(t *testing.T) llm.Model {
	s := replay.NewScript(
		replay.Answer{When: "kitchen", Always: true, Text: "the kitchen is warm and dry"},
		replay.Answer{When: "turn", Always: true, Do: func(_ context.Context, r llm.Request) (llm.Message, error) {
			if len(r.Tools) == 0 || r.Choice == llm.ChoiceNone {
				return llm.Message{Text: "I have no tool for that."}, nil
			}
			return llm.Message{Calls: []llm.Call{{Name: "turn", Args: []byte(`{"degrees":90}`)}}}, nil
		}},
		replay.Answer{When: "form", Always: true, Text: `{"mood": "calm", "level": 3}`},
		replay.Answer{When: "down", Always: true, Err: &llm.Trouble{Err: fmt.Errorf("test: %w", llm.ErrDown), Remedy: "start it"}},
	)
	s.Vectors(func(text string) []float32 {
		v := make([]float32, 8)
		for i := range text {
			v[i%8] += float32(text[i])
		}
		return v
	})
	return s
}

func traits() llmtest.Traits {
	return llmtest.Traits{
		Chat:   llmtest.Ask("tell me about the kitchen"),
		Pieces: true,
		Call:   llmtest.Offer(llmtest.Ask("turn left"), llm.Tool{Name: "turn", Params: []byte(`{"type":"object","properties":{"degrees":{"type":"integer","minimum":0,"maximum":360}}}`)}),
		Form: llmtest.Under(llmtest.Ask("fill in the form"), `{"type":"object","additionalProperties":false,"required":["mood","level"],
			"properties":{"mood":{"enum":["calm","tense"]},"level":{"type":"integer","minimum":0,"maximum":10}}}`),
		Embeds: true,
		Empty:  llm.ErrDiffers,
		Fails:  []llmtest.Failure{{Name: "down", Request: llmtest.Ask("you are down"), Want: llm.ErrDown}},
	}
}

func TestQueueIsModel(t *testing.T) {
	llmtest.Run(t, func(t *testing.T) llm.Model {
		return llm.NewQueue(llm.QueueOptions{}).Front(scripted(t))
	}, traits())
}

func TestQueueWithoutEmbeddings(t *testing.T) {
	m := llm.NewQueue(llm.QueueOptions{}).Front(modelFunc(nil))
	if _, err := m.(llm.Embedder).Embed(t.Context(), []string{"x"}); !errors.Is(err, llm.ErrNoEmbedding) {
		t.Errorf("got error %v, want one that wraps %q", err, llm.ErrNoEmbedding)
	}
	if i, err := llm.Describe(t.Context(), m); err != nil || i.Embed || !i.Tools {
		t.Errorf("got %+v and error %v, want tools and no embeddings", i, err)
	}
	if err := m.(llm.Warmer).Warm(t.Context()); err != nil {
		t.Error(err)
	}
}

// A society of ten agents with long turns keeps the server busy and the queue
// full; a person never waits for more than the request that is running.
func TestPersonWaitsForOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const turn = 20 * time.Second
		var order []string
		q := llm.NewQueue(llm.QueueOptions{Limit: 6})
		m := q.Front(slow(turn, &order))
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 10 {
			p := []llm.Priority{llm.Background, llm.Workflow}[i%2]
			go func() {
				for ctx.Err() == nil {
					if _, err := m.Chat(as(ctx, p), llmtest.Ask("society"), nil); errors.Is(err, llm.ErrQueueFull) {
						time.Sleep(time.Second)
					}
				}
			}()
		}
		synctest.Wait()
		for i := range 50 {
			time.Sleep(time.Duration(i) * 777 * time.Millisecond)
			start := time.Now()
			if _, err := m.Chat(as(t.Context(), llm.Person), llmtest.Ask("person"), nil); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(start) - turn; d > turn {
				t.Errorf("the person's request waited %v, want at most %v", d, turn)
			}
		}
		cancel()
		time.Sleep(2 * time.Second)
		s := q.Status()
		if s.Running != 0 || s.Waiting != 0 {
			t.Errorf("at the end %d run and %d wait, want none", s.Running, s.Waiting)
		}
		if person := s.Lines[1]; person.Served != 50 || person.Refused != 0 || person.Longest > turn {
			t.Errorf("got %+v, want 50 served, none refused, none after more than %v", person, turn)
		}
		if back := s.Lines[3]; back.Refused == 0 {
			t.Errorf("got %+v, want some refused: the queue was full", back)
		}
	})
}

func TestQueueTimeCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		q := llm.NewQueue(llm.QueueOptions{})
		m := q.Front(slow(time.Minute, &order))
		go m.Chat(t.Context(), llmtest.Ask("long"), nil)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		_, err := m.Chat(ctx, llmtest.Ask("short"), nil)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 5*time.Second {
			t.Errorf("got error %v after %v, want %v after 5s", err, time.Since(start), context.DeadlineExceeded)
		}
		if want := "llm: waited 5s in the queue: context deadline exceeded"; err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if !slices.Equal(order, []string{"long"}) {
			t.Errorf("the model was asked %v, want only the long one", order)
		}
		if w := q.Status().Lines[2]; w.Cancelled != 1 || w.Served != 1 {
			t.Errorf("got %+v, want one served and one cancelled", w)
		}
	})
}

// Cancelling closes the request that runs, and the next one starts at once.
func TestCancelClosesRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		q := llm.NewQueue(llm.QueueOptions{})
		m := q.Front(slow(time.Hour, &order))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { _, err := m.Chat(ctx, llmtest.Ask("a"), nil); ended <- err }()
		synctest.Wait()
		go m.Chat(t.Context(), llmtest.Ask("b"), nil)
		synctest.Wait()
		start := time.Now()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v, want %v", err, context.Canceled)
		}
		synctest.Wait()
		if d := time.Since(start); d != 0 || !slices.Equal(order, []string{"a", "b"}) {
			t.Errorf("after %v the model was asked %v, want a and b at once", d, order)
		}
		time.Sleep(2 * time.Hour)
	})
}

func TestPanicLeavesQueue(t *testing.T) {
	q := llm.NewQueue(llm.QueueOptions{})
	m := q.Front(modelFunc(func(context.Context, llm.Request, func(string) error) (llm.Message, error) { panic("bug") }))
	func() {
		defer func() { recover() }()
		m.Chat(t.Context(), llmtest.Ask("a"), nil)
	}()
	if s := q.Status(); s.Running != 0 {
		t.Errorf("%d run, want none", s.Running)
	}
}

// Of equals the one goes first whose prompt the server has just read, but not
// forever.
func TestWarmFirst(t *testing.T) {
	head := func(agent string) string { return agent + strings.Repeat(" is a member of the society.", 20) }
	synctest.Test(t, func(t *testing.T) {
		var order []string
		q := llm.NewQueue(llm.QueueOptions{Patience: 3})
		m := q.Front(slow(time.Second, &order))
		ask := func(agent, text string) {
			r := llm.Request{Messages: []llm.Message{{Role: llm.System, Text: head(agent)}, {Role: llm.User, Text: text}}}
			go m.Chat(t.Context(), r, nil)
			synctest.Wait()
		}
		ask("a", "a0")
		ask("b", "b1")
		for i := range 5 {
			ask("a", fmt.Sprint("a", i+1))
		}
		ask("b", "b2")
		time.Sleep(time.Minute)
		synctest.Wait()
		// b1 is passed over three times, then b is warm.
		want := []string{"a0", "a1", "a2", "a3", "b1", "b2", "a4", "a5"}
		if !slices.Equal(order, want) {
			t.Errorf("got %v, want %v", order, want)
		}
		if w := q.Status().Lines[2]; w.Warm != 4 {
			t.Errorf("got %d taken for their warmth, want 4", w.Warm)
		}
	})
}

// What two prompts share by chance is not worth being unfair for; a model
// that is in memory is.
func TestWarmthIsWorthIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		q := llm.NewQueue(llm.QueueOptions{})
		one, two := q.Front(slow(time.Second, &order)), q.Front(slow(time.Second, &order))
		ask := func(m llm.Model, text string) {
			go m.Chat(t.Context(), llmtest.Ask(text), nil)
			synctest.Wait()
		}
		ask(one, "You are a cook")
		ask(one, "The weather")
		ask(one, "You are a cook too")
		ask(two, "another model")
		ask(one, "the same model")
		time.Sleep(time.Minute)
		synctest.Wait()
		want := []string{"You are a cook", "The weather", "You are a cook too", "the same model", "another model"}
		if !slices.Equal(order, want) {
			t.Errorf("got %v, want %v", order, want)
		}
	})
}

func TestFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		q := llm.NewQueue(llm.QueueOptions{Limit: 2})
		m := q.Front(slow(time.Second, &order))
		var mu sync.Mutex
		errs := map[string]error{}
		ask := func(p llm.Priority, text string) {
			go func() {
				_, err := m.Chat(as(t.Context(), p), llmtest.Ask(text), nil)
				mu.Lock()
				defer mu.Unlock()
				errs[text] = err
			}()
			synctest.Wait()
		}
		ask(llm.Background, "runs")
		ask(llm.Background, "old")
		ask(llm.Background, "young")
		ask(llm.Background, "refused")
		ask(llm.Person, "person") // takes the place of the young one
		ask(llm.Workflow, "work") // and of the old one
		ask(llm.Workflow, "more") // finds none below it
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []string{"runs", "person", "work"}; !slices.Equal(order, want) {
			t.Errorf("got %v, want %v", order, want)
		}
		for _, name := range []string{"young", "old", "refused", "more"} {
			if !errors.Is(errs[name], llm.ErrQueueFull) {
				t.Errorf("%s got error %v, want one that wraps %q", name, errs[name], llm.ErrQueueFull)
			}
		}
		want := "llm: queue: too many requests wait for the model: 2 do (ask less often, give the work a higher priority, or raise the queue's limit)"
		if got := errs["more"].Error(); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}

func TestInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most := 0, 0
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			running += n
			most = max(most, running)
		}
		m := llm.NewQueue(llm.QueueOptions{InFlight: 3}).Front(modelFunc(func(context.Context, llm.Request, func(string) error) (llm.Message, error) {
			count(1)
			time.Sleep(time.Second)
			count(-1)
			return llm.Message{}, nil
		}))
		start := time.Now()
		for range 9 {
			go m.Chat(t.Context(), llmtest.Ask("x"), nil)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if running != 0 || most != 3 {
			t.Errorf("after %v %d run and %d ran at most, want none and 3", time.Since(start), running, most)
		}
	})
}

// step is one move of the property test.
type step struct {
	op string // "ask", "end", "cancel"
	p  llm.Priority
	id int
}

// The queue is compared with a list that is sorted for each decision. Prompts
// are all alike, so order is priority, then age.
func TestQueueAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit, flight := rapid.IntRange(1, 4).Draw(rt, "limit"), rapid.IntRange(1, 3).Draw(rt, "in flight")
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			return step{
				rapid.SampledFrom([]string{"ask", "ask", "ask", "end", "cancel"}).Draw(rt, "op"),
				llm.Priority(rapid.IntRange(0, 3).Draw(rt, "priority")), rapid.IntRange(0, 20).Draw(rt, "id"),
			}
		}), 1, 40).Draw(rt, "steps")
		var got []string
		synctest.Test(t, func(t *testing.T) { got = onQueue(t, limit, flight, steps) })
		if want := onList(limit, flight, steps); !slices.Equal(got, want) {
			rt.Fatalf("the queue did %v\nthe list says %v", got, want)
		}
	})
}

func onQueue(t *testing.T, limit, flight int, steps []step) (did []string) {
	type job struct {
		cancel context.CancelFunc
		end    chan bool
	}
	var mu sync.Mutex // guards did and running
	note := func(what, name string) {
		mu.Lock()
		defer mu.Unlock()
		did = append(did, what+" "+name)
	}
	jobs := map[string]*job{}
	var running []string
	m := llm.NewQueue(llm.QueueOptions{Limit: limit, InFlight: flight}).Front(modelFunc(
		func(ctx context.Context, r llm.Request, _ func(string) error) (llm.Message, error) {
			name := r.Messages[0].Name
			note("start", name)
			mu.Lock()
			running = append(running, name)
			end := jobs[name].end
			mu.Unlock()
			select {
			case <-ctx.Done():
			case <-end:
			}
			mu.Lock()
			defer mu.Unlock()
			running = slices.DeleteFunc(running, func(n string) bool { return n == name })
			return llm.Message{}, ctx.Err()
		}))
	n := 0
	for _, s := range steps {
		switch s.op {
		case "ask":
			name := fmt.Sprint(n)
			n++
			ctx, cancel := context.WithCancel(as(t.Context(), s.p))
			jobs[name] = &job{cancel, make(chan bool, 1)}
			go func() {
				if _, err := m.Chat(ctx, llm.Request{Messages: []llm.Message{{Name: name}}}, nil); errors.Is(err, llm.ErrQueueFull) {
					note("refuse", name)
				}
			}()
		case "end":
			if len(running) > 0 {
				jobs[running[0]].end <- true
			}
		case "cancel":
			if j := jobs[fmt.Sprint(s.id)]; j != nil {
				j.cancel()
			}
		}
		synctest.Wait()
	}
	before := slices.Clone(did)
	for _, j := range jobs {
		j.cancel()
	}
	synctest.Wait()
	return before
}

func onList(limit, flight int, steps []step) (did []string) {
	type item struct {
		p    llm.Priority
		name string
	}
	var waiting []item
	var running []string
	fill := func() {
		slices.SortStableFunc(waiting, func(a, b item) int { return int(b.p - a.p) })
		for len(running) < flight && len(waiting) > 0 {
			running = append(running, waiting[0].name)
			did = append(did, "start "+waiting[0].name)
			waiting = waiting[1:]
		}
	}
	n := 0
	for _, s := range steps {
		switch s.op {
		case "ask":
			it := item{s.p, fmt.Sprint(n)}
			n++
			if len(running) == flight && len(waiting) == limit {
				last := waiting[len(waiting)-1] // sorted: the youngest of the lowest
				if last.p >= s.p {
					did = append(did, "refuse "+it.name)
					continue
				}
				did = append(did, "refuse "+last.name)
				waiting = waiting[:len(waiting)-1]
			}
			waiting = append(waiting, it)
		case "end":
			if len(running) > 0 {
				running = running[1:]
			}
		case "cancel":
			name := fmt.Sprint(s.id)
			waiting = slices.DeleteFunc(waiting, func(i item) bool { return i.name == name })
			running = slices.DeleteFunc(running, func(n string) bool { return n == name })
		}
		fill()
	}
	return did
}

func BenchmarkQueue(b *testing.B) {
	r := llm.Request{Messages: make([]llm.Message, 12), Tools: make([]llm.Tool, 4)}
	for i := range r.Messages {
		r.Messages[i].Text = strings.Repeat("word ", 40)
	}
	for i := range r.Tools {
		r.Tools[i] = llm.Tool{Name: "tool", Doc: "does a thing", Params: []byte(strings.Repeat(" ", 300))}
	}
	none := modelFunc(func(context.Context, llm.Request, func(string) error) (llm.Message, error) { return llm.Message{}, nil })
	for _, row := range []struct {
		name string
		m    llm.Model
	}{{"edged", llm.NewQueue(llm.QueueOptions{}).Front(none)}, {"limit", none}} {
		b.Run(row.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				row.m.Chat(b.Context(), r, nil)
			}
		})
	}
}
