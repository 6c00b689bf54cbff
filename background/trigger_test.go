package background_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent"
	bg "edged/background"
	"edged/bus"
	"edged/bus/timer"
)

// onBus opens a trigger on a bus, publishes what is given, one per step, and
// returns what fired: crossings and changes by topic and value.
func onBus(t *testing.T, tr bg.Trigger, filter string, events ...any) string {
	b := bus.New(bus.Options{})
	var log logbook
	hear, stop := tr.Open(bg.Outlet{
		Timers: b.Timers(),
		Emit: func(e bus.Event, task any) {
			m := task.(map[string]any)
			log.add("%s%v%v", e.Topic, m["value"], strings.TrimPrefix(fmt.Sprint(m["crossed"]), "<nil>"))
		},
		Fail: func(err error) { log.add("fail:%v", err) },
	})
	defer stop()
	if _, err := b.Tap(filter, func(e bus.Event) { hear(t.Context(), e) }); err != nil {
		t.Fatal(err)
	}
	for _, v := range events {
		topic := "t"
		if p, ok := v.([2]any); ok {
			topic, v = p[0].(string), p[1]
		}
		if _, err := b.Publish(t.Context(), "test", topic, v); err != nil {
			t.Fatal(err)
		}
	}
	return log.take()
}

func ptr(f float64) *float64 { return &f }

func TestThreshold(t *testing.T) {
	m := func(v any) any { return map[string]any{"s": []any{map[string]any{"t": v}}} }
	for _, c := range []struct {
		name   string
		path   string
		o      bg.ThresholdOptions
		events []any
		want   string
	}{
		{"first beyond fires", "", bg.ThresholdOptions{Above: ptr(30)}, []any{31}, "t31above"},
		{"the limit is not beyond", "", bg.ThresholdOptions{Above: ptr(30)}, []any{30, 30.5, 31}, "t30.5above"},
		{"again after coming back", "", bg.ThresholdOptions{Above: ptr(30)}, []any{31, 30, 31}, "t31above t31above"},
		{"hysteresis", "", bg.ThresholdOptions{Above: ptr(30), Hysteresis: 2}, []any{31, 29, 31, 28.5, 32, 28, 33}, "t31above t33above"},
		{"below", "", bg.ThresholdOptions{Below: ptr(5), Hysteresis: 1}, []any{4, 5.5, 4, 6, 3}, "t4below t3below"},
		{"both", "", bg.ThresholdOptions{Above: ptr(30), Below: ptr(5)}, []any{10, 40, 1, 40}, "t40above t1below t40above"},
		{"path", "s.0.t", bg.ThresholdOptions{Above: ptr(30)}, []any{m(31), m(29), m(35)}, "t31above t35above"},
		{"what is no number is ignored", "s.0.t", bg.ThresholdOptions{Above: ptr(30)}, []any{"hot", m("hot"), m(nil), m(true), 99, []any{}, m(31)}, "t31above"},
		{"each topic on its own", "", bg.ThresholdOptions{Above: ptr(30)}, []any{[2]any{"a", 31}, [2]any{"b", 31}, [2]any{"a", 32}}, "a31above b31above"},
		{"one key", "", bg.ThresholdOptions{Above: ptr(30), Key: func(bus.Event) (string, error) { return "", nil }}, []any{[2]any{"a", 31}, [2]any{"b", 31}}, "a31above"},
		{"bad key", "", bg.ThresholdOptions{Above: ptr(30), Key: func(bus.Event) (string, error) { return "", errBoom }}, []any{31}, "fail:background: key of a trigger: boom"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := onBus(t, must(bg.Threshold(c.path, c.o)), "#", c.events...); got != c.want {
				t.Errorf("fired %q, want %q", got, c.want)
			}
		})
	}
	for _, o := range []bg.ThresholdOptions{{}, {Above: ptr(1), Hysteresis: -1}, {Above: ptr(1), Below: ptr(2)}} {
		if _, err := bg.Threshold("", o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}

func TestChanged(t *testing.T) {
	on := func(v any) any { return map[string]any{"on": v, "n": 1} }
	for _, c := range []struct {
		path   string
		events []any
		want   string
	}{
		{"on", []any{on(true), on(true), on(false), on(nil), map[string]any{}, on(nil)}, "ttrue tfalse t<nil>"},
		{"", []any{1, 1.0, 2, "2", "2"}, "t1 t2 t2"},
		{"on", []any{on([]any{1, 2}), on([]any{1, 2}), on([]any{1}), on(map[string]any{"a": 1}), on(map[string]any{"a": 1.0}), on(map[string]any{"b": 1})}, "t[1 2] t[1] tmap[a:1] tmap[b:1]"},
		{"", []any{[]byte("x"), []byte("x"), []byte("y"), nil, []byte("y")}, "t[120] t[121] t<nil> t[121]"},
		{"", []any{[2]any{"a", 1}, [2]any{"b", 1}, [2]any{"a", 1}}, "a1 b1"},
	} {
		if got := onBus(t, bg.Changed(c.path, bg.ChangedOptions{}), "#", c.events...); got != c.want {
			t.Errorf("fired %q, want %q", got, c.want)
		}
	}
}

func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := listen(must(bg.Every(10 * time.Second)))
		time.Sleep(9999 * ms)
		synctest.Wait()
		if got := l.log.take(); got != "" {
			t.Errorf("fired %q before its time", got)
		}
		time.Sleep(20*time.Second + 2*ms)
		synctest.Wait()
		l.stop()
		got := l.log.take()
		if strings.Count(got, "every:10") != 3 || !strings.Contains(got, "@10000 ") || !strings.HasSuffix(got, "@30000") {
			t.Errorf("fired %q in 30 s, want 3 times", got)
		}
	})
	if _, err := bg.Every(0); err == nil {
		t.Error("an interval of 0 was accepted")
	}
}

