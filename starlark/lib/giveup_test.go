package lib_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"edged/background"
	"edged/starlark/lib"
)

// worker runs by itself and crashes when it is told to; a restart of it is told
// by edged/background/worker/start.
const worker = `
def work(task):
    if task == "crash":
        fail("no legs")
    bus.publish("did", task)
def status(ev):
    bus.publish("status", bg.status())
bg = BackgroundAgent(Agent("worker", fn = work), subscribe_to = "do", max_restarts = 2, restart_window = "60s", backoff = "0s")
on("ask", status)
on("again", lambda ev: bg.start())
`

func (r *rig) tell(topic string, payload any) {
	r.t.Helper()
	r.publish(topic, payload)
	synctest.Wait()
}

// TestWindowOverRestarts: two restarts, then the process dies and comes again.
// The next crash is one too many if what the clock tells is not that the window
// is over.
func TestWindowOverRestarts(t *testing.T) {
	for _, c := range []struct {
		name   string
		off    time.Duration
		second time.Duration // the clock is wrong by that in the second process
		on     time.Duration // before the crash
		gaveUp bool
	}{
		{name: "at once", gaveUp: true},
		{name: "within the window", off: 40 * time.Second, on: 15 * time.Second, gaveUp: true},
		{name: "off for longer", off: 61 * time.Second},
		{name: "off and on for longer", off: 40 * time.Second, on: 25 * time.Second},
		{name: "a clock that went back", off: 10 * time.Minute, second: -time.Hour, on: 55 * time.Second, gaveUp: true},
		{name: "a clock that went back, and the window is over", off: time.Second, second: -time.Hour, on: 61 * time.Second},
		{name: "a clock that was not set", off: time.Second, second: 30 * 365 * 24 * time.Hour, gaveUp: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				defer r.close()
				var wrong atomic.Int64
				r.host.Wall = func() time.Time { return time.Now().Add(time.Duration(wrong.Load())) }
				b := r.start(worker)
				r.tell("do", "crash")
				r.tell("do", "crash")
				if n := len(r.payloads("edged/background/worker/restart")); n != 2 {
					t.Fatalf("%d restarts, want 2", n)
				}
				r.kill(b)
				time.Sleep(c.off)
				wrong.Store(int64(c.second))
				b = r.start(worker)
				time.Sleep(c.on)
				r.tell("do", "crash")
				r.tell("do", "after")
				if got := len(r.payloads("edged/background/worker/gave_up")) == 1; got != c.gaveUp {
					t.Errorf("gave up: %v, want %v", got, c.gaveUp)
				}
				if got := len(r.payloads("did")) == 0; got != c.gaveUp {
					t.Errorf("it does nothing any more: %v, want %v", got, c.gaveUp)
				}
				r.stop(b)
			})
		})
	}
}

// TestGiveUpOverRestarts: who gave up stays down after a restart, which is told,
// until a reload or somebody starts it; then with an empty window.
func TestGiveUpOverRestarts(t *testing.T) {
	const pooled = `
def work(task):
    if task == "crash":
        fail("no legs")
    bus.publish("did", task)
pool = AgentPool()
pool.register(Agent("worker", fn = work))
opts = dict(subscribe_to = "do", max_restarts = 2, restart_window = "60s", backoff = "0s")
pool.start_background("worker", **opts)
on("ask", lambda ev: bus.publish("status", pool.status()["agents"][0]["background"]))
on("again", lambda ev: pool.start_background("worker", **opts))
`
	for name, main := range map[string]string{"alone": worker, "in a pool": pooled} {
		for _, by := range []string{"reload", "again"} {
			t.Run(name+", "+by, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t)
					defer r.close()
					b := r.start(main)
					for range 3 {
						r.tell("do", "crash")
					}
					for n := 2; n <= 3; n++ { // two more processes
						r.kill(b)
						time.Sleep(time.Hour)
						b = r.start(main)
						r.tell("do", "deaf")
						if got := len(r.payloads("edged/background/worker/gave_up")); got != n {
							t.Errorf("process %d: it was told %d times that it gave up, want %d", n, got, n)
						}
					}
					r.tell("ask", nil)
					told, err := json.Marshal(r.payloads("status"))
					if err != nil {
						t.Fatal(err)
					}
					for _, want := range []string{`"state":"failed"`, "gave up", "no legs", "edged reload", `"give_ups":1`} {
						if !strings.Contains(string(told), want) {
							t.Errorf("its status is %s, want %s in it", told, want)
						}
					}
					if by == "reload" {
						next := r.load(main)
						if err := lib.Swap(context.Background(), b, next); err != nil {
							t.Fatal(err)
						}
						b = next
					} else {
						r.tell("again", nil)
					}
					synctest.Wait()
					r.tell("do", "crash")
					r.tell("do", "crash")
					r.tell("do", "work")
					if got := r.payloads("did"); len(got) != 1 || got[0] != "work" {
						t.Errorf("it did %s, want only the work after it was started again, over two crashes", got)
					}
					r.kill(b)
					b = r.start(main)
					r.tell("do", "more")
					if got := r.payloads("did"); len(got) != 2 {
						t.Errorf("it did %s, want more after one more restart", got)
					}
					r.stop(b)
				})
			})
		}
	}
}

// TestTreeGivesUpOverRestarts: where the process ends because the root gave up,
// the restart is the cure, and everything runs again; where the robot goes on
// without, it does so after a restart as well.
func TestTreeGivesUpOverRestarts(t *testing.T) {
	const main = `
def work(task):
    if task == "crash":
        fail("no legs")
    bus.publish("did", task)
SupervisionTree("legs", [BackgroundAgent(Agent("worker", fn = work), subscribe_to = "do", backoff = "0s")], max_restarts = 0)
`
	for _, degrade := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			defer r.close()
			gaveUp := 0
			r.host.GaveUp = func(*background.GaveUpError) bool { gaveUp++; return degrade }
			b := r.start(main)
			for range 3 {
				r.tell("do", "crash")
			}
			r.kill(b)
			b = r.start(main) // three restarts of the tree are known to the root
			for range 3 {
				r.tell("do", "crash")
			}
			if gaveUp != 1 {
				t.Fatalf("degrade %v: the root gave up %d times, want once, at the sixth crash", degrade, gaveUp)
			}
			r.kill(b)
			b = r.start(main)
			r.tell("do", "work")
			want := 1
			if degrade {
				want = 0
				if e := r.errors(); !strings.Contains(e, "gave up") || !strings.Contains(e, "edged reload") {
					t.Errorf("the errors are %q, want that it goes on without what gave up", e)
				}
			}
			if got := len(r.payloads("did")); got != want {
				t.Errorf("degrade %v: it worked %d times after the restart, want %d", degrade, got, want)
			}
			next := r.load(main)
			if err := lib.Swap(context.Background(), b, next); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			r.tell("do", "work")
			if got := len(r.payloads("did")); got != want+1 {
				t.Errorf("degrade %v: it worked %d times after the reload, want %d", degrade, got, want+1)
			}
			r.stop(next)
		})
	}
}
