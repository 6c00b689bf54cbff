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
	"edged/bus"
	"edged/bus/timer"

	"pgregory.net/rapid"
)

const ms = time.Millisecond

// listener is an opened trigger whose firings are logged as "task@ms".
type listener struct {
	hear  func(context.Context, bus.Event)
	stop  func()
	log   logbook
	wheel *timer.Wheel
	seq   uint64
	err   error
}

func listen(t bg.Trigger) *listener {
	l := &listener{wheel: timer.New()}
	start := time.Now()
	l.hear, l.stop = t.Open(bg.Outlet{
		Timers: l.wheel,
		Emit:   func(_ bus.Event, task any) { l.log.add("%v@%d", task, time.Since(start).Milliseconds()) },
		Fail:   func(err error) { l.err = err },
	})
	return l
}

func (l *listener) event(topic string) {
	l.seq++
	l.hear(context.Background(), bus.Event{Topic: topic, Seq: l.seq})
}

// tasks is an inner trigger: topic and seq, but nothing for topics with a "-".
func tasks(_ context.Context, e bus.Event) (any, bool, error) {
	return fmt.Sprint(e.Topic, e.Seq), !strings.HasPrefix(e.Topic, "-"), nil
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// arrival is an event of a random history.
type arrival struct {
	Wait  int // ms
	Topic string
}

type thinning struct {
	Kind     string // leading, trailing, both, throttle, droplast
	Interval int
	MaxWait  int
	Keyed    bool
	Events   []arrival
}

func drawThinning(rt *rapid.T) thinning {
	h := thinning{
		Kind:     rapid.SampledFrom([]string{"leading", "trailing", "both", "throttle", "droplast"}).Draw(rt, "kind"),
		Interval: rapid.SampledFrom([]int{1, 2, 10, 63, 64, 65}).Draw(rt, "interval"),
		Keyed:    rapid.Bool().Draw(rt, "keyed"),
	}
	i := h.Interval
	if h.Kind == "trailing" || h.Kind == "both" {
		h.MaxWait = rapid.SampledFrom([]int{0, 1, i - 1, i, i + 1, 2 * i, 3*i + 1}).Draw(rt, "max wait")
	}
	wait := rapid.SampledFrom([]int{0, 0, 1, i / 2, i - 1, i, i + 1, 2 * i, h.MaxWait, max(0, h.MaxWait-1), h.MaxWait + 1})
	topic := rapid.SampledFrom([]string{"a", "a", "b", "-"})
	h.Events = rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) arrival {
		return arrival{wait.Draw(rt, "wait"), topic.Draw(rt, "topic")}
	}), 1, 30).Draw(rt, "events")
	return h
}

func (h thinning) trigger() bg.Trigger {
	var key bg.KeyFunc
	if h.Keyed {
		key = bg.ByTopic
	}
	i := time.Duration(h.Interval) * ms
	if h.Kind == "throttle" || h.Kind == "droplast" {
		return must(bg.Throttle(bg.When(tasks), i, bg.ThrottleOptions{Key: key, DropLast: h.Kind == "droplast"}))
	}
	return must(bg.Debounce(bg.When(tasks), i, bg.DebounceOptions{
		Edge: must(bg.ParseEdge(h.Kind)), Key: key, MaxWait: time.Duration(h.MaxWait) * ms,
	}))
}

// model walks through every millisecond and asks, per window, what the rule
// says, from nothing but the times of what came and what fired.
func (h thinning) model() map[string][]string {
	type event struct {
		at   int
		task string
	}
	type state struct {
		waiting []event
		fired   int
	}
	out := map[string][]string{}
	windows := map[string]*state{"": {fired: -1 << 30}, "a": {fired: -1 << 30}, "b": {fired: -1 << 30}}
	events, at := h.Events, 0
	next := events[0].Wait
	for now := 0; len(events) > 0 || at < 1; now++ {
		for key, w := range windows {
			if len(w.waiting) == 0 {
				continue
			}
			first, last := w.waiting[0], w.waiting[len(w.waiting)-1]
			due := now-last.at >= h.Interval || h.MaxWait > 0 && now-first.at >= h.MaxWait
			if h.Kind == "throttle" {
				due = now-w.fired >= h.Interval
			}
			if due {
				out[key] = append(out[key], fmt.Sprintf("%s@%d", last.task, now))
				w.waiting, w.fired = nil, now
			}
		}
		for len(events) > 0 && next == now {
			seq := len(h.Events) - len(events) + 1
			e := events[0]
			if events = events[1:]; len(events) > 0 {
				next = now + events[0].Wait
			}
			if e.Topic == "-" {
				continue
			}
			key := ""
			if h.Keyed {
				key = e.Topic
			}
			w, task := windows[key], fmt.Sprint(e.Topic, seq)
			switch {
			case h.Kind != "trailing" && len(w.waiting) == 0 && now-w.fired >= h.Interval:
				out[key] = append(out[key], fmt.Sprintf("%s@%d", task, now))
				w.fired = now
			case h.Kind != "leading" && h.Kind != "droplast":
				w.waiting = append(w.waiting, event{now, task})
			}
		}
		if len(events) == 0 { // what waits still comes
			at = 1
			for _, w := range windows {
				if len(w.waiting) > 0 {
					at = 0
				}
			}
		}
	}
	return out
}

