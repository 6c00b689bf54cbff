package hw

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"edged/bus"
)

// motor is a device that notes what it is told.
type motor struct {
	name string
	do   func(ctx context.Context, cmd map[string]any) error // may be nil
	rest func(ctx context.Context) error                     // may be nil
	open func(g *Goal, action string, args json.RawMessage) error

	mu  sync.Mutex
	log []string
}

func (m *motor) Name() string { return m.name }

func (m *motor) note(s string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log = append(m.log, s)
}

func (m *motor) notes() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.log, " ")
}

func (m *motor) Do(ctx context.Context, cmd json.RawMessage) error {
	m.note(string(cmd))
	if m.do != nil {
		var c map[string]any
		if err := json.Unmarshal(cmd, &c); err != nil {
			return err
		}
		return m.do(ctx, c)
	}
	return nil
}

func (m *motor) Rest(ctx context.Context) error {
	if m.rest != nil {
		if err := m.rest(ctx); err != nil {
			return err
		}
	}
	m.note("rest")
	return nil
}

func (m *motor) Go(g *Goal, action string, args json.RawMessage) error {
	return m.open(g, action, args)
}

var duty = Limits{Fields: map[string]Range{"duty": {Min: -1, Max: 1}}}

// bench is a bus, a rig and what was published, inside a bubble.
type bench struct {
	*Rig
	t   *testing.T
	b   *bus.Bus
	mu  sync.Mutex
	got []bus.Event
}

