package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edged/blackboard"
	"edged/bus"
	"edged/hw"
)

// TestLatchOutlivesTheProcess: a stop that hardware caused is there after a
// restart, until somebody resumes.
func TestLatchOutlivesTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "board.db")
	life := func(do func(r *hw.Rig)) {
		t.Helper()
		b := bus.New(bus.Options{})
		d, err := blackboard.Open(b, blackboard.Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		r, err := hw.NewRig(b, hw.Options{Latch: latch{d.Records("stop")}})
		if err != nil {
			t.Fatal(err)
		}
		do(r)
		r.Close()
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	stop := func(source string) func(r *hw.Rig) {
		return func(r *hw.Rig) {
			if err := r.Stop(t.Context(), source, "a button"); err != nil {
				t.Error(err)
			}
		}
	}
	want := func(source string) func(r *hw.Rig) {
		return func(r *hw.Rig) {
			s, stopped := r.Stopped()
			if stopped != (source != "") || s.Source != source || stopped && (s.Reason != "a button" || time.Since(s.Time) > time.Minute) {
				t.Errorf("stopped %v by %+v, want by %q", stopped, s, source)
			}
		}
	}
	life(stop("cli"))
	life(want(""))
	life(stop("hw:estop"))
	life(want("hw:estop"))
	life(stop("cli"))
	life(want("hw:estop"))
	life(func(r *hw.Rig) { r.Resume(t.Context(), "cli") })
	life(want(""))

	// A latch that the disk has damaged is no sign that nothing was stopped.
	life(stop("hw:estop"))
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(text, []byte("hw:estop"), []byte("hw:extop")), 0o600); err != nil {
		t.Fatal(err)
	}
	damaged := func(r *hw.Rig) {
		if s, stopped := r.Stopped(); !stopped || s.Source != "hw:latch" || !strings.Contains(s.Reason, "damaged") {
			t.Errorf("stopped %v by %+v, want by a latch that can't be read", stopped, s)
		}
	}
	life(damaged)
	life(damaged)
	life(func(r *hw.Rig) { r.Resume(t.Context(), "cli") })
	life(want(""))
}
