package background_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	bg "edged/background"

	"pgregory.net/rapid"
)

// A fault is one thing that happens to a child.
type fault struct {
	Wait  time.Duration
	Child int
	Kind  string // clean, shutdown, crash, panic
}

// history is a supervisor and what happens to it.
type history struct {
	Strategy    bg.Strategy
	MaxRestarts int
	Window      time.Duration
	Kinds       []bg.Restart
	Faults      []fault
}

func drawHistory(rt *rapid.T) history {
	w := time.Minute
	h := history{
		Strategy:    rapid.SampledFrom([]bg.Strategy{bg.OneForOne, bg.OneForAll, bg.RestForOne}).Draw(rt, "strategy"),
		MaxRestarts: rapid.SampledFrom([]int{0, 1, 2, 3, 5}).Draw(rt, "max"),
		Window:      w,
		Kinds:       rapid.SliceOfN(rapid.SampledFrom([]bg.Restart{bg.Permanent, bg.Transient, bg.Temporary}), 1, 4).Draw(rt, "kinds"),
	}
	// Waits from the borders of the window, alone and in sums.
	wait := rapid.SampledFrom([]time.Duration{0, 0, 1, w / 5, w/5 - 1, w / 3, w / 2, w - 1, w, w + 1})
	h.Faults = rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) fault {
		return fault{
			wait.Draw(rt, "wait"), rapid.IntRange(0, len(h.Kinds)-1).Draw(rt, "child"),
			rapid.SampledFrom([]string{"clean", "shutdown", "crash", "crash", "panic"}).Draw(rt, "kind"),
		}
	}), 1, 25).Draw(rt, "faults")
	return h
}

// oracle says what must happen, as plainly as the rule can be written.
func oracle(h history) (log []string) {
	up := make([]bool, len(h.Kinds))
	gone := make([]bool, len(h.Kinds))
	var restarts []time.Duration
	now := time.Duration(0)
	for i := range up {
		up[i] = true
	}
	stop := func(i int) {
		if up[i] {
			up[i] = false
			log = append(log, fmt.Sprint("stop:", i))
		}
		gone[i] = gone[i] || h.Kinds[i] == bg.Temporary
	}
	for _, f := range h.Faults {
		now += f.Wait
		if !up[f.Child] {
			continue
		}
		up[f.Child] = false
		kind := h.Kinds[f.Child]
		if kind == bg.Temporary {
			gone[f.Child] = true
			continue
		}
		if kind == bg.Transient && (f.Kind == "clean" || f.Kind == "shutdown") {
			continue
		}
		recent := 0
		for _, t := range restarts {
			if t > now-h.Window {
				recent++
			}
		}
		if recent >= h.MaxRestarts {
			for i := len(up) - 1; i >= 0; i-- {
				stop(i)
			}
			return append(log, "gave up")
		}
		restarts = append(restarts, now)
		first, last := f.Child, f.Child
		if h.Strategy == bg.OneForAll {
			first = 0
		}
		if h.Strategy != bg.OneForOne {
			last = len(up) - 1
		}
		for i := last; i >= first; i-- {
			if i != f.Child {
				stop(i)
			}
		}
		for i := first; i <= last; i++ {
			if !gone[i] {
				up[i] = true
				log = append(log, fmt.Sprint("start:", i))
			}
		}
	}
	return log
}

// reality is what a supervisor does.
func reality(t *testing.T, h history) []string {
	log := &logbook{}
	var got []string
	synctest.Test(t, func(t *testing.T) {
		workers := make([]*worker, len(h.Kinds))
		children := make([]bg.Child, len(h.Kinds))
		for i, kind := range h.Kinds {
			workers[i] = newWorker(fmt.Sprint(i), log)
			children[i] = bg.Child{Name: workers[i].name, Service: workers[i], Restart: kind}
		}
		most := h.MaxRestarts
		if most == 0 {
			most = bg.NoRestarts
		}
		sup := bg.NewSupervisor("sup", bg.Options{
			Strategy: h.Strategy, MaxRestarts: most, Window: h.Window,
			OnGiveUp: func(*bg.GaveUpError) {},
		}, children...)
		if err := sup.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		log.take()
		for _, f := range h.Faults {
			time.Sleep(f.Wait)
			synctest.Wait()
			select {
			case workers[f.Child].commands <- ends(f.Kind):
			default: // it is down
			}
			synctest.Wait()
		}
		if s := log.take(); s != "" {
			got = strings.Split(s, " ")
		}
		if sup.Status().State == bg.Failed {
			got = append(got, "gave up")
		}
		if err := sup.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return got
}

func ends(kind string) func(context.Context) error {
	return func(context.Context) error {
		switch kind {
		case "clean":
			return nil
		case "shutdown":
			return bg.ErrShutdown
		case "panic":
			panic("ouch")
		}
		return errBoom
	}
}

func TestRestartRuleAgainstOracle(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := drawHistory(rt)
		got, want := reality(t, h), oracle(h)
		if !slices.Equal(got, want) {
			rt.Fatalf("the supervisor did %v\nthe oracle says    %v", got, want)
		}
	})
}
