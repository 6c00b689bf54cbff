package lib_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"edged/starlark/lib"
)

// kill ends a behaviour without letting runs finish.
func (r *rig) kill(b *lib.Behaviour) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Microsecond)
	defer cancel()
	if err := b.Stop(ctx); err != nil {
		r.t.Error(err)
	}
}

// TestTimeOverRestarts: a durable timer, wait and sleep of one hour, half an
// hour of it in a first process; then the robot is off, and somebody or nobody
// sets the clock. When each comes, in minutes of the second process.
func TestTimeOverRestarts(t *testing.T) {
	const main = `
def off(task):
    bus.publish("off", task)
def bell(ev, ctx):
    ctx.wait_for("never", timeout = "1h", durable = True)
    bus.publish("waited", None)
def nap(ev, ctx):
    ctx.sleep("1h", durable = True)
    bus.publish("slept", None)
on("begin", lambda ev: after("1h", off, task = "hall", durable = True))
on("begin", bell)
on("begin", nap)
`
	const (
		year   = 365 * 24 * time.Hour
		unset  = -40 * year // 1970, seen from 2010
		minute = time.Minute
	)
	for _, c := range []struct {
		name     string
		first    time.Duration // the clock is wrong by that, when the first process begins
		steps    time.Duration // and is set by that after ten minutes
		off      time.Duration
		second   time.Duration // the clock is wrong by that when the second begins
		sync     time.Duration // and is set right, after that
		from, to time.Duration // when it is over, in the second process
	}{
		{name: "a right clock", off: 10 * minute, from: 20 * minute, to: 20 * minute},
		{name: "off for longer", off: 2 * time.Hour, from: 0, to: 0},
		{name: "set back while off", off: 10 * minute, second: -5 * time.Hour, from: 30 * minute, to: 32 * minute},
		{name: "set back by years", off: 10 * minute, second: -30 * year, from: 30 * minute, to: 32 * minute},
		{name: "never set, then set and running", first: unset, steps: -unset, off: 10 * minute, from: 20 * minute, to: 22 * minute},
		{name: "never set, then set while off", first: unset, off: 10 * minute, from: 30 * minute, to: 41 * minute},
		{name: "no clock after the start, set soon", off: 10 * minute, second: unset, sync: 2 * minute, from: 20 * minute, to: 22 * minute},
		{name: "no clock after the start, set late", off: 10 * minute, second: unset, sync: 25 * minute, from: 25 * minute, to: 27 * minute},
		{name: "a clock kept in a file, set soon", off: 20 * minute, second: -20 * minute, sync: 2 * minute, from: 10 * minute, to: 12 * minute},
		{name: "set forward by hand long after the start", off: 0, second: 0, steps: 0, sync: 20 * minute, from: 30 * minute, to: 30 * minute},
		{name: "summer time, which no wall clock in UTC knows", off: 10 * minute, from: 20 * minute, to: 20 * minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				defer r.close()
				time.Sleep(10 * year)
				var wrong atomic.Int64
				wrong.Store(int64(c.first))
				r.host.Wall = func() time.Time { return time.Now().Add(time.Duration(wrong.Load())) }
				b := r.start(main)
				r.publish("begin", nil)
				time.Sleep(10 * time.Minute)
				wrong.Add(int64(c.steps))
				time.Sleep(20 * time.Minute)
				r.kill(b)
				time.Sleep(c.off)
				wrong.Store(int64(c.second))
				began := time.Now()
				b = r.start(main)
				if c.sync > 0 {
					time.AfterFunc(c.sync, func() {
						wrong.Store(0)
						if c.second == 0 {
							wrong.Store(int64(9 * time.Hour))
						}
					})
				}
				time.Sleep(5 * time.Hour)
				synctest.Wait()
				for _, topic := range []string{"off", "waited", "slept"} {
					var at []time.Duration
					for _, e := range r.all() {
						if e.Topic == topic {
							at = append(at, e.Time().Sub(began).Round(time.Second))
						}
					}
					if len(at) != 1 || at[0] < c.from || at[0] > c.to {
						t.Errorf("%s came after %v, want once, after %v to %v", topic, at, c.from, c.to)
					}
				}
				if e := r.errors(); e != "" {
					t.Error(e)
				}
				r.stop(b)
			})
		})
	}
}

