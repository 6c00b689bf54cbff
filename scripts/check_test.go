package scripts_test

import (
	"context"
	"testing"
	"testing/synctest"

	"edged/blackboard"
	"edged/bus"
	"edged/hw"
	"edged/hw/sim"
	"edged/starlark/lib"
)

// TestNoWarnings wants "edged check" to say nothing of the folders.
func TestNoWarnings(t *testing.T) {
	for _, r := range robots(t) {
		t.Run(r.path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, err := lib.Load(t.Context(), apartment(t, r.name), r.files, lib.Options{Folder: r.name, Grants: r.grants})
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range b.Check() {
					t.Error(p)
				}
			})
		})
	}
}

// apartment is a robot in memory, which is closed with the test.
func apartment(t *testing.T, name string) *lib.Host {
	b := bus.New(bus.Options{})
	board, err := blackboard.Open(b, blackboard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rig, err := hw.NewRig(b, hw.Options{})
	if err != nil {
		t.Fatal(err)
	}
	world := sim.New(sim.Options{})
	if err := world.AddTo(rig); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		rig.Close()
		if err := board.Close(); err != nil {
			t.Error(err)
		}
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &lib.Host{Name: name, Bus: b, Board: board, Rig: rig, World: world}
}
