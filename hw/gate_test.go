package hw

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"edged/bus"
	"pgregory.net/rapid"
)

// Nothing outside the limits reaches a device, whatever is sent, however
// often: 100,000 commands from the borders of everything.
func TestNothingOutsideTheLimits(t *testing.T) {
	const slew = 50.0
	lim := Limits{Fields: map[string]Range{
		"v": {Min: -0.5, Max: 0.5}, "a": {Min: -90, Max: 90, Slew: slew}, "p": {Min: 0, Max: 0},
	}, Words: []string{"mode"}}
	inBubble(t, Options{}, func(r *bench) {
		var reached, moved int
		last, lastAt := 0.0, time.Now()
		m := r.add(&motor{name: "m", do: func(_ context.Context, c map[string]any) error {
			reached++
			for n, v := range c {
				switch f, isNumber := v.(float64); {
				case n == "mode":
				case !isNumber, n == "v" && math.Abs(f) > 0.5, n == "p" && f != 0, n == "a" && math.Abs(f) > 90:
					t.Errorf("reached the device: %v", c)
				case n != "v" && n != "a" && n != "p":
					t.Errorf("reached the device: field %s", n)
				case n == "a":
					most := slew*max(time.Since(lastAt).Seconds(), 0) + slew*rampStep.Seconds() + 1e-9
					if math.Abs(f-last) > most {
						t.Errorf("a went from %v to %v in %v", last, f, time.Since(lastAt))
					}
					if f != last {
						moved++
					}
					last, lastAt = f, time.Now()
				}
			}
			return nil
		}}, lim)
		m.rest = func(context.Context) error { last = 0; return nil }
		rnd := rand.New(rand.NewPCG(1, 2))
		n := 100_000
		if testing.Short() {
			n = 1000
		}
		for range n {
			m.mu.Lock()
			m.log = m.log[:0]
			m.mu.Unlock()
			_ = r.Do(r.t.Context(), "fuzz", "m", anyCommand(rnd)) // most are refused
			if rnd.IntN(4) == 0 {
				time.Sleep(time.Duration(rnd.IntN(30)) * time.Millisecond)
			}
			r.mu.Lock()
			r.got = r.got[:0]
			r.mu.Unlock()
		}
		if reached < n/100 || moved == 0 {
			t.Errorf("only %d of %d commands reached the device, a moved %d times", reached, n, moved)
		}
	})
}

// anyCommand draws from the borders.
func anyCommand(rnd *rand.Rand) any {
	pick := func(list ...any) any { return list[rnd.IntN(len(list))] }
	number := func() any {
		return pick(0, 0.5, -0.5, math.Nextafter(0.5, 1), 0.1, 90, -90, 90.0000001, -1e308, 1e308, 42.5, int64(math.MaxInt64),
			int64(math.MinInt64), math.NaN(), math.Inf(1), math.Inf(-1), math.SmallestNonzeroFloat64, "0.1", "1e9", true, nil,
			[]any{9}, map[string]any{"v": 9}, uint64(math.MaxUint64), float32(0.25), math.Copysign(0, -1), rnd.Float64(), 200*rnd.Float64()-100)
	}
	switch rnd.IntN(6) {
	case 0:
		return number()
	case 1:
		return json.RawMessage(pick(`{"v":1e400}`, `{"v":9,"v":0.1}`, `{"v":0.1,"v":9}`, `{"V":9}`, `{"v":0.1,"V":9}`, `{"v":NaN}`, `{`, ``, `{"v":0x10}`,
			`{"v":-0.5}`, `{"a":90}`, `{"ａ":90}`, `{"v":0.50000000000000000001}`, `{"v":1e-400}`, `null`, `{"v":"\u0039"}`, `[{"v":1}]`, `{"v":0.1}{"v":9}`).(string))
	case 2:
		return bus.RawJSON(fmt.Sprintf(`{"v": %v, "a": %v}`, rnd.NormFloat64(), 60*rnd.NormFloat64()))
	}
	m := map[string]any{}
	for range 1 + rnd.IntN(3) {
		m[pick("v", "a", "p", "mode", "V", "value", "hold", "v ", "").(string)] = number()
	}
	return m
}

