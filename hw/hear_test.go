package hw

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What is said stops the robot, in whatever form it comes, with its words as the
// reason; what is no text, and what is said once the rig is closed, does not.
func TestHear(t *testing.T) {
	stops := func(text string) bool { return strings.HasPrefix(text, "stop") }
	for _, c := range []struct {
		topic   string
		payload any
		why     string // "" = goes on
	}{
		{UtteranceTopic, "stop now", `somebody said "stop now"`},
		{PartialTopic, []byte("stop"), `somebody said "stop"`},
		{UtteranceTopic, map[string]any{"text": "stop  it\n"}, `somebody said "stop it"`},
		{UtteranceTopic, "stop " + strings.Repeat("ä", 60), `somebody said "stop ` + strings.Repeat("ä", 55) + `…"`},
		{UtteranceTopic, "stop " + strings.Repeat("ä", 55), `somebody said "stop ` + strings.Repeat("ä", 55) + `"`},
		{UtteranceTopic, map[string]any{"words": "stop"}, ""}, {UtteranceTopic, 3, ""}, {PartialTopic, "go", ""},
	} {
		inBubble(t, Options{}, func(r *bench) {
			if err := r.Hear(stops); err != nil {
				t.Fatal(err)
			}
			if err := r.Hear(stops); err == nil {
				t.Error("two listeners")
			}
			if _, err := r.b.Publish(r.t.Context(), "mic", c.topic, c.payload); err != nil {
				t.Fatal(err)
			}
			if s, stopped := r.Stopped(); stopped != (c.why != "") || s.Reason != c.why || stopped && s.Source != "mic" {
				t.Errorf("%v: stopped %v by %+v, want %s", c.payload, stopped, s, c.why)
			}
			r.Resume(r.t.Context(), "cli")
			r.Close()
			if _, err := r.b.Publish(r.t.Context(), "mic", c.topic, c.payload); err != nil {
				t.Fatal(err)
			}
			if _, stopped := r.Stopped(); stopped {
				t.Error("a closed rig heard it")
			}
		})
	}
}

// The reason of a stop by an event, and which of two stops stands.
func TestStopReasons(t *testing.T) {
	for _, c := range []struct {
		payload any
		want    string
	}{
		{nil, "event edged/safety/stop"}, {"", "event edged/safety/stop"}, {"door", "door"}, {7, "event edged/safety/stop"},
		{map[string]any{"reason": "hand"}, "hand"}, {map[string]any{"reason": ""}, "event edged/safety/stop"},
		{map[string]any{"reason": 1}, "event edged/safety/stop"},
	} {
		inBubble(t, Options{}, func(r *bench) {
			if _, err := r.b.Publish(r.t.Context(), "mqtt", StopTopic, c.payload); err != nil {
				t.Fatal(err)
			}
			if s, _ := r.Stopped(); s.Reason != c.want {
				t.Errorf("%v: %q, want %q", c.payload, s.Reason, c.want)
			}
			for _, source := range []string{"cli", "hw:a", "hw:b", "cli"} { // the newest, but for software after hardware
				r.Trip(r.t.Context(), source, source)
			}
			if s, _ := r.Stopped(); s.Source != "hw:b" {
				t.Errorf("stopped by %s, want hw:b", s.Source)
			}
			r.Resume(r.t.Context(), "cli")
			r.Trip(r.t.Context(), "cli", "first")
			r.Trip(r.t.Context(), "page", "second")
			if s, _ := r.Stopped(); s.Source != "page" {
				t.Errorf("stopped by %s, want the newest", s.Source)
			}
		})
	}
}

// The watchdog's look at the actuators: one whose dead man did not act is told.
func TestProbe(t *testing.T) {
	inBubble(t, Options{}, func(r *bench) {
		r.add(&motor{name: "m"}, duty)
		lamp := r.add(&motor{name: "lamp"}, Limits{Words: []string{"on"}, Stays: true})
		if err := errors.Join(r.do("m", map[string]any{"duty": 1}), r.do(lamp.name, map[string]any{"on": true})); err != nil {
			t.Fatal(err)
		}
		if err := r.Probe(r.t.Context()); err != nil {
			t.Errorf("all is well: %v", err)
		}
		a, err := r.actuator("m")
		if err != nil {
			t.Fatal(err)
		}
		a.lease.Stop() // its timer is lost
		time.Sleep(1400 * time.Millisecond)
		if err := r.Probe(r.t.Context()); err != nil {
			t.Errorf("less than a second late: %v", err)
		}
		time.Sleep(200 * time.Millisecond)
		if err := r.Probe(r.t.Context()); err == nil || !strings.Contains(err.Error(), "m: its dead man did not act") {
			t.Errorf("more than a second late: %v", err)
		}
		a.lives(time.Now(), 1)
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		if err := r.Probe(r.t.Context()); err != nil {
			t.Errorf("at rest: %v", err)
		}
	})
}

// What is asked of the wrong device, and what is told of a ramp and of a Rest that
// fails.
func TestWhatIsTold(t *testing.T) {
	inBubble(t, Options{}, func(r *bench) {
		if err := r.AddSensor(position{}, Bounds{}); err != nil {
			t.Fatal(err)
		}
		if err := r.AddActuator(plainMotor{&motor{name: "plain"}}, Limits{}); err != nil {
			t.Fatal(err)
		}
		ctx := r.t.Context()
		if err := r.do("pose", 1); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), `"pose" is a sensor`) {
			t.Errorf("a command for a sensor: %v", err)
		}
		if _, err := r.Start(ctx, "test", "plain", "go", nil); err == nil || !strings.Contains(err.Error(), "it takes commands, no long actions") {
			t.Errorf("a long action of a plain motor: %v", err)
		}
		if err := r.do("plain", 1); !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), "declare its limits") {
			t.Errorf("a command without limits: %v", err)
		}
		for _, lim := range []Range{{Min: math.Inf(-1)}, {Min: nan()}, {Slew: -1}, {Slew: nan()}, {Rest: nan()}, {Min: 1, Max: 3, Rest: 4}} {
			if r.AddActuator(&motor{name: "x"}, Limits{Fields: map[string]Range{"v": lim}}) == nil {
				t.Errorf("range %+v: no error", lim)
			}
		}
		broken := errors.New("stuck")
		a := r.add(&motor{name: "a"}, Limits{Fields: map[string]Range{"angle": {Max: 90, Slew: 100}}})
		if err := r.do("a", map[string]any{"angle": 3}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		a.rest = func(context.Context) error { return broken }
		if err := r.Rest(ctx, "test", "a"); !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
		want(t, "told", strings.Join(r.said("hw/a/set"), "\n"), `{"by":"test","command":{"angle":2},"to":{"angle":3}}
{"by":"test","command":{"angle":3}}
{"by":"test","error":"hw: a: rest: stuck","rest":true,"why":"asked"}`)
		// A reading of a sensor without bounds is good, however large.
		at(r, 1e9, -1e9)
		if rd, ok := r.Last("pose"); !ok || rd.Quality != Good {
			t.Errorf("got %+v", rd)
		}
		if err := r.sensors[0].emit(1e9); err != nil {
			t.Error(err)
		}
		if rd, _ := r.Last("pose"); rd.Quality != Good || fmt.Sprint(rd.Value) != "1e+09" {
			t.Errorf("got %+v", rd)
		}
	})
}

// plainMotor takes no long actions.
type plainMotor struct{ Actuator }