func TestCron(t *testing.T) {
	for spec, want := range map[string][]string{
		"CRON_TZ=UTC 0 7 * * 1-5": {"Mon 03 07:00", "Tue 04 07:00", "Wed 05 07:00", "Thu 06 07:00", "Fri 07 07:00", "Mon 10 07:00", "Tue 11 07:00"},
		"CRON_TZ=UTC 30 2 5 * *":  {"Wed 05 02:30"},
		"@every 48h":              {"Mon 03 00:00", "Wed 05 00:00", "Fri 07 00:00", "Sun 09 00:00", "Tue 11 00:00"},
		"CRON_TZ=UTC 0 0 30 2 *":  nil,
	} {
		synctest.Test(t, func(t *testing.T) { // starts on Saturday, 1 January 2000
			var got []string
			w := bus.New(bus.Options{})
			_, stop := must(bg.Cron(spec)).Open(bg.Outlet{
				Timers: w.Timers(),
				Emit:   func(bus.Event, any) { got = append(got, time.Now().UTC().Format("Mon 02 15:04")) },
			})
			time.Sleep(11 * 24 * time.Hour)
			synctest.Wait()
			stop()
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s fired %v, want %v", spec, got, want)
			}
		})
	}
	for _, spec := range []string{"", "TZ=UTC", "CRON_TZ=", "@every -1h", "@every 1ms", "@every", "61 * * * *", "* * * * * *"} {
		if _, err := bg.Cron(spec); err == nil {
			t.Errorf("%q was accepted", spec)
		}
	}
	if _, err := bg.Cron("every day"); err == nil || !strings.Contains(err.Error(), `"every day"`) {
		t.Errorf("got %v, want an error that quotes it", err)
	}
}

func only(topic string) bg.Trigger {
	return bg.When(func(_ context.Context, e bus.Event) (any, bool, error) {
		return fmt.Sprint(topic, e.Seq), e.Topic == topic, nil
	})
}

func TestAnyOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := listen(bg.AnyOf(only("a"), only("b"), bg.When(tasks), must(bg.Every(time.Second))))
		for _, topic := range []string{"a", "b", "c", "-"} {
			l.event(topic)
		}
		if got := l.log.take(); got != "a1@0 b2@0 c3@0" {
			t.Errorf("fired %q, want one task per event", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		l.stop()
		if got := strings.Count(l.log.take(), "@"); got < 2 {
			t.Errorf("the clock fired %d times, want 2", got)
		}
	})
}

