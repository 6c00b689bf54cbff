package lib_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edged/blackboard"
	"edged/bus"
	"edged/starlark/lib"
)

// swap replaces a version with the given grace.
func (r *rig) swap(old *lib.Behaviour, main string, grace time.Duration) *lib.Behaviour {
	r.t.Helper()
	next := r.load(main)
	ctx, cancel := context.WithTimeout(r.t.Context(), grace)
	defer cancel()
	if err := lib.Swap(ctx, old, next); err != nil {
		r.t.Error(err)
	}
	return next
}

// TestReloadTakesOverWhatWaits: events wait behind a slow handler, longer than
// the grace of a reload, and the version changes. Each is handled, once, in
// order; the one that was begun is cancelled, and that is counted.
func TestReloadTakesOverWhatWaits(t *testing.T) {
	const slow = `
VERSION = %d
def work(n, ctx = None):
    sleep("10s")
    bus.publish("done", n)
%s
`
	for _, c := range []struct {
		name, declare, topic string
		post                 func(r *rig, n int)
	}{
		{"queue", `on("in", lambda ev: work(ev["n"]))`, "in", nil},
		{"named", "def f(ev):\n    work(ev[\"n\"])\non([\"in\", \"other\"], f)", "in", nil},
		{"parallel", "def f(ev):\n    work(ev[\"n\"])\non(\"in\", f, mode = \"parallel\", max_parallel = 1)", "in", nil},
		{"inbox", `subscribe_inbox(agent_name = "cook", handler = lambda m: work(m.content["n"]))`, "", func(r *rig, n int) {
			if err := r.bus.Send(context.Background(), bus.Message{From: "test", To: "cook", Content: map[string]any{"n": n}}); err != nil {
				r.t.Error(err)
			}
		}},
		{"watch", `bb.watch("k/*", lambda key, old, new: work(new))`, "", func(r *rig, n int) {
			if _, err := r.board.Set(context.Background(), "test", fmt.Sprintf("k/%d", n), n, blackboard.SetOptions{}); err != nil {
				r.t.Error(err)
			}
		}},
		{"volunteer", `bb.volunteer("job", lambda q: work(q.task))`, "", func(r *rig, n int) {
			if _, err := r.board.Post(context.Background(), "test", "job", n, blackboard.PostOptions{}); err != nil {
				r.t.Error(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				defer r.close()
				b := r.start(fmt.Sprintf(slow, 1, c.declare))
				post := c.post
				if post == nil {
					post = func(r *rig, n int) { r.publish(c.topic, map[string]any{"n": n}) }
				}
				for n := range 6 {
					post(r, n)
				}
				time.Sleep(11 * time.Second) // one is done, the next has begun
				b = r.swap(b, fmt.Sprintf(slow, 2, c.declare), 2*time.Second)
				post(r, 6) // comes after those that wait
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				want := "[0 2 3 4 5 6]"
				took := b.Takeover()
				if c.name == "volunteer" { // the request that was worked on is offered again
					want = "[0 1 2 3 4 5 6]"
				} else if took.Taken != 4 || took.Cancelled != 1 {
					t.Errorf("%d taken over, %d cancelled; want 4, 1", took.Taken, took.Cancelled)
				}
				if got := fmt.Sprint(r.payloads("done")); got != want {
					t.Errorf("done %s, want %s", got, want)
				}
				if took.Lost != 0 {
					t.Errorf("%d lost", took.Lost)
				}
				if e := r.errors(); e != "" {
					t.Error(e)
				}
				r.stop(b)
			})
		})
	}
}

// One at a time, in order, holds over a reload, too: what the old version has
// begun ends before the new one begins.
func TestReloadKeepsTheOrder(t *testing.T) {
	const main = `
# %d
def f(ev):
    bus.publish("begin", ev["n"])
    sleep("1s")
    bus.publish("end", ev["n"])
on("in", f, mode = "%s")
`
	for mode, want := range map[string]string{"queue": "[b0 e0 b1 e1 b2 e2]", "single": "[b0 e0]", "restart": "[b0 b2 e2]"} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				defer r.close()
				b := r.start(fmt.Sprintf(main, 1, mode))
				r.publish("in", map[string]any{"n": 0})
				time.Sleep(100 * time.Millisecond)
				if mode != "restart" {
					r.publish("in", map[string]any{"n": 1})
				}
				go func() {
					time.Sleep(50 * time.Millisecond)
					r.publish("in", map[string]any{"n": 2})
				}()
				b = r.swap(b, fmt.Sprintf(main, 2, mode), 10*time.Second)
				time.Sleep(time.Minute)
				synctest.Wait()
				var got []string
				r.mu.Lock()
				for _, e := range r.heard {
					if e.Topic == "begin" || e.Topic == "end" {
						got = append(got, fmt.Sprint(e.Topic[:1], e.Payload()))
					}
				}
				r.mu.Unlock()
				if fmt.Sprint(got) != want {
					t.Errorf("got %v, want %s", got, want)
				}
				r.stop(b)
			})
		})
	}
}

