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

	"edged/bus"
)

type eye struct {
	name  string
	sense func(ctx context.Context, emit func(any) error) error
}

func (e *eye) Name() string { return e.name }
func (e *eye) Sense(ctx context.Context, emit func(any) error) error {
	return e.sense(ctx, emit)
}

// serve runs the rig's services until the bubble's end.
func (r *bench) serve() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	n := 0
	for _, s := range r.Services() {
		n++
		go func() {
			if err := s.Serve(ctx); err != nil {
				r.t.Errorf("%s: %v", s.Name, err)
			}
			done <- struct{}{}
		}()
	}
	synctest.Wait()
	return func() {
		cancel()
		for range n {
			<-done
		}
	}
}

func TestReadings(t *testing.T) {
	inBubble(t, Options{}, func(r *bench) {
		feed := make(chan any)
		e := &eye{name: "e", sense: func(ctx context.Context, emit func(any) error) error {
			for {
				select {
				case v := <-feed:
					if err, bad := v.(error); bad {
						return err
					}
					if err := emit(v); err != nil {
						return err
					}
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}}
		if err := r.AddSensor(e, Bounds{Min: 0, Max: 10, Stale: 2 * time.Second}); err != nil {
			t.Fatal(err)
		}
		stop := r.serve()
		feed <- 1.5
		feed <- Reading{Value: 11, Unit: "m"}
		feed <- math.NaN()
		feed <- 10
		time.Sleep(3 * time.Second)
		feed <- errors.New("no answer at 0x29")
		time.Sleep(3 * time.Second) // tried again after 500 ms
		feed <- 2
		feed <- make(chan int) // no reading: the driver is at fault
		time.Sleep(time.Second)
		stop()
		var got []string
		for _, s := range r.said("hw/e") {
			s, _, _ = strings.Cut(s, `,"time"`)
			_, rest, _ := strings.Cut(r.said("hw/e")[len(got)], `Z",`)
			got = append(got, s+" "+rest)
		}
		want(t, "readings", strings.Join(got, "\n"), `{"quality":"good" "unit":"","value":1.5}
{"quality":"range" "unit":"m","value":11}
{"quality":"range" "unit":"","value":null}
{"quality":"good" "unit":"","value":10}
{"quality":"stale" "unit":"","value":10}
{"quality":"missing" "unit":"","value":10}
{"quality":"good" "unit":"","value":2}
{"quality":"missing" "unit":"","value":2}`)
		errs := r.said(bus.ErrorTopic)
		if len(errs) != 2 || !strings.Contains(errs[0], "no answer at 0x29") || !strings.Contains(errs[1], "has no JSON form") && !strings.Contains(errs[1], "JSON") {
			t.Errorf("errors: %v", errs)
		}
	})
}

// A device that fails, panics or is missing is tried again, ever more slowly,
// told of once, and troubles nobody else.
func TestFailingSensorIsTriedAgain(t *testing.T) {
	inBubble(t, Options{}, func(r *bench) {
		var tries []time.Duration
		began := time.Now()
		bad := &eye{name: "bad", sense: func(context.Context, func(any) error) error {
			tries = append(tries, time.Since(began))
			if len(tries)%2 == 0 {
				panic("driver")
			}
			return errors.New("no such device: /dev/i2c-1 (is dtparam=i2c_arm=on set?)")
		}}
		good := &eye{name: "good", sense: func(ctx context.Context, emit func(any) error) error {
			_ = emit(1)
			<-ctx.Done()
			return ctx.Err()
		}}
		if err := errors.Join(r.AddSensor(bad, Bounds{}), r.AddSensor(good, Bounds{})); err != nil {
			t.Fatal(err)
		}
		stop := r.serve()
		time.Sleep(100 * time.Second)
		stop()
		want(t, "tries", fmt.Sprint(tries), "[0s 500ms 1.5s 3.5s 7.5s 15.5s 31.5s 1m1.5s 1m31.5s]")
		if rd, ok := r.Last("good"); !ok || rd.Value != int64(1) {
			t.Errorf("its neighbour: %v", rd)
		}
		for _, d := range r.Devices() {
			if d.Name == "bad" && d.Error == "" {
				t.Error("status says nothing")
			}
		}
	})
}

func TestBind(t *testing.T) {
	inBubble(t, Options{}, func(r *bench) {
		m := r.add(&motor{name: "m"}, duty)
		r.add(&motor{name: "n"}, duty)
		if err := errors.Join(r.Bind("board/motor", "m"), r.Bind("cmd/n", "n")); err != nil {
			t.Fatal(err)
		}
		pub := func(topic string, v any) {
			t.Helper()
			if _, err := r.b.Publish(r.t.Context(), "script:main.star", topic, v); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		pub("board/motor", map[string]any{"old": nil, "new": map[string]any{"duty": 0.3}})
		pub("board/motor", map[string]any{"old": 1, "new": map[string]any{"duty": 3}})
		pub("board/motor", map[string]any{"old": 1, "new": nil})
		want(t, "m", m.notes(), `{"duty":0.3} rest`)
		if errs := r.said(bus.ErrorTopic); len(errs) != 1 || !strings.Contains(errs[0], "duty = 3 is not in -1..1") {
			t.Errorf("errors: %v", errs)
		}
		// Who told it, and because of what.
		r.mu.Lock()
		for _, e := range r.got {
			if e.Topic == "hw/m/set" && e.Cause == 0 {
				t.Error("hw/m/set has no cause")
			}
		}
		r.mu.Unlock()
		want(t, "by", r.said("hw/m/set")[0], `{"by":"script:main.star","command":{"duty":0.3}}`)

		if r.Bind("x", "nobody") == nil || r.Bind("a/#/b", "m") == nil {
			t.Error("no error")
		}
	})
}
