package scripts_test

import (
	"context"
	"io/fs"
	"testing"
	"testing/synctest"

	"edged/blackboard"
	"edged/bus"
	"edged/hw"
	"edged/hw/sim"
	"edged/scripts"
	"edged/starlark/lib"
)

// TestNoWarnings wants "edged check" to say nothing of the folders.
func TestNoWarnings(t *testing.T) {
	folders, err := fs.ReadDir(scripts.Files, ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range folders {
		t.Run(d.Name(), func(t *testing.T) {
			folder, err := fs.Sub(scripts.Files, d.Name())
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				o := lib.Options{Folder: d.Name(), Grants: grants(t, folder)}
				b, err := lib.Load(t.Context(), apartment(t, d.Name()), folder, o)
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