// What waited for a handler that the new version doesn't have is counted, and
// an error names it; so are the tasks of background agents.
func TestReloadTellsWhatNobodyTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		b := r.start(`
def slow(ev):
    sleep("1h")
on("in/+", slow)
bb.watch("k", lambda key, old, new: sleep("1h"))
BackgroundAgent(Agent("bg", fn = lambda task: sleep("1h")), subscribe_to = "in/a")
`)
		for range 3 {
			r.publish("in/a", nil)
			r.publish("in/b", nil)
		}
		for n := range 3 {
			if _, err := r.board.Set(t.Context(), "test", "k", n, blackboard.SetOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		b = r.swap(b, `on("elsewhere", lambda ev: 1)`, time.Second)
		synctest.Wait()
		took := b.Takeover()
		if took.Taken != 0 || took.Lost != 7 || took.Dropped != 2 || took.Cancelled != 2 {
			t.Errorf("got %+v, want 0 taken, 7 lost, 2 dropped, 2 cancelled", *took)
		}
		if n := b.Summary().Lost; n != 9 {
			t.Errorf("the summary counts %d lost, want 9", n)
		}
		for _, want := range []string{"5 events waited for slow (box/main.star:4", "in/b (3 times), in/a (2 times)", "2 events waited for lambda", "2 tasks dropped"} {
			if !strings.Contains(r.errors(), want) {
				t.Errorf("got %s, want %q in it", r.errors(), want)
			}
		}
		b = r.swap(b, `on("again", lambda ev: 1)`, time.Second)
		if n := b.Summary().Lost; n != 9 {
			t.Errorf("after another reload the summary counts %d lost, want 9", n)
		}
		r.stop(b)
	})
}

// What handlers set for later goes over: a lamp that was to be switched off is.
func TestReloadCarriesTimers(t *testing.T) {
	const main = `
# %d
def lamp_off(task, ctx):
    bus.publish("off", [task, ctx.cause > 0])
def beat():
    bus.publish("beat")
def set(ev):
    after("1m", lamp_off, task = "hall")
    after("1m", lambda: bus.publish("never"))
    every("1h", beat)
on("set", set)
every("40m", lambda: bus.publish("own"))
def slow():
    bus.publish("slow")
    sleep("25s")
every("10s", slow, mode = "queue")
`
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		b := r.start(fmt.Sprintf(main, 1))
		r.publish("set", nil)
		time.Sleep(32 * time.Second)
		b = r.swap(b, fmt.Sprintf(main, 2), time.Second)
		time.Sleep(27*time.Second + time.Millisecond)
		synctest.Wait()
		if got := fmt.Sprint(r.payloads("off")); got != "[[hall true]]" {
			t.Errorf("after its minute: %s", got)
		}
		time.Sleep(time.Hour)
		if len(r.payloads("beat")) != 1 || len(r.payloads("own")) != 1 || len(r.payloads("off")) != 1 || len(r.payloads("never")) != 0 {
			t.Errorf("beat %v, own %v, off %v, never %v", r.payloads("beat"), r.payloads("own"), r.payloads("off"), r.payloads("never"))
		}
		if e := r.errors(); !strings.Contains(e, "it is no global function") || strings.Contains(e, "hall") {
			t.Errorf("told %s, want the lambda that is lost, alone", e)
		}
		if took := b.Takeover(); took.Taken != 2 || took.Lost != 1 {
			t.Errorf("got %+v, want the firings that waited taken over and one lost", *took)
		}
		r.stop(b)
	})
}

// Twenty reloads, one second apart, in a stream of events for a slow handler:
// each event is handled or was being handled when its run was cancelled.
func TestManyReloadsLoseNothing(t *testing.T) {
	const main = `
# %d
def f(ev):
    bus.publish("begin", ev["n"])
    sleep("300ms")
on("in", f, max_queue = 1000)
`
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		b := r.start(fmt.Sprintf(main, 0))
		const n = 200
		go func() {
			for i := range n {
				r.publish("in", map[string]any{"n": i})
				time.Sleep(100 * time.Millisecond)
			}
		}()
		for v := range 20 {
			time.Sleep(time.Second)
			b = r.swap(b, fmt.Sprintf(main, v+1), 10*time.Millisecond)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		var got []int
		for _, p := range r.payloads("begin") {
			got = append(got, int(p.(int64)))
		}
		if len(got) != n || !slices.IsSorted(got) {
			t.Errorf("%d of %d were begun, in order: %v", len(got), n, slices.IsSorted(got))
		}
		r.stop(b)
	})
}
