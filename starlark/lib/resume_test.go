package lib_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"edged/hw"
)

// TestScriptsResume: robot.resume resumes whoever stopped the robot, and a copy that
// was kept resumes nothing.
func TestScriptsResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		rig, err := hw.NewRig(r.bus, hw.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer rig.Close()
		r.host.Rig = rig
		b := r.start(`on("reset", lambda ev: robot.resume())`)
		defer r.stop(b)
		for _, source := range []string{"cli", "hw:estop"} {
			if err := rig.Stop(t.Context(), source, "button"); err != nil {
				t.Fatal(err)
			}
			if _, err := r.bus.Replay(t.Context(), "mqtt", "reset", nil); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if _, stopped := rig.Stopped(); !stopped || !strings.Contains(r.errors(), "a person resumes it: with 'edged resume'") {
				t.Errorf("stopped by %s, after a kept reset: stopped %v, errors %q", source, stopped, r.errors())
			}
			r.publish("reset", nil)
			synctest.Wait()
			if s, stopped := rig.Stopped(); stopped {
				t.Errorf("still stopped by %+v", s)
			}
			r.heard = nil
		}
	})
}
