package lib_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"edged/hw"
)

// TestScriptsLeaveTheHardwaresStop: robot.resume resumes what software stopped,
// and says who resumes the rest.
func TestScriptsLeaveTheHardwaresStop(t *testing.T) {
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
		for source, stays := range map[string]bool{"cli": false, "hw:estop": true} {
			if err := rig.Stop(t.Context(), source, "button"); err != nil {
				t.Fatal(err)
			}
			r.publish("reset", nil)
			synctest.Wait()
			if _, stopped := rig.Stopped(); stopped != stays {
				t.Errorf("stopped by %s, after robot.resume: stopped %v, want %v", source, stopped, stays)
			}
			if told := strings.Contains(r.errors(), "a person resumes it: with 'edged resume'"); told != stays {
				t.Errorf("stopped by %s: errors %q, told whose it is: %v, want %v", source, r.errors(), told, stays)
			}
			rig.Resume(t.Context(), "cli")
			r.heard = nil
		}
	})
}