// inBubble runs f with a rig in virtual time.
func inBubble(t *testing.T, o Options, f func(r *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		r, err := NewRig(b, o)
		if err != nil {
			t.Fatal(err)
		}
		be := &bench{Rig: r, t: t, b: b}
		if _, err := b.Tap("#", func(e bus.Event) {
			be.mu.Lock()
			defer be.mu.Unlock()
			be.got = append(be.got, e)
		}); err != nil {
			t.Fatal(err)
		}
		f(be)
		r.Close()
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// said lists what was published on a topic, as JSON.
func (r *bench) said(topic string) []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []string
	for _, e := range r.got {
		if e.Topic == topic {
			j, _ := e.JSON()
			list = append(list, string(j))
		}
	}
	return list
}

func (r *bench) add(m *motor, l Limits) *motor {
	r.t.Helper()
	if err := r.AddActuator(m, l); err != nil {
		r.t.Fatal(err)
	}
	return m
}

func (r *bench) do(name string, cmd any) error { return r.Do(r.t.Context(), "test", name, cmd) }

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

func TestCommandReachesTheDeviceAndLapses(t *testing.T) {
	inBubble(t, Options{}, func(r *bench) {
		m := r.add(&motor{name: "m"}, duty)
		began := time.Now()
		if err := r.do("m", map[string]any{"duty": 0.5}); err != nil {
			t.Fatal(err)
		}
		want(t, "told", m.notes(), `{"duty":0.5}`)
		time.Sleep(400 * time.Millisecond)
		if err := r.do("m", map[string]any{"duty": 1, "hold": "1s"}); err != nil { // refreshed
			t.Fatal(err)
		}
		time.Sleep(999 * time.Millisecond)
		synctest.Wait()
		want(t, "still held", m.notes(), `{"duty":0.5} {"duty":1}`)
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		want(t, "lapsed", m.notes(), `{"duty":0.5} {"duty":1} rest`)
		if d := time.Since(began); d > 1402*time.Millisecond {
			t.Errorf("dead man after %v", d)
		}
		want(t, "events", strings.Join(r.said("hw/m/set"), "\n"), `{"by":"test","command":{"duty":0.5}}
{"by":"test","command":{"duty":1}}
{"by":"test","rest":true,"why":"dead man"}`)
	})
}

func TestRefusedCommands(t *testing.T) {
	inBubble(t, Options{}, func(r *bench) {
		m := r.add(&motor{name: "m"}, Limits{
			Fields: map[string]Range{"duty": {Min: -1, Max: 1}, "value": {Max: 5}}, Words: []string{"mode"}, Rate: 10,
		})
		for _, c := range []struct {
			cmd  any
			want string
		}{
			{map[string]any{"duty": 1.01}, "duty = 1.01 is not in -1..1"},
			{map[string]any{"duty": nan()}, "NaN"},
			{json.RawMessage(`{"duty": 1e999}`), "1e999"},
			{json.RawMessage(`{"duty": -1e300}`), "is not in -1..1"},
			{map[string]any{"DUTY": 0.1}, `no field "DUTY"; it takes duty, value, mode`},
			{map[string]any{"duty": "0.1"}, "duty must be a number"},
			{map[string]any{"duty": true}, "duty must be a number"},
			{map[string]any{"mode": 3}, "mode must be text or a switch"},
			{map[string]any{"mode": map[string]any{"duty": 9}}, "mode must be text"},
			{map[string]any{"duty": 0.1, "hold": 6}, "at most 5s"},
			{map[string]any{"duty": 0.1, "hold": 5.0000001}, "at most 5s"},
			{map[string]any{"duty": 0.1, "hold": 0}, "at most 5s"},
			{map[string]any{"duty": 0.1, "hold": 0.0}, "at most 5s"},
			{map[string]any{"duty": 0.1, "hold": -1}, "at most 5s"},
			{map[string]any{"duty": 0.1, "hold": 1e300}, "at most 5s"},
			{map[string]any{"duty": 0.1, "hold": int64(math.MaxInt64)}, "at most 5s"},
			{map[string]any{"duty": 0.1, "hold": "5.001s"}, "at most 5s"},
			{map[string]any{"duty": 0.1, "hold": "0s"}, "at most 5s"},
			{map[string]any{"duty": 0.1, "hold": "1000000h"}, "at most 5s"},
			{map[string]any{"duty": 0.1, "hold": "soon"}, "at most 5s"},
			{map[string]any{"duty": 0.1, "hold": true}, "at most 5s"},
			{map[string]any{"duty": 0.1, "hold": "-1s"}, "at most 5s"},
			{map[string]any{"duty": 0.1, "hold": nil}, "at most 5s"},
			{map[string]any{}, "the command is empty"},
			{[]any{1}, "value must be a number"},
			{json.RawMessage(`{"duty":`), "JSON at byte"},
			{nil, "value must be a number"},
		} {
			err := r.do("m", c.cmd)
			if !errors.Is(err, ErrLimit) || !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("%v: got %v, want ErrLimit with %q", c.cmd, err, c.want)
			}
		}
		want(t, "told", m.notes(), "")
		if err := r.do("m", 4); err != nil { // short for {"value": 4}
			t.Error(err)
		}
		if err := r.do("m", map[string]any{"mode": "soft"}); !errors.Is(err, ErrRate) {
			t.Errorf("at once: got %v, want ErrRate", err)
		}
		time.Sleep(100 * time.Millisecond)
		if err := r.do("m", map[string]any{"mode": "soft"}); err != nil {
			t.Error(err)
		}
		want(t, "told", m.notes(), `{"value":4} {"mode":"soft"}`)
		if err := r.do("n", 1); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "there are: m") {
			t.Errorf("unknown: got %v", err)
		}
	})
}

func nan() float64 { zero := 0.0; return zero / zero }

