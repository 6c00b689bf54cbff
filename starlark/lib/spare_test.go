package lib

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"edged/agent"
	"edged/blackboard"
	"edged/bus"
)

const spareScript = `
def handle(ev):
    if ev["hold"] == "log":
        log.info("held")
    elif ev["hold"] == "fail":
        fail("no")
    return ev["n"] + 1

def handle_ctx(ev, ctx):
    log.info("held") if ev["hold"] == "log" else None

def leaf(task):
    if task.endswith("hold"):
        log.info("held")
    return task

on("box/go", handle)
on("box/ctx", handle_ctx)
tree = Sequence("tree", [leaf, leaf], pass_task = True)
`

// holder keeps the context of whatever is logged, as any part of the runtime
// may that gets one from a script.
type holder struct {
	mu   sync.Mutex // guards held
	held []held
}

// held is a context with what it said when it was given out.
type held struct {
	ctx context.Context
	run *run
	was string
}

// says is all that a run knows of itself.
func says(r *run) string {
	seq, hops := bus.CauseOf(r)
	return fmt.Sprintln(seq, hops, r.source, r.agent(), r.args, r.handler, r.more != nil && r.more.task != nil)
}

func (h *holder) Enabled(context.Context, slog.Level) bool { return true }
func (h *holder) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h *holder) WithGroup(string) slog.Handler            { return h }
func (h *holder) Handle(ctx context.Context, r slog.Record) error {
	if r.Message != "held" {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	x := runOf(ctx)
	h.held = append(h.held, held{ctx, x, says(x)})
	return nil
}

// settled checks that what is held is as it was, and gives how much it is.
func (h *holder) settled(t *testing.T) int {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	all := map[*run]bool{}
	for _, x := range h.held {
		if all[x.run] {
			t.Errorf("two runs are one: %s", x.was)
		}
		all[x.run] = true
		if now := says(x.run); now != x.was || runOf(x.ctx) != x.run {
			t.Errorf("a run that somebody holds has changed:\nit was %sit is  %s", x.was, now)
		}
	}
	return len(all)
}

// The run of a handler, or of a function in a tree, is used again for the next
// one if nobody can hold it: that is worth a third of what an event costs. One
// that was given out, or that takes a ctx, or that failed, is never used again.
func TestARunThatIsHeldIsNotUsedAgain(t *testing.T) {
	events := bus.New(bus.Options{})
	board, err := blackboard.Open(events, blackboard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := &holder{}
	b, err := Load(t.Context(), &Host{Name: "box", Bus: events, Board: board, Log: slog.New(h)},
		fstest.MapFS{"main.star": {Data: []byte(spareScript)}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	handlers := map[string]*listener{}
	for p := range b.parts {
		if l, ok := p.(*listener); ok {
			handlers[l.filters[0]] = l
		}
	}
	// One event at a time: the handler is done with it when the next is given.
	reused := map[*run]int{}
	for i := range 300 {
		topic, hold := "box/go", []string{"", "", "log", "", "fail", "log"}[i%6]
		if i%5 == 0 {
			topic = "box/ctx"
		}
		l := handlers[topic]
		before := l.spare.Load()
		e := unheard(t, events, topic, map[string]any{"n": int64(i), "hold": hold})
		_ = l.handle(bus.WithCause(t.Context(), e), e)
		switch after := l.spare.Load(); {
		case (hold != "" || topic == "box/ctx") && after != nil:
			t.Fatalf("%s %d %q: a run is kept that somebody may hold", topic, i, hold)
		case hold == "" && topic == "box/go" && after == nil:
			t.Fatalf("%s %d: the run is not kept", topic, i)
		case hold == "" && before != nil && before != after:
			t.Fatalf("%s %d: the run that was kept is not used", topic, i)
		case after != nil:
			reused[after]++
		}
	}
	if len(reused) < 20 || len(reused) > 200 {
		t.Errorf("%d runs were used again", len(reused))
	}
	v, err := agentKind.Unwrap(b.program.Module("main.star").Globals["tree"])
	if err != nil {
		t.Fatal(err)
	}
	var beside sync.WaitGroup
	for worker := range 4 {
		beside.Add(1)
		go func() {
			defer beside.Done()
			for i := range 100 {
				task := fmt.Sprint(worker, " ", i) + strings.Repeat(" hold", i%3/2)
				if r, err := agent.Run(t.Context(), v, agent.Task{Input: task}); err != nil || r.Reply != task {
					t.Errorf("got %q, %v, want %q", r.Reply, err, task)
				}
			}
		}()
	}
	beside.Wait()
	if n := h.settled(t); n < 150 {
		t.Errorf("%d runs were held: nothing was tested", n)
	}
	if err := b.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	_ = board.Close()
	_ = events.Close(context.Background())
}

// unheard publishes an event that no handler hears, and gives it.
func unheard(t *testing.T, b *bus.Bus, topic string, v any) bus.Event {
	t.Helper()
	e, err := b.Publish(t.Context(), "test", "quiet/"+topic, v)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