func (h thinning) reality(t *testing.T) map[string][]string {
	out := map[string][]string{}
	synctest.Test(t, func(t *testing.T) {
		l := listen(h.trigger())
		for _, e := range h.Events {
			time.Sleep(time.Duration(e.Wait) * ms)
			l.event(e.Topic)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		l.stop()
		if n := l.wheel.Len(); n != 0 {
			t.Errorf("%d timers are left", n)
		}
		for _, s := range strings.Fields(l.log.take()) {
			key := ""
			if h.Keyed {
				key = s[:1]
			}
			out[key] = append(out[key], s)
		}
	})
	return out
}

func TestDebounceAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := drawThinning(rt)
		got, want := h.reality(t), h.model()
		for _, key := range []string{"", "a", "b"} {
			if !slices.Equal(got[key], want[key]) {
				rt.Fatalf("window %q fired %v\nthe model says %v", key, got[key], want[key])
			}
		}
	})
}

func TestStoppedTriggersAreSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tr := range []bg.Trigger{
			must(bg.Debounce(bg.When(tasks), ms, bg.DebounceOptions{Edge: bg.Trailing})),
			must(bg.Throttle(bg.When(tasks), ms, bg.ThrottleOptions{})),
			must(bg.Every(ms)), must(bg.Cron("* * * * *")),
		} {
			l := listen(tr)
			l.event("a")
			l.event("a")
			l.log.take()
			l.stop()
			time.Sleep(time.Hour)
			synctest.Wait()
			if got := l.log.take(); got != "" || l.wheel.Len() != 0 {
				t.Errorf("%T: fired %q after stop, %d timers left", tr, got, l.wheel.Len())
			}
		}
	})
}

// The first event after a start counts, also when the trigger is used again.
func TestEachStartIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := must(bg.Debounce(bg.When(tasks), time.Hour, bg.DebounceOptions{}))
		for range 2 {
			l := listen(tr)
			l.event("a")
			l.event("a")
			l.stop()
			if got := l.log.take(); got != "a1@0" {
				t.Errorf("fired %q, want the first event", got)
			}
		}
	})
}

func TestKeysAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Windows that are over make room; none of these is lost.
		o := bg.DebounceOptions{Edge: bg.Both, Key: bg.ByTopic, MaxKeys: 10}
		l := listen(must(bg.Debounce(bg.When(tasks), ms, o)))
		for i := range 1000 {
			l.event(fmt.Sprint("t", i))
			time.Sleep(ms)
		}
		if n := len(strings.Fields(l.log.take())); n != 1000 {
			t.Errorf("%d of 1000 fired", n)
		}
		// Too many at once: the one used least recently ends early, and none is lost.
		l = listen(must(bg.Debounce(bg.When(tasks), time.Hour, bg.DebounceOptions{Edge: bg.Trailing, Key: bg.ByTopic, MaxKeys: 3})))
		for _, k := range []string{"a", "b", "c", "a", "d", "e"} {
			l.event(k)
		}
		if got := l.log.take(); got != "b2@0 c3@0" {
			t.Errorf("fired %q, want b and c early", got)
		}
		if n := l.wheel.Len(); n != 3 {
			t.Errorf("%d timers wait, want 3", n)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if got := l.log.take(); got != "a4@3600000 d5@3600000 e6@3600000" {
			t.Errorf("fired %q", got)
		}
		l.stop()
	})
}

func TestBadKeyIsACrash(t *testing.T) {
	key := func(bus.Event) (string, error) { return "", errBoom }
	l := listen(must(bg.Debounce(bg.When(tasks), ms, bg.DebounceOptions{Key: key})))
	l.event("a")
	if l.err == nil || l.log.take() != "" {
		t.Errorf("got error %v", l.err)
	}
}

func TestDebounceOptionsAreChecked(t *testing.T) {
	for _, o := range []struct {
		interval time.Duration
		o        bg.DebounceOptions
	}{{0, bg.DebounceOptions{}}, {-1, bg.DebounceOptions{}}, {1, bg.DebounceOptions{MaxWait: 1}}, {1, bg.DebounceOptions{Edge: bg.Trailing, MaxWait: -1}}} {
		if _, err := bg.Debounce(bg.Always(), o.interval, o.o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
	if _, err := bg.Throttle(bg.Always(), 0, bg.ThrottleOptions{}); err == nil {
		t.Error("a throttle of 0 was accepted")
	}
	if _, err := bg.ParseEdge("falling"); err == nil {
		t.Error("an unknown edge was accepted")
	}
}
