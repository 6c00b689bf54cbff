package lib_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"edged/blackboard"
	"edged/bus"
	"edged/starlark/lib"
)

// TestEndOfAWaitIsOnDisk: what ended a durable wait is on disk before anything
// that follows from it: after a power cut it has come, and is not waited for.
func TestEndOfAWaitIsOnDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		life := func(file string) (*rig, *lib.Behaviour) {
			b := bus.New(bus.Options{})
			board, err := blackboard.Open(b, blackboard.Options{Path: file})
			if err != nil {
				t.Fatal(err)
			}
			r := &rig{t: t, bus: b, board: board, host: &lib.Host{Name: "box", Bus: b, Board: board}}
			if _, err := b.Tap("box/acts", func(e bus.Event) {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.heard = append(r.heard, e.Stamped())
			}); err != nil {
				t.Fatal(err)
			}
			return r, r.start(`
def bell(ev, ctx):
    got = ctx.wait_for("answer", durable = True)
    bus.publish("box/acts", [got["n"], ctx.resumed])
    ctx.sleep("1h")
on("bell", bell)
`)
		}
		r, b := life(filepath.Join(dir, "a.db"))
		r.publish("bell", nil)
		synctest.Wait()
		r.publish("answer", map[string]any{"n": 7})
		synctest.Wait()
		text, err := os.ReadFile(filepath.Join(dir, "a.db")) // the power goes now
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "b.db"), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(r.payloads("box/acts")); got != "[[7 false]]" {
			t.Errorf("before the power cut: %s", got)
		}
		r2, b2 := life(filepath.Join(dir, "b.db"))
		time.Sleep(time.Second)
		synctest.Wait()
		if got := fmt.Sprint(r2.payloads("box/acts")); got != "[[7 true]]" {
			t.Errorf("after it: %s, want the handler to go on after its wait", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, _ = b.Stop(ctx), b2.Stop(ctx)
		r.close()
		r2.close()
	})
}