func TestSlewMakesRamps(t *testing.T) {
	inBubble(t, Options{}, func(r *bench) {
		m := r.add(&motor{name: "m"}, Limits{Fields: map[string]Range{"angle": {Min: -90, Max: 90, Slew: 100}}})
		if err := r.do("m", map[string]any{"angle": 5}); err != nil { // the caller is answered after the first step
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		want(t, "steps", m.notes(), `{"angle":2} {"angle":4} {"angle":5}`)
		time.Sleep(time.Second)
		synctest.Wait()
		want(t, "lapsed", m.notes(), `{"angle":2} {"angle":4} {"angle":5} rest`)
	})
}

func TestStop(t *testing.T) {
	inBubble(t, Options{}, func(r *bench) {
		ended := make(chan error, 1)
		m := r.add(&motor{name: "m"}, duty)
		// n's driver ignores its context, o's Rest hangs.
		free := make(chan struct{})
		var hangs atomic.Bool
		hangs.Store(true)
		n := r.add(&motor{name: "n", do: func(context.Context, map[string]any) error { <-free; return nil }}, duty)
		r.add(&motor{name: "o", rest: func(ctx context.Context) error {
			if hangs.Load() {
				<-ctx.Done()
			}
			return ctx.Err()
		}}, duty)
		r.OnStop(func() { m.note("hook") })
		r.OnStop(func() { panic("bad hook") })
		r.OnStop(func() { <-free })
		if err := errors.Join(r.do("m", 0.0), r.do("m", map[string]any{"duty": 0.5}), r.do("o", map[string]any{"duty": 0.5})); err == nil {
			t.Fatal("value is no field of m")
		}
		go func() { ended <- r.do("n", map[string]any{"duty": 0.5}) }()
		synctest.Wait()

		began := time.Now()
		err := r.Stop(r.t.Context(), "cli", "operator")
		if d := time.Since(began); d != 50*time.Millisecond {
			t.Errorf("Stop took %v with a hung device, want the bound", d)
		}
		if !errors.Is(err, ErrUnrested) || !strings.Contains(fmt.Sprint(err), "in time: o") {
			t.Errorf("got %v, want o named", err)
		}
		if !strings.Contains(m.notes(), "rest") || !strings.Contains(m.notes(), "hook") || !strings.HasSuffix(n.notes(), "rest") {
			t.Errorf("m: %s, n: %s", m.notes(), n.notes())
		}
		if err := r.do("m", map[string]any{"duty": 0.1}); !errors.Is(err, ErrStopped) {
			t.Errorf("after the stop: got %v", err)
		}
		if got := r.said(StopTopic); len(got) != 1 || !strings.Contains(got[0], `"reason":"operator"`) {
			t.Errorf("events: %v", got)
		}
		close(free)
		if err := <-ended; !errors.Is(err, nil) && !errors.Is(err, ErrStopped) {
			t.Errorf("the hung command: %v", err)
		}
		synctest.Wait()
		want(t, "n rests again when its Do comes back", n.notes(), `{"duty":0.5} rest rest`)

		r.Resume(r.t.Context(), "cli")
		time.Sleep(2 * time.Second)
		if err := r.do("m", map[string]any{"duty": 0.1}); err != nil {
			t.Errorf("after resume: %v", err)
		}
		if err := r.do("o", map[string]any{"duty": 0.1}); !errors.Is(err, ErrUnrested) {
			t.Errorf("o before it is at rest: got %v", err)
		}
		hangs.Store(false)
		time.Sleep(30 * time.Second)
		if err := r.do("o", map[string]any{"duty": 0.1}); err != nil {
			t.Errorf("o after its Rest was tried again: %v", err)
		}
		if got := r.said(ResumeTopic); len(got) != 1 {
			t.Errorf("resume: %v", got)
		}
	})
}

// A stop takes no virtual time: nothing on its path waits.
func TestStopAtOnce(t *testing.T) {
	inBubble(t, Options{}, func(r *bench) {
		var all []*motor
		for i := range 20 {
			all = append(all, r.add(&motor{name: fmt.Sprint("m", i)}, duty))
			if err := r.do(fmt.Sprint("m", i), map[string]any{"duty": 1}); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		if _, err := r.b.Publish(r.t.Context(), "mqtt", StopTopic, "hand in the door"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if d := time.Since(began); d != 0 {
			t.Errorf("took %v", d)
		}
		for _, m := range all {
			want(t, m.name, m.notes(), `{"duty":1} rest`)
		}
		s, ok := r.Stopped()
		if !ok || s.Source != "mqtt" || s.Reason != "hand in the door" {
			t.Errorf("got %v %v", s, ok)
		}
		if got := r.said(StopTopic); len(got) != 2 || !strings.Contains(got[1], `"ms":0`) {
			t.Errorf("events: %v", got)
		}
	})
}
