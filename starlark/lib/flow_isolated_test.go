package lib_test

import (
	"context"
	"testing"
	"time"

	"edged/bus"
	"edged/starlark/lib"
)

// TestIsolatedWorkflow: an isolated script's nodes are the robot's; only its
// functions are elsewhere. They get what they are offered but a ctx; guards,
// conditions and untils get one that can be looked at.
func TestIsolatedWorkflow(t *testing.T) {
	r := newRig(t)
	defer r.close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	sub, err := r.bus.Subscribe("box/out", bus.Queue{})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	const main = `
def count(task):
    return bb.incr("box/n")

def drive(task):
    bus.publish("box/driving")
    sleep("1h")

up = Loop("up", Sequence("s", [count, lambda task: task]), until = lambda c: c.count >= 2 and c.last.ok)
trip = Sequence("trip", [Condition("ok", lambda c: True), up, Step(drive, guard = lambda c: bb.get("box/safe", True), on_halt = lambda c: bb.set("box/why", c.why))])

def on_go(ev):
    r = trip.run("x")
    bus.publish("box/out", [r.status, r.reason[:12], bb.get("box/n"), bb.get("box/why")[:6]])

on("box/go", on_go)
on("box/driving", lambda ev: bb.set("box/safe", False))
`
	b, err := lib.Load(ctx, r.host, source(main), lib.Options{Grants: lib.Grants{All: true}, Isolated: &lib.Isolation{Command: host(t)}})
	if err != nil {
		t.Fatal(shown(err))
	}
	if err := b.Start(ctx); err != nil {
		t.Fatal(err)
	}
	r.publish("box/go", nil)
	e, err := sub.Next(ctx)
	if err != nil {
		t.Fatal(err, r.errors())
	}
	if got := string(e.Bytes()); got != `["cancelled","guard lambda",2,"guard "]` {
		t.Errorf("got %s\n%s", got, r.errors())
	}
	if err := b.Stop(ctx); err != nil {
		t.Error(err)
	}
}
