package lib_test

import (
	"fmt"
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

// TestOnResumed: who called a durable run is gone after a restart; on_resumed
// hears how it ended, once, and of no run that nobody interrupted.
func TestOnResumed(t *testing.T) {
	const hears = `, on_resumed = lambda result: bus.publish("box/resumed", [result.status, result.reply])`
	for _, c := range []struct{ name, effect, more, want string }{
		{"ends done", "read", hears, "[[done unload cup there]]"},
		{"ends failed", "write", hears + `, on_in_doubt = "failed"`, "failed"},
		{"waits for a person", "write", hears, "[]"},
		{"is not wanted", "read", "", "[]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, b := interrupted(t, c.effect, c.more, nil)
				defer r.close()
				defer r.stop(b)
				r.publish("box/go", "spoon") // a run of its own, whose caller hears it
				synctest.Wait()
				if got := fmt.Sprint(r.payloads("box/resumed")); !strings.Contains(got, c.want) {
					t.Errorf("on_resumed heard %s, want %s\n%s", got, c.want, r.errors())
				}
				if n := len(r.payloads("box/resumed")); n > 1 {
					t.Errorf("on_resumed was called %d times", n)
				}
				if n := len(r.payloads("box/ended")); n < 1 {
					t.Errorf("the caller of the second run did not hear\n%s", r.errors())
				}
			})
		})
	}
}

func TestOnResumedNeedsACheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		_, err := r.try(`Sequence("s", [lambda task: task], on_resumed = lambda result: None)`)
		if err == nil || !strings.Contains(shown(err), "want a checkpoint") {
			t.Errorf("got %v, want that a checkpoint is missing", err)
		}
	})
}
