package lib_test

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"

	"edged/starlark/lib"
)

// What has a trigger that looks at events, and says nothing about which, hears
// all of them: the two examples as people paste them.
func TestTriggerWithoutSubscribeTo(t *testing.T) {
	play(t, `
-- main.star --
def my_trigger(event):
    return event.payload if event.topic == "box/plan" else None

planner = Agent("planner", fn = lambda task: bus.publish("box/planned", task))
bg = BackgroundAgent(
    agent=planner,
    trigger=debounce_trigger(my_trigger, interval_s=1.0),
)

def sensor_trigger(event):
    return event.payload if event.kind == "sensor" else None

pool = AgentPool()
pool.register(Agent("sensor_monitor", fn = lambda task: bus.publish("box/seen", task)))
pool.start_background("sensor_monitor", trigger=sensor_trigger)

BackgroundAgent(Agent("clock", fn = lambda task: bus.publish("box/tick")), trigger = any_of(every("1m"), every("1h")))
-- main_test.star --
def test_debounced():
    publish("box/plan", "a")
    assert.eq(expect_event("box/planned").payload, "a")

def test_pool():
    publish("sensor", "warm")
    assert.eq(expect_event("box/seen").payload, "warm")

def test_clock():
    expect_event("box/tick", within = "61s")
`)
}

// It may hear everything only if the folder may.
func TestTriggerWithoutSubscribeToNeedsAGrant(t *testing.T) {
	r := newRig(t)
	defer r.close()
	load := func(main string, g lib.Grants) error {
		b, err := lib.Load(context.Background(), r.host, fstest.MapFS{"main.star": {Data: []byte(main)}}, lib.Options{Grants: g})
		if err == nil {
			_ = b.Stop(context.Background())
		}
		return err
	}
	deaf := "a = Agent(\"a\", fn = lambda t: None)\nBackgroundAgent(a, trigger = lambda ev: ev.payload)\n"
	err := load(deaf, lib.Grants{})
	for _, want := range []string{`nothing says what "a" listens to`, "subscribe_to", `bus.sub = ["*"]`} {
		if !strings.Contains(shown(err), want) {
			t.Errorf("got %q, want %q in it", shown(err), want)
		}
	}
	if err := load(deaf, lib.Grants{BusSub: []string{"*"}}); err != nil {
		t.Error(shown(err))
	}
	if err := load("BackgroundAgent(Agent(\"a\", fn = lambda t: None), trigger = every(\"1m\"))\n", lib.Grants{}); err != nil {
		t.Error(shown(err))
	}
}