// A stop comes through whatever is going on, and nothing moves after it.
func TestStopDuringEverything(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(rt, "actuators")
		hang := rapid.SliceOfN(rapid.IntRange(0, 4), n, n).Draw(rt, "hang")
		at := time.Duration(rapid.IntRange(0, 1500).Draw(rt, "ms")) * time.Millisecond
		by := rapid.IntRange(0, 2).Draw(rt, "by")
		inBubble(t, Options{}, func(r *bench) {
			var stopped atomic.Bool
			free := make(chan struct{})
			var motors []*motor
			for i, h := range hang {
				m := &motor{name: fmt.Sprint("m", i)}
				m.do = func(ctx context.Context, _ map[string]any) error {
					if stopped.Load() {
						rt.Errorf("%s was commanded after the stop", m.name)
					}
					switch h {
					case 1:
						<-ctx.Done()
						return ctx.Err()
					case 2:
						<-free // ignores its context
					case 3:
						return errors.New("broken")
					case 4:
						panic("driver")
					}
					return nil
				}
				m.open = drives(r, nil).open
				motors = append(motors, r.add(m, duty))
			}
			ctx, cancel := context.WithCancel(r.t.Context())
			var all sync.WaitGroup
			for i, m := range motors {
				all.Go(func() {
					for ctx.Err() == nil {
						if i%2 == 0 {
							_ = r.Do(ctx, "load", m.name, map[string]any{"duty": 0.2})
						} else if g, err := r.Start(ctx, "load", m.name, "go", nil); err == nil {
							_, _ = g.Result(ctx)
						}
						time.Sleep(time.Duration(7+i) * time.Millisecond)
					}
				})
			}
			// A listener that blocks the bus' delivery as long as it can.
			if _, err := r.b.Tap("hw/m0/set", func(bus.Event) { time.Sleep(40 * time.Millisecond) }); err != nil {
				t.Fatal(err)
			}
			time.Sleep(at)
			began := time.Now()
			switch by {
			case 0:
				_ = r.Stop(ctx, "cli", "test")
			case 1:
				r.Trip(ctx, "gpio", "test")
				time.Sleep(50 * time.Millisecond)
			case 2:
				if _, err := r.b.Publish(ctx, "mqtt", StopTopic, nil); err != nil {
					t.Fatal(err)
				}
				for _, s := r.Stopped(); !s; _, s = r.Stopped() {
					time.Sleep(time.Millisecond)
				}
				time.Sleep(15 * time.Millisecond)
			}
			if d := time.Since(began); by < 2 && d > 50*time.Millisecond {
				rt.Errorf("the stop took %v", d)
			}
			stopped.Store(true)
			for i, m := range motors {
				if log := m.notes(); log != "" && !strings.HasSuffix(log, "rest") {
					rt.Errorf("m%d (%d) is not at rest: %s", i, hang[i], log[max(0, len(log)-60):])
				}
			}
			time.Sleep(3 * time.Second)
			for _, m := range motors {
				if log := m.notes(); !strings.HasSuffix(log, "rest") {
					rt.Errorf("%s moved after the stop", m.name)
				}
			}
			close(free)
			cancel()
			all.Wait()
			synctest.Wait()
			for _, m := range motors {
				if log := m.notes(); !strings.HasSuffix(log, "rest") {
					rt.Errorf("%s does not end at rest", m.name)
				}
			}
		})
	})
}

func TestHungCommandDelaysOnlyItsDevice(t *testing.T) {
	inBubble(t, Options{}, func(r *bench) {
		free := make(chan struct{})
		h := r.add(&motor{name: "h", do: func(context.Context, map[string]any) error { <-free; return nil }}, duty)
		r.add(&motor{name: "m"}, duty)
		errs := make(chan error, 3)
		send := func(v float64) {
			go func() { errs <- r.do("h", map[string]any{"duty": v}) }()
			synctest.Wait()
		}
		send(0.1)
		send(0.2)
		send(0.3)
		if err := <-errs; !errors.Is(err, ErrReplaced) {
			t.Errorf("the second: got %v, want ErrReplaced", err)
		}
		began := time.Now()
		if err := r.do("m", map[string]any{"duty": 0.1}); err != nil || time.Since(began) != 0 {
			t.Errorf("its neighbour: %v after %v", err, time.Since(began))
		}
		time.Sleep(time.Second) // the dead man takes it, beside the hung Do
		synctest.Wait()
		want(t, "told", h.notes(), `{"duty":0.1} rest`)
		close(free)
		<-errs
		<-errs
		synctest.Wait()
		want(t, "told", h.notes(), `{"duty":0.1} rest rest`)
	})
}

