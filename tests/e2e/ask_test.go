package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// asked is what edged ask --json prints.
type asked struct {
	Agent, Status, Reply, Reason string
	Stopped                      bool
	Tools                        []struct{ Tool string }
	MS                           float64
}

func (r *robot) ask(text string) asked {
	r.t.Helper()
	a, err := r.tryAsk(text)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// asking asks, and gives what waits for the result.
func (r *robot) asking(text string) func() asked {
	return beside(r.t, func() (asked, error) { return r.tryAsk(text) })
}

func (r *robot) tryAsk(text string) (asked, error) {
	out, err := r.edged("ask", "--json", text)
	var a asked
	if e := json.Unmarshal([]byte(out), &a); e != nil {
		return a, fmt.Errorf("ask %q: %v, %v\n%s", text, err, e, out)
	}
	if (a.Status == "done") != (err == nil) {
		return a, fmt.Errorf("ask %q ended with %v and status %s", text, err, a.Status)
	}
	return a, nil
}

// where is the robot's pose.
func (r *robot) where() (room string, theta float64) {
	r.t.Helper()
	var s struct {
		Devices []struct {
			Name  string
			Value json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(r.must("status", "--json")), &s); err != nil {
		r.t.Fatal(err)
	}
	var v struct {
		Room  string
		Theta float64
	}
	for _, d := range s.Devices {
		if d.Name == "pose" {
			if err := json.Unmarshal(d.Value, &v); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	return v.Room, v.Theta
}

func (r *robot) stopped() bool {
	r.t.Helper()
	return strings.Contains(r.must("status"), "\nSTOPPED ") || strings.HasPrefix(r.must("status"), "STOPPED ")
}

// With nothing but the binary, the demo understands people: no model server, no
// network.
func TestAsk(t *testing.T) {
	t.Setenv("OLLAMA_HOST", "127.0.0.1:1") // nobody
	dir := filepath.Join(t.TempDir(), "demo")
	r := start(t, dir, "demo", "--dir", dir)
	r.until("start", 10*time.Second, func() bool { return strings.Contains(r.out.String(), "\nedit ") })
	for _, want := range []string{"\nmodels   intent (warm, tools yes); builtin (warm, tools yes, context 256); ollama:qwen2.5:1.5b (down)\n"} {
		if !strings.Contains(r.out.String(), want) {
			t.Errorf("the demo does not say %q:\n%s", want, r.out)
		}
	}
	driving := func() bool { return strings.Contains(r.must("status", "--json"), `"goal": "base.drive_to"`) }
	r.until("the patrol of the start", 10*time.Second, driving)
	r.must("ask", "go to the dock") // ends it
	r.until("rest", 10*time.Second, func() bool { return !driving() })

	time.Sleep(300 * time.Millisecond) // for the next reading of the pose
	_, before := r.where()
	if a := r.ask("turn left ninety degrees"); a.Status != "done" || len(a.Tools) != 1 || a.Tools[0].Tool != "turn" {
		t.Errorf("turn left: %+v", a)
	}
	turned := func() float64 {
		_, now := r.where()
		return math.Mod(now-before+4*math.Pi, 2*math.Pi)
	}
	r.until("a turn by 90 degrees left", 5*time.Second, func() bool { return math.Abs(turned()-math.Pi/2) < 0.1 })

	for _, words := range []string{"don't stop", "what is the capital of France"} {
		a := r.ask(words)
		if a.Status != "failed" || a.Stopped || len(a.Tools) > 0 || !strings.HasPrefix(a.Reason, "declined: ") {
			t.Errorf("%q: %+v; want it declined", words, a)
		}
	}
	if r.stopped() {
		t.Error(`"don't stop" stopped the robot`)
	}

	if a := r.ask("go to the kitchen"); a.Status != "done" {
		t.Errorf("go to the kitchen: %+v", a)
	}
	if room, _ := r.where(); room != "kitchen" {
		t.Errorf("it is in the %s, not in the kitchen", room)
	}

	// A stop mid-drive: at rest within 50 ms of the word, and the drive's turn is over.
	drive := r.asking("go to the bedroom")
	r.until("a drive", 10*time.Second, driving)
	a := r.ask("stop")
	if !a.Stopped || a.Status != "done" || a.MS > 50 {
		t.Errorf("stop: %+v; want it stopped within 50 ms", a)
	}
	if !r.stopped() {
		t.Error("the robot is not stopped")
	}
	if d := drive(); d.Status == "done" {
		t.Errorf("the drive that was stopped: %+v", d)
	}
	if a := r.ask("go to the hall"); a.Status == "done" {
		t.Errorf("a stopped robot drives: %+v", a)
	}
	r.must("resume")
	if a := r.ask("please rotate yourself thirty degrees to the right"); a.Status != "done" { // no sentence: the model in the binary
		t.Errorf("after resume: %+v", a)
	}
	audit, err := os.ReadFile(filepath.Join(dir, ".edged", "audit.jsonl"))
	if err != nil || !strings.Contains(string(audit), `"tool":"turn"`) {
		t.Errorf("audit: %v\n%s", err, audit)
	}
	if out, err := r.edged("doctor", "--no-models", "--json"); err != nil {
		t.Errorf("doctor: %v\n%s", err, out)
	}
}
