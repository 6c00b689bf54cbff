package hw

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// position is a sensor that a test gives its readings.
type position struct{}

func (position) Name() string { return "pose" }
func (position) Sense(ctx context.Context, _ func(any) error) error {
	<-ctx.Done()
	return ctx.Err()
}

func square() Fence { return Fence{Area: [][2]float64{{0, 0}, {4, 0}, {4, 4}, {0, 4}}} }

// at says where the robot is.
func at(r *bench, x, y float64) {
	r.t.Helper()
	if err := r.sensors[0].emit(map[string]any{"x": x, "y": y}); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

// fenced is a motor with a fence, and a goal that goes on until it is ended.
func fenced(r *bench) *motor {
	m := &motor{name: "m", open: func(*Goal, string, json.RawMessage) error { return nil }}
	r.add(m, duty)
	if err := r.AddSensor(position{}, Bounds{Stale: 2 * time.Second}); err != nil {
		r.t.Fatal(err)
	}
	if err := r.Fence("m", square()); err != nil {
		r.t.Fatal(err)
	}
	return m
}

func TestFenceGate(t *testing.T) {
	inBubble(t, Options{}, func(r *bench) {
		fenced(r)
		go1 := func(args any) error { _, err := r.Start(r.t.Context(), "test", "m", "go", args); return err }
		if err := r.do("m", map[string]any{"duty": 0.1}); !errors.Is(err, ErrFence) || !strings.Contains(err.Error(), "pose does not tell where") {
			t.Errorf("nobody knows where it is: %v, want ErrFence", err)
		}
		at(r, 2, 2)
		if err := r.do("m", map[string]any{"duty": 0.1}); err != nil {
			t.Errorf("inside: %v", err)
		}
		if err := go1(map[string]any{"x": 5.0, "y": 2}); !errors.Is(err, ErrFence) || !strings.Contains(err.Error(), "x = 5, y = 2") {
			t.Errorf("to the outside: %v, want ErrFence", err)
		}
		if err := go1(map[string]any{"room": "kitchen"}); err != nil {
			t.Errorf("somewhere: %v", err)
		}
		at(r, 4.5, 2)
		for name, err := range map[string]error{
			"a command": r.do("m", map[string]any{"duty": 0.1}), "somewhere": go1(map[string]any{"room": "kitchen"}),
		} {
			if !errors.Is(err, ErrFence) {
				t.Errorf("%s from the outside: %v, want ErrFence", name, err)
			}
		}
		g, err := r.Start(r.t.Context(), "test", "m", "go", map[string]any{"x": 2, "y": 2})
		if err != nil {
			t.Fatalf("the way back: %v", err)
		}
		if err := g.Drive(map[string]any{"duty": 0.1}); err != nil {
			t.Errorf("on the way back: %v", err)
		}
		at(r, 4.2, 2)
		if s := g.State(); s != Running {
			t.Errorf("on the way back, still outside: %s", s)
		}
	})
}

func TestFenceIsLeft(t *testing.T) {
	ways := map[string]struct {
		leave func(r *bench)
		why   string
	}{
		"outside": {func(r *bench) { at(r, 5, 2) }, "left its fence"},
		"stale":   {func(r *bench) { time.Sleep(2 * time.Second); synctest.Wait() }, "nobody knows where it is"},
		"no pose": {func(r *bench) { _ = r.sensors[0].emit("?"); synctest.Wait() }, "nobody knows where it is"},
	}
	for name, c := range ways {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{}, func(r *bench) {
				m := fenced(r)
				at(r, 2, 2)
				g, err := r.Start(r.t.Context(), "test", "m", "go", nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := g.Drive(map[string]any{"duty": 0.1, "hold": "5s"}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				began := time.Now()
				c.leave(r)
				if g.State() != Cancelled || g.Reason() != c.why {
					t.Errorf("the goal is %s: %q, want cancelled: %q", g.State(), g.Reason(), c.why)
				}
				if !strings.HasSuffix(m.notes(), "rest") {
					t.Errorf("the motor was told %s, want rest at last", m.notes())
				}
				if d := time.Since(began); name == "outside" && d != 0 {
					t.Errorf("it took %v", d)
				}
				if said := r.said(FenceTopic); len(said) != 1 || !strings.Contains(said[0], c.why) {
					t.Errorf("told: %v", said)
				}
			})
		})
	}
}

func TestFenceMistakes(t *testing.T) {
	inBubble(t, Options{}, func(r *bench) {
		r.add(&motor{name: "m"}, duty)
		for name, err := range map[string]error{
			"unknown": r.Fence("n", square()),
			"a line":  r.Fence("m", Fence{Area: [][2]float64{{0, 0}, {1, 1}}}),
		} {
			if err == nil {
				t.Errorf("%s: no error", name)
			}
		}
	})
}

// A rectangle holds what is between its sides, whichever way its corners go.
func TestFenceHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.Float64Range(-10, 10)
		w, h := rapid.Float64Range(0.1, 10).Draw(t, "w"), rapid.Float64Range(0.1, 10).Draw(t, "h")
		x0, y0 := f.Draw(t, "x0"), f.Draw(t, "y0")
		area := [][2]float64{{x0, y0}, {x0 + w, y0}, {x0 + w, y0 + h}, {x0, y0 + h}}
		if rapid.Bool().Draw(t, "the other way") {
			area[1], area[3] = area[3], area[1]
		}
		x, y := f.Draw(t, "x"), f.Draw(t, "y")
		if x == x0 || y == y0 || x == x0+w || y == y0+h {
			return // on a side
		}
		want := x > x0 && x < x0+w && y > y0 && y < y0+h
		if got := (Fence{Area: area}).Holds(x, y); got != want {
			t.Fatalf("%v, %v in %v: %v, want %v", x, y, area, got, want)
		}
	})
}