func TestNamesAndClaims(t *testing.T) {
	inBubble(t, Options{}, func(r *bench) {
		r.add(&motor{name: "m"}, duty)
		err := r.AddActuator(&motor{name: "m"}, duty)
		if err == nil || !strings.Contains(err.Error(), "two devices have this name: actuator (*hw.motor) and actuator (*hw.motor)") {
			t.Errorf("got %v", err)
		}
		if err := r.AddActuator(&claimed{motor{name: "a"}}, duty); err != nil {
			t.Fatal(err)
		}
		err = r.AddActuator(&claimed{motor{name: "b"}}, duty)
		if err == nil || !strings.Contains(err.Error(), `pinctrl/17 is used by "a" and by "b"`) {
			t.Errorf("got %v", err)
		}
		for _, name := range []string{"", "a/b", "+", "#"} {
			if r.AddActuator(&motor{name: name}, duty) == nil {
				t.Errorf("name %q: no error", name)
			}
		}
		for _, l := range []Limits{
			{Hold: 6 * time.Second}, {Rate: -1}, {Rate: nan()},
			{Fields: map[string]Range{"v": {Min: 1, Max: 0}}}, {Fields: map[string]Range{"v": {Max: math.Inf(1)}}},
			{Fields: map[string]Range{"v": {Min: nan()}}}, {Fields: map[string]Range{"v": {Min: 1, Max: 2}}}, // rest is outside
			{Fields: map[string]Range{"hold": {Max: 1}}}, {Hold: -1}, {Hold: 25 * time.Hour, Stays: true}, {Keeps: true},
			{Keeps: true, Stays: true, Hold: time.Second},
		} {
			if r.AddActuator(&motor{name: "z"}, l) == nil {
				t.Errorf("limits %+v: no error", l)
			}
		}
	})
}

type claimed struct{ motor }

func (*claimed) Claims() []string { return []string{"pinctrl/17"} }

type limited struct {
	motor
	limits Limits
}

func (l *limited) Limits() Limits { return l.limits }

// The wiring may narrow what a device can stand, and widens nothing.
func TestWiringNarrows(t *testing.T) {
	device := Limits{
		Fields: map[string]Range{"v": {Min: -1, Max: 1, Slew: 2, Rest: 0.5}, "w": {Min: -3, Max: 3}},
		Words:  []string{"mode", "on"}, Rate: 10, Hold: time.Second,
	}
	lamp := Limits{Words: []string{"on"}, Stays: true}
	field := func(r Range) Limits { return Limits{Fields: map[string]Range{"v": r}} }
	for name, c := range map[string]struct {
		device, wiring Limits
		want           string // of the error
	}{
		"lower":            {device, field(Range{Min: -1.01, Max: 1}), "wider than the device's -1..1"},
		"higher":           {device, field(Range{Min: -1, Max: 1.01}), "wider than the device's -1..1"},
		"unknown field":    {device, Limits{Fields: map[string]Range{"x": {Max: 1}}}, `no field "x"`},
		"unknown word":     {device, Limits{Words: []string{"on", "off"}}, `no field "off"`},
		"longer":           {device, Limits{Hold: 1001 * time.Millisecond}, "hold 1.001s is longer than the device's 1s"},
		"stays":            {device, Limits{Stays: true}, "its commands can't stay"},
		"keeps":            {lamp, Limits{Keeps: true}, "its commands can't stay"},
		"hold below zero":  {lamp, Limits{Hold: -1}, "hold -1ns"},
		"hold of a year":   {lamp, Limits{Hold: 8760 * time.Hour}, "longer than 24h"},
		"hold of what may": {Limits{}, Limits{Hold: 5001 * time.Millisecond}, "longer than 5s"},
	} {
		inBubble(t, Options{}, func(r *bench) {
			err := r.AddActuator(&limited{motor{name: "m"}, c.device}, c.wiring)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, want %q", name, err, c.want)
			}
		})
	}
	for name, c := range map[string]struct{ device, wiring, want Limits }{
		"nothing said": {device, Limits{}, device},
		"all narrower": {
			device, Limits{Fields: map[string]Range{"v": {Min: -0.5, Max: 0.6, Slew: 1}}, Words: []string{"on"}, Rate: 5, Hold: time.Second / 2},
			Limits{Fields: map[string]Range{"v": {Min: -0.5, Max: 0.6, Slew: 1, Rest: 0.5}, "w": {Min: -3, Max: 3}}, Words: []string{"on"}, Rate: 5, Hold: time.Second / 2},
		},
		"slew and rate no faster": {
			device, Limits{Fields: map[string]Range{"v": {Min: -1, Max: 1, Slew: 3}}, Rate: 20},
			device,
		},
		"the edges": {device, Limits{Fields: map[string]Range{"v": {Min: -1, Max: 1}}, Hold: time.Second}, device},
		"a lamp":    {lamp, Limits{}, lamp},
		"a lamp of ten minutes": {
			lamp, Limits{Hold: 10 * time.Minute},
			Limits{Words: []string{"on"}, Stays: true, Hold: 10 * time.Minute},
		},
		"what says nothing has the rig's": {Limits{}, Limits{}, Limits{Hold: 500 * time.Millisecond}},
		"a rate where there was none":     {Limits{}, Limits{Rate: 3}, Limits{Rate: 3, Hold: 500 * time.Millisecond}},
	} {
		inBubble(t, Options{}, func(r *bench) {
			if err := r.AddActuator(&limited{motor{name: "m"}, c.device}, c.wiring); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got, ok := r.Limits("m")
			if !ok || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", c.want) {
				t.Errorf("%s:\n got %+v\nwant %+v", name, got, c.want)
			}
		})
	}
	inBubble(t, Options{}, func(r *bench) { // and the gate asks for the narrow ones
		if err := r.AddActuator(&limited{motor{name: "m"}, device}, field(Range{Min: -0.2, Max: 0.6})); err != nil {
			t.Fatal(err)
		}
		if err := r.do("m", map[string]any{"v": 0.7}); !errors.Is(err, ErrLimit) {
			t.Errorf("got %v", err)
		}
		if err := r.do("m", map[string]any{"v": 0.5}); err != nil {
			t.Error(err)
		}
		if _, ok := r.Limits("x"); ok {
			t.Error("limits of what is not there")
		}
	})
}