// While the robot runs, nothing that is done to the wall clock moves a timer.
func TestTheWallClockMovesNothing(t *testing.T) {
	for _, step := range []time.Duration{-100 * 24 * time.Hour, -time.Hour, time.Hour, 50 * 365 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			defer r.close()
			var wrong atomic.Int64
			r.host.Wall = func() time.Time { return time.Now().Add(time.Duration(wrong.Load())) }
			b := r.start(`
def off():
    bus.publish("off")
def nap(ev, ctx):
    ctx.sleep("3h", durable = True)
    bus.publish("off")
on("begin", lambda ev: after("3h", off, durable = True))
on("begin", nap)
`)
			r.publish("begin", nil)
			time.Sleep(time.Hour)
			wrong.Store(int64(step))
			time.Sleep(2*time.Hour - time.Second)
			synctest.Wait()
			if n := len(r.payloads("off")); n != 0 {
				t.Errorf("a step of %v: %d came early", step, n)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if n := len(r.payloads("off")); n != 2 {
				t.Errorf("a step of %v: %d of 2 came in time", step, n)
			}
			r.stop(b)
		})
	}
}

// Records that an earlier version wrote, with a deadline, are taken up.
func TestRecordsOfBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		put := func(kind, name string, v any) {
			text, err := json.Marshal(v)
			if err == nil {
				err = r.board.Records("script/box/"+kind).Put(t.Context(), name, text, true)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		at := time.Now().Add(40 * time.Minute).Format(time.RFC3339Nano)
		put("timers", "lamp", map[string]any{"module": "main.star", "fn": "off", "task": "hall", "deadline": at, "policy": "resume"})
		put("runs", "bell-1", map[string]any{"module": "main.star", "fn": "bell", "event": map[string]any{"topic": "bell", "time": at},
			"pending": map[string]any{"filter": "answer", "deadline": at, "policy": "resume"}})
		put("runs", "bell-2", map[string]any{"module": "main.star", "fn": "bell", "event": map[string]any{"topic": "bell", "time": at},
			"pending": map[string]any{"filter": "answer", "deadline": "0001-01-01T00:00:00Z", "policy": "resume"}})
		b := r.start(`
def off(task):
    bus.publish("off", task)
def bell(ev, ctx):
    bus.publish("got", ctx.wait_for("answer", timeout = "1h", durable = True) != None)
on("bell", bell, mode = "parallel")
`)
		time.Sleep(39 * time.Minute)
		synctest.Wait()
		if len(r.payloads("off"))+len(r.payloads("got")) != 0 {
			t.Error("something came early")
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		r.publish("answer", nil)
		synctest.Wait()
		if got := fmt.Sprint(r.payloads("off"), r.payloads("got")); got != "[hall] [false true]" {
			t.Errorf("got %s", got)
		}
		r.stop(b)
	})
}

