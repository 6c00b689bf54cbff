package replay_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edged/background"
	"edged/bus"
	"edged/bus/trace"
	"edged/hw"
	"edged/hw/replay"
)

const record = `
{"time":"2026-01-02T10:00:00Z","seq":1,"source":"hw:temp","topic":"hw/temp","payload":{"value":21,"unit":"°C","quality":"good","time":"2026-01-02T10:00:00Z"}}
{"time":"2026-01-02T10:00:01Z","seq":2,"source":"hw:goal","topic":"hw/base/goal","payload":{"id":1,"goal":"base.drive_to","state":"running","args":{"room":"hall"}}}
{"time":"2026-01-02T10:00:02Z","seq":3,"source":"hw:goal","topic":"hw/base/goal","payload":{"id":1,"goal":"base.drive_to","state":"running","feedback":{"left":1}}}
{"time":"2026-01-02T10:00:03Z","seq":4,"source":"hw:base","topic":"hw/base/set","payload":{"command":{"v":0.4,"w":0},"by":"script:main.star","goal":1}}
{"time":"2026-01-02T10:00:04Z","seq":5,"source":"hw:goal","topic":"hw/base/goal","payload":{"id":1,"goal":"base.drive_to","state":"succeeded","result":{"room":"hall"}}}
{"time":"2026-01-02T10:00:05Z","seq":6,"source":"hw:goal","topic":"hw/base/goal","payload":{"id":2,"goal":"base.drive_to","state":"running","args":{"room":"kitchen"}}}
{"time":"2026-01-02T10:00:07Z","seq":7,"source":"hw:goal","topic":"hw/base/goal","payload":{"id":2,"goal":"base.drive_to","state":"failed","reason":"blocked"}}
{"time":"2026-01-02T10:00:08Z","seq":8,"source":"hw:base","topic":"hw/base/set","payload":{"command":{"v":0.1},"by":"script:main.star","error":"hw: base: unplugged"}}
{"time":"2026-01-02T10:00:09Z","seq":9,"source":"hw:base","topic":"hw/base/set","payload":{"command":{"v":0.2},"by":"script:main.star","error":"the robot is stopped"}}
`

func limits() hw.Limits {
	return hw.Limits{Fields: map[string]hw.Range{"v": {Min: -1, Max: 1}, "w": {Min: -1, Max: 1}}}
}

// inBubble runs f with a rig that has the recorded devices.
func inBubble(t *testing.T, f func(t *testing.T, r *hw.Rig, past *replay.Robot)) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		r, err := hw.NewRig(b, hw.Options{})
		if err != nil {
			t.Fatal(err)
		}
		past := replay.New(trace.Parse([]byte(record)))
		if err := errors.Join(r.AddSensor(past.Sensor("temp"), hw.Bounds{}), r.AddActuator(past.Actuator("base", limits()), hw.Limits{})); err != nil {
			t.Fatal(err)
		}
		var children []background.Child
		for _, s := range r.Services() {
			children = append(children, background.Child{Name: s.Name, Service: s})
		}
		tree := background.NewSupervisor("t", background.Options{}, children...)
		if err := tree.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		f(t, r, past)
		if err := errors.Join(tree.Stop(context.Background())); err != nil {
			t.Error(err)
		}
		r.Close()
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func Example() {
	past := replay.New(trace.Parse([]byte(record)))
	fmt.Println(past.Sensors(), past.Actuators())
	line := trace.Parse([]byte(record))[0]
	name, reading, ok := replay.Reading(line)
	fmt.Println(name, reading.Value, reading.Unit, ok)
	// Output:
	// [temp] [base]
	// temp 21 °C true
}

func TestReadings(t *testing.T) {
	inBubble(t, func(t *testing.T, r *hw.Rig, past *replay.Robot) {
		_, rd, _ := replay.Reading(trace.Parse([]byte(record))[0])
		if err := past.Sensor("temp").Read(t.Context(), rd); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got, ok := r.Last("temp"); !ok || got.Value != int64(21) || !got.Time.Equal(rd.Time) {
			t.Errorf("last reading %+v, %v", got, ok)
		}
	})
}

// A goal ends as it did, after the same time; one that was never asked for
// takes the end of one that was, and an action that never was is refused.
func TestGoals(t *testing.T) {
	inBubble(t, func(t *testing.T, r *hw.Rig, _ *replay.Robot) {
		for _, c := range []struct {
			room string
			took time.Duration
			end  hw.State
		}{
			{"kitchen", 2 * time.Second, hw.Failed}, {"hall", 3 * time.Second, hw.Succeeded}, {"hall", 3 * time.Second, hw.Succeeded},
			{"bath", 3 * time.Second, hw.Succeeded},
		} {
			began := time.Now()
			g, err := r.Start(t.Context(), "test", "base", "drive_to", map[string]any{"room": c.room})
			if err != nil {
				t.Fatal(err)
			}
			_, _ = g.Result(t.Context())
			if took := time.Since(began); c.room != "bath" && took != c.took || g.State() != c.end && c.room != "bath" {
				t.Errorf("%s: %s after %v, want %s after %v", c.room, g.State(), took, c.end, c.took)
			}
		}
		if _, err := r.Start(t.Context(), "test", "base", "dance", nil); err == nil || !strings.Contains(err.Error(), "the record has no dance of base") {
			t.Errorf("an action that never was: %v", err)
		}
		g, err := r.Start(t.Context(), "test", "base", "drive_to", map[string]any{"room": "hall"})
		if err != nil {
			t.Fatal(err)
		}
		g.Cancel("enough")
		time.Sleep(time.Minute) // what would have come does not
		if g.State() != hw.Cancelled {
			t.Errorf("cancelled, it is %s", g.State())
		}
	})
}

// A device fails where it did; what the gate refused then is not its failure.
func TestCommands(t *testing.T) {
	inBubble(t, func(t *testing.T, r *hw.Rig, _ *replay.Robot) {
		do := func(v float64) error { return r.Do(t.Context(), "test", "base", map[string]any{"v": v}) }
		if err := do(0.1); err == nil || !strings.Contains(err.Error(), "unplugged") {
			t.Errorf("the command that failed: %v", err)
		}
		if err := errors.Join(do(0.1), do(0.2), do(0.3)); err != nil {
			t.Errorf("others: %v", err)
		}
	})
}