// What stays is as it was told until it is told otherwise, or stopped, or its hold
// is over; what keeps stays as it is at a stop, too.
func TestStays(t *testing.T) {
	inBubble(t, Options{}, func(r *bench) {
		on := map[string]any{"on": true}
		words := []string{"on"}
		lamp := r.add(&motor{name: "lamp"}, Limits{Words: words, Stays: true})
		heater := r.add(&motor{name: "heater"}, Limits{Words: words, Stays: true, Hold: 10 * time.Minute})
		night := r.add(&motor{name: "night"}, Limits{Words: words, Stays: true, Keeps: true})
		for _, name := range []string{"lamp", "heater", "night"} {
			if err := r.do(name, on); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10*time.Minute - time.Millisecond)
		synctest.Wait()
		want(t, "a heater before its hold is over", heater.notes(), `{"on":true}`)
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		want(t, "a heater", heater.notes(), `{"on":true} rest`)
		time.Sleep(48 * time.Hour)
		synctest.Wait()
		want(t, "a lamp", lamp.notes(), `{"on":true}`)
		want(t, "a lamp that keeps", night.notes(), `{"on":true}`)

		if err := r.do("lamp", map[string]any{"on": false, "hold": "2h"}); err != nil { // its own lifetime
			t.Fatal(err)
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		want(t, "a lamp for two hours", lamp.notes(), `{"on":true} {"on":false} rest`)
		if err := r.do("lamp", map[string]any{"on": true, "hold": "25h"}); !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), "at most 24h") {
			t.Errorf("for longer than a day: %v", err)
		}
		if err := r.do("night", map[string]any{"on": true, "hold": 1}); !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), "no effect") {
			t.Errorf("a hold of what keeps: %v", err)
		}
		if err := r.do("lamp", on); err != nil {
			t.Fatal(err)
		}
		if err := r.Stop(r.t.Context(), "cli", "operator"); err != nil {
			t.Fatal(err)
		}
		want(t, "a lamp at a stop", lamp.notes(), `{"on":true} {"on":false} rest {"on":true} rest`)
		if err := r.do("night", on); !errors.Is(err, ErrStopped) {
			t.Errorf("a lamp while the robot is stopped: %v", err)
		}
		want(t, "what was told of the lamp that keeps", strings.Join(r.said("hw/night/set"), "\n"), `{"by":"test","command":{"on":true}}`)
		for _, s := range r.Devices() {
			if s.Name == "night" && (!s.AtRest || fmt.Sprint(s.Value) != "map[on:true]") {
				t.Errorf("the lamp that keeps: %+v, want at rest and on", s)
			}
			if s.Name == "lamp" && s.Value != nil {
				t.Errorf("the lamp: %+v, want nothing told", s)
			}
		}
	})
}