// What waits for a function that is gone is kept and told, once, and goes on
// when it is back: an editor that empties the file for a moment costs nothing.
func TestWaitsOutliveAnEmptyVersion(t *testing.T) {
	const main = `
def off(task):
    bus.publish("off", task)
def bell(ev, ctx):
    bus.publish("got", ctx.wait_for("answer", timeout = "2h", durable = True)["n"])
on("begin", lambda ev: after("1h", off, task = "hall", durable = True))
on("begin", bell)
`
	for _, how := range []string{"reload", "restart"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				defer r.close()
				b := r.start(main)
				r.publish("begin", nil)
				time.Sleep(10 * time.Minute)
				for _, text := range []string{"", "# nothing\n", "def off():\n    pass\ndef bell(a, b, c):\n    pass\n"} {
					if how == "reload" {
						b = r.swap(b, text, time.Second)
					} else {
						r.kill(b)
						b = r.start(text)
					}
					time.Sleep(5 * time.Minute)
				}
				if e := r.errors(); strings.Count(e, "the wait is kept") < 1 || strings.Count(e, "the timer is kept") < 1 {
					t.Errorf("told: %s", e)
				}
				if how == "reload" {
					b = r.swap(b, main, time.Second)
				} else {
					r.kill(b)
					b = r.start(main)
				}
				r.publish("answer", map[string]any{"n": 7})
				time.Sleep(35*time.Minute - 3*time.Second)
				synctest.Wait()
				if got := fmt.Sprint(r.payloads("off"), r.payloads("got")); got != "[] [7]" {
					t.Errorf("before its time: %s", got)
				}
				time.Sleep(4 * time.Second)
				synctest.Wait()
				if got := fmt.Sprint(r.payloads("off"), r.payloads("got")); got != "[hall] [7]" {
					t.Errorf("at its time: %s", got)
				}
				r.stop(b)
			})
		})
	}
}

// TestResumedWaitHasAMode: after a restart, a handler that waits is a run of
// its handler like any other.
func TestResumedWaitHasAMode(t *testing.T) {
	const main = `
def bell(ev, ctx):
    bus.publish("begin", ev["n"])
    got = ctx.wait_for("answer", timeout = "1h", durable = True)
    bus.publish("end", [ev["n"], got["x"] if got else None])
on("bell", bell, mode = "%s", max_parallel = 2)
`
	for mode, want := range map[string]string{
		"queue":    "[b0 b0 e[0 1] b1 e[1 2] b2 e[2 3]]",
		"single":   "[b0 b0 e[0 1]]",
		"restart":  "[b0 b0 b1 b2 e[2 1]]",
		"parallel": "[b0 b0 b1 e[0 1] e[1 1] b2 e[2 2]]",
	} {
		for _, how := range []string{"restart", "reload"} {
			t.Run(mode+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t)
					defer r.close()
					b := r.start(fmt.Sprintf(main, mode))
					r.publish("bell", map[string]any{"n": 0})
					synctest.Wait()
					if how == "reload" {
						b = r.swap(b, fmt.Sprintf(main, mode)+"\n#", time.Second)
					} else {
						r.kill(b)
						b = r.start(fmt.Sprintf(main, mode))
					}
					synctest.Wait()
					for n := range 2 {
						r.publish("bell", map[string]any{"n": n + 1})
						time.Sleep(time.Second)
					}
					for x := range 3 {
						r.publish("answer", map[string]any{"x": x + 1})
						time.Sleep(time.Second)
					}
					time.Sleep(3 * time.Hour)
					synctest.Wait()
					var got []string
					for _, e := range r.all() {
						switch e.Topic {
						case "begin":
							got = append(got, fmt.Sprint("b", e.Payload()))
						case "end":
							got = append(got, fmt.Sprint("e", e.Payload()))
						}
					}
					text := fmt.Sprint(got)
					if mode == "parallel" { // which of the two ends first is not said
						for _, same := range []string{"e[1 1] e[0 1] b2", "e[1 1] b2 e[0 1]", "e[0 1] b2 e[1 1]"} {
							text = strings.Replace(text, same, "e[0 1] e[1 1] b2", 1)
						}
					}
					if text != want {
						t.Errorf("got  %s\nwant %s", text, want)
					}
					if e := r.errors(); e != "" {
						t.Error(e)
					}
					r.stop(b)
				})
			})
		}
	}
}

// A durable timer of the same name takes the place of the one before.
func TestDurableTimerIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		b := r.start(`
def off(task):
    bus.publish("off", task)
on("begin", lambda ev: after("1h", off, task = ev["n"], durable = True, name = "lamp"))
`)
		for n := range 3 {
			r.publish("begin", map[string]any{"n": n})
			time.Sleep(30 * time.Minute)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if got := fmt.Sprint(r.payloads("off")); got != "[2]" {
			t.Errorf("got %s, want the last one", got)
		}
		r.stop(b)
	})
}