func TestAllOf(t *testing.T) {
	for _, c := range []struct{ events, want string }{
		{"a b", "[a1 b2]@0"},
		{"b a", "[a2 b1]@0"},
		{"a a a", ""},
		{"a a b b", "[a2 b3]@0"}, // it starts over
		{"a . b", "[a1 b2]@1000"},
		{"a . . b", ""}, // too late
		{"a . . b a", "[a3 b2]@2000"},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := listen(must(bg.AllOf(time.Second, only("a"), only("b"))))
			for topic := range strings.FieldsSeq(c.events) {
				if topic == "." {
					time.Sleep(time.Second)
				} else {
					l.event(topic)
				}
			}
			l.stop()
			if got := l.log.take(); got != c.want {
				t.Errorf("%s: fired %q, want %q", c.events, got, c.want)
			}
		})
	}
	if _, err := bg.AllOf(-1, only("a")); err == nil {
		t.Error("a negative time was accepted")
	}
	if _, err := bg.AllOf(0); err == nil {
		t.Error("no trigger was accepted")
	}
}

func TestTriggersNest(t *testing.T) {
	hot := must(bg.Threshold("", bg.ThresholdOptions{Above: ptr(30)}))
	tr := must(bg.Debounce(bg.AnyOf(hot, bg.When(func(_ context.Context, e bus.Event) (any, bool, error) {
		if e.Payload() == "exit" {
			return nil, false, agent.ErrExit
		}
		return "word", e.Payload() == "go", nil
	})), time.Second, bg.DebounceOptions{Edge: bg.Trailing}))
	inRobot(t, bg.AgentOptions{Trigger: tr}, func(r *robot) {
		r.say(31)
		r.say("noise")
		r.say("go")
		r.want("")
		time.Sleep(time.Second)
		r.want("word")
		r.say("exit")
		r.state(bg.Stopped)
	})
}

func TestDelayedFiringKeepsItsCause(t *testing.T) {
	tr := must(bg.Debounce(bg.Always(), time.Second, bg.DebounceOptions{Edge: bg.Trailing}))
	inRobot(t, bg.AgentOptions{Trigger: tr}, func(r *robot) {
		var cause uint64
		r.run = func(ctx context.Context, _ agent.Task) error { cause, _ = bus.CauseOf(ctx); return nil }
		r.publish("in/x", 1)
		e := must(r.bus.Publish(r.Context(), "test", "in/x", 2))
		time.Sleep(time.Minute)
		synctest.Wait()
		if cause != e.Seq {
			t.Errorf("the cause is %d, want %d: the latest event", cause, e.Seq)
		}
	})
}

func TestParse(t *testing.T) {
	for _, err := range []error{
		second(bg.ParseRestart("always")), second(bg.ParseStrategy("all")), second(bg.ParseOverflow("x")), second(bg.ParseOnCrash("x")),
	} {
		if err == nil {
			t.Error("an unknown word was accepted")
		}
	}
	for _, r := range []bg.Restart{bg.Permanent, bg.Transient, bg.Temporary} {
		if got, err := bg.ParseRestart(r.String()); got != r || err != nil {
			t.Errorf("got %v, %v", got, err)
		}
	}
	for _, s := range []bg.Strategy{bg.OneForOne, bg.OneForAll, bg.RestForOne} {
		if got, err := bg.ParseStrategy(s.String()); got != s || err != nil {
			t.Errorf("got %v, %v", got, err)
		}
	}
	if !errors.Is(&bg.GaveUpError{Cause: errBoom}, errBoom) {
		t.Error("a GaveUpError must wrap its cause")
	}
}

func second[T any](_ T, err error) error { return err }

func FuzzCron(f *testing.F) {
	for _, s := range []string{"0 7 * * 1-5", "@daily", "TZ=UTC", "CRON_TZ=Europe/Zurich */5 1,2 3 * ?", "@every 1h", "*/0 * * * *"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		if tr, err := bg.Cron(spec); err == nil {
			_, stop := tr.Open(bg.Outlet{Timers: timer.New(), Emit: func(bus.Event, any) {}})
			stop()
		}
	})
}

func FuzzAt(f *testing.F) {
	f.Add(`{"a": [1, {"b": null}]}`, "a.1.b")
	f.Add(`[]`, ".")
	f.Fuzz(func(t *testing.T, text, path string) {
		var tree any
		if json.Unmarshal([]byte(text), &tree) == nil {
			v, ok := bg.At(tree, path)
			if !ok && v != nil {
				t.Errorf("At(%s, %q) gave %v and false", text, path, v)
			}
		}
	})
}