func TestDryRun(t *testing.T) {
	inBubble(t, Options{Dry: true}, func(r *bench) {
		m := r.add(drives(r, nil), duty)
		if err := r.do("m", map[string]any{"duty": 0.5}); err != nil {
			t.Fatal(err)
		}
		if err := r.do("m", map[string]any{"duty": 5}); !errors.Is(err, ErrLimit) {
			t.Errorf("limits hold in a dry run: got %v", err)
		}
		g, err := r.Start(r.t.Context(), "test", "m", "go", nil)
		if err != nil || g.State() != Succeeded {
			t.Errorf("got %v, %v", g, err)
		}
		synctest.Wait()
		if log := m.notes(); strings.Contains(log, "duty") {
			t.Errorf("moved: %s", log)
		}
		want(t, "event", r.said("hw/m/set")[0], `{"by":"test","command":{"duty":0.5},"dry":true}`)
	})
}

// What comes of old words passes by no door of the gate, and is told with the
// reason; a stop and a Rest of them do.
func TestOldMovesNothing(t *testing.T) {
	inBubble(t, Options{}, func(r *bench) {
		m := r.add(&motor{name: "m", open: func(g *Goal, _ string, _ json.RawMessage) error { return g.Drive(map[string]any{"duty": 0.1}) }}, duty)
		if err := r.Bind("cmd/m", "m"); err != nil {
			t.Fatal(err)
		}
		old := bus.WithOld(r.t.Context(), bus.Old{Topic: "home/goto", Reason: "it waited", Age: 3 * time.Hour})
		_, start := r.Start(old, "script:a", "m", "drive", nil)
		_, goal := r.NewGoal(old, "script:a", "tool")
		for what, err := range map[string]error{"Do": r.Do(old, "script:a", "m", map[string]any{"duty": 0.2}), "Start": start, "NewGoal": goal} {
			if !errors.Is(err, ErrOld) || !strings.Contains(fmt.Sprint(err), "home/goto is 3h0m0s old") {
				t.Errorf("%s: %v", what, err)
			}
		}
		_, replay := r.b.Replay(r.t.Context(), "mqtt", "cmd/m", 0.3)
		_, queued := r.b.Publish(bus.WithOld(r.t.Context(), bus.Old{Reason: "it waited"}), "mqtt", "cmd/m", 0.4)
		if err := errors.Join(replay, queued); err != nil {
			t.Fatal(err)
		}
		refused := r.said("hw/m/refused")
		if want := 4; len(refused) != want {
			t.Errorf("%d refusals are told, want %d: %v", len(refused), want, refused)
		}
		for i, part := range []string{`"goal":"drive"`, `"command":{"duty":0.2}`, `"command":0.3`, `"command":0.4`} {
			if i >= len(refused) || !strings.Contains(refused[i], part) {
				t.Errorf("refusal %d: %v, want %s", i, refused, part)
			}
		}
		// The newest order stands, though what is none came after it.
		hold := func(ctx context.Context, v float64) {
			t.Helper()
			if _, err := r.b.Publish(ctx, "mqtt", "cmd/m", map[string]any{"duty": v}); err != nil {
				t.Fatal(err)
			}
		}
		resume := r.b.Pause()
		hold(r.t.Context(), 0.5)
		hold(bus.WithOld(r.t.Context(), bus.Old{Reason: "it waited"}), 0.6)
		resume()
		synctest.Wait()
		want(t, "m", m.notes(), `{"duty":0.5}`)

		if err := r.Rest(old, "script:a", "m"); err != nil {
			t.Error(err)
		}
		r.Trip(old, "mqtt", "an old stop")
		if _, stopped := r.Stopped(); !stopped {
			t.Error("a stop stops, however old")
		}
		if err := r.Resume(old, "mqtt"); !errors.Is(err, ErrOld) {
			t.Errorf("resumed because of old words: %v", err)
		}
		if _, stopped := r.Stopped(); !stopped {
			t.Error("old words resume nothing")
		}
		r.Resume(r.t.Context(), "cli")
		if err := r.do("m", map[string]any{"duty": 0.7}); err != nil {
			t.Errorf("news: %v", err)
		}
	})
}

// What stops the robot between a command's look at the gate and its place in the
// slot: the gate is looked at again under the lock.
func TestGateUnderTheLock(t *testing.T) {
	for name, c := range map[string]struct {
		between func(r *bench)
		want    error
	}{
		"a stop":          {func(r *bench) { r.Trip(r.t.Context(), "cli", "operator") }, ErrStopped},
		"the end":         {func(r *bench) { _ = r.Safe(r.t.Context(), "SIGTERM") }, ErrOff},
		"out of a fence":  {func(r *bench) { at(r, 5, 5) }, ErrFence},
		"without a place": {func(r *bench) { r.sensors[0].degrade(Stale) }, ErrFence},
	} {
		inBubble(t, Options{}, func(r *bench) {
			m := fenced(r)
			at(r, 2, 2)
			a, err := r.actuator("m")
			if err != nil {
				t.Fatal(err)
			}
			o, err := a.order(r.t.Context(), "test", map[string]any{"duty": 1})
			if err = errors.Join(err, a.ready()); err != nil {
				t.Fatal(err)
			}
			c.between(r)
			if err := a.post(o); !errors.Is(err, c.want) {
				t.Errorf("%s came between: %v, want %v", name, err, c.want)
			}
			synctest.Wait()
			if strings.Contains(m.notes(), "duty") {
				t.Errorf("%s came between, and it moved: %s", name, m.notes())
			}
		})
	}
}

// A goal that takes its actuator over while the robot is being stopped is over.
func TestTakeOverWhileStopping(t *testing.T) {
	inBubble(t, Options{}, func(r *bench) {
		r.add(&motor{name: "m"}, duty)
		a, err := r.actuator("m")
		if err != nil {
			t.Fatal(err)
		}
		r.Trip(r.t.Context(), "cli", "operator")
		g := r.goal(r.t.Context(), "test", "m.go", a) // too late for the stop to see
		a.takeOver("test", g)
		if g.State() != Cancelled || g.Context().Err() == nil {
			t.Errorf("%s, want cancelled", g.State())
		}
		if err := g.Drive(map[string]any{"duty": 1}); err == nil {
			t.Error("it drives")
		}
	})
}

// While a Rest hangs its actuator takes what waits for it for a second, no longer.
func TestRestHangs(t *testing.T) {
	inBubble(t, Options{}, func(r *bench) {
		free := make(chan struct{})
		m := r.add(&motor{name: "m", rest: func(context.Context) error { <-free; return nil }}, duty)
		go r.Rest(r.t.Context(), "test", "m")
		synctest.Wait()
		first := make(chan error, 1)
		go func() { first <- r.do("m", map[string]any{"duty": 0.1, "hold": 5}) }()
		time.Sleep(time.Second)
		if err := r.Do(r.t.Context(), "test", "m", nil); !errors.Is(err, ErrLimit) {
			t.Errorf("what is no command: %v", err)
		}
		time.Sleep(time.Millisecond)
		if err := r.do("m", map[string]any{"duty": 0.2}); !errors.Is(err, ErrUnrested) || !strings.Contains(err.Error(), "Rest hangs") {
			t.Errorf("after a second: %v, want ErrUnrested", err)
		}
		close(free)
		if err := <-first; err != nil {
			t.Errorf("what waited: %v", err)
		}
		synctest.Wait()
		want(t, "told", m.notes(), `rest {"duty":0.1}`)
	})
}

// The limits of a rate: the second command of a pair is let through when its time
// has come, not before.
func TestRate(t *testing.T) {
	inBubble(t, Options{}, func(r *bench) {
		r.add(&motor{name: "m"}, Limits{Fields: duty.Fields, Rate: 10})
		for i, c := range []struct {
			after time.Duration
			want  error
		}{{0, nil}, {99 * time.Millisecond, ErrRate}, {time.Millisecond, nil}, {100 * time.Millisecond, nil}, {0, ErrRate}} {
			time.Sleep(c.after)
			if err := r.do("m", map[string]any{"duty": 0.1}); !errors.Is(err, c.want) {
				t.Errorf("command %d: %v, want %v", i, err, c.want)
			}
		}
	})
}
