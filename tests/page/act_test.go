package page

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"edged/tests/peer"
)

// What a person does at the page, and what the robot says of it.

func TestAnswers(t *testing.T) {
	r := start(t)
	x := open(t, r, desk).ready()
	t.Run("of a graph, by an option", func(t *testing.T) {
		r.must("pub", "scout/gate")
		x.shows(".ask", "That leaves the fence. Go anyway?")
		x.shows(".ask .left", "left, then no")
		x.press(".ask button", "yes")
		r.until("yes", "bb", "get", "scout/gate")
		x.until("!document.querySelector('.ask')")
	})
	t.Run("of a graph, in words", func(t *testing.T) {
		r.must("pub", "scout/name")
		x.shows(".ask", "What shall it be called?")
		x.focus(".ask input")
		x.keys("Ada & the <b>" + kb.Enter)
		r.until(`Ada \u0026 the \u003cb\u003e`, "bb", "get", "scout/called")
	})
	t.Run("of a society", func(t *testing.T) {
		r.must("pub", "scout/plan", "tidy")
		x.shows(".ask", "They could not settle it.")
		x.press(".ask button", "approve")
		r.until(`"by":"writer","status":"done"`, "bb", "get", "scout/plan") // the person decided; the plan is the writer's
	})
	t.Run("a review, in words", func(t *testing.T) {
		r.must("pub", "scout/review", "tidy")
		x.shows(".ask", "what is to change goes after a colon")
		x.focus(".ask input")
		x.keys("approve" + kb.Enter)
		r.until(`"status":"done"`, "bb", "get", "scout/review")
	})
	t.Run("work, in a form", func(t *testing.T) {
		r.must("pub", "scout/job", "sweep")
		x.shows(".ask fieldset", "laps")
		x.focus(".ask select")
		x.keys("h") // the hall
		x.focus(".ask input[type=number]")
		x.keys("3" + kb.Tab + " ") // a space is a tick in a box
		x.press(".ask button", "Answer")
		r.until(`"output":{"laps":3,"quiet":true,"room":"hall"}`, "bb", "get", "scout/route")
	})
	t.Run("allow", func(t *testing.T) {
		r.must("pub", "scout/lock", "front")
		x.shows(".ask.confirm", "front")
		x.press(".ask button", "Allow")
		r.until("true", "bb", "get", "scout/locked/front")
	})
	t.Run("refuse", func(t *testing.T) {
		r.must("pub", "scout/lock", "back")
		x.shows(".ask.confirm", "back")
		x.press(".ask button", "Refuse")
		r.until(`"yes": false`, "trace", "--json", "edged/confirm/said")
		if out, err := r.verb("bb", "get", "scout/locked/back"); err == nil {
			t.Errorf("the back door is locked: %s", out)
		}
	})
}

func TestStop(t *testing.T) {
	r := start(t)
	x := open(t, r, desk).ready()
	stops := func(how, want string, do func()) {
		t.Helper()
		do()
		peer.Eventually(t, time.Second, how+" stops the robot", func() bool { return r.stopped() != "" })
		if got := r.stopped(); got != want {
			t.Errorf("%s: stopped by %q, want %q", how, got, want)
		}
		x.shows("#mode", "stopped")
		x.shows("#banners", want)
		x.press("#resume button", "Resume")
		peer.Eventually(t, time.Second, "resume lets it move", func() bool { return r.stopped() == "" })
		x.shows("#mode", "sim")
	}
	stops("a click", "page: button", func() { x.press("#stop button", "STOP") })
	stops("the space bar", "page: space bar", func() { x.is("document.activeElement.blur()", nil); x.keys(" ") })
	stops("the space bar on another button", "page: space bar", func() { x.focus("#pause"); x.keys(" ") })
	if pressed := x.text("document.getElementById('pause').getAttribute('aria-pressed')"); pressed != "false" {
		t.Error("the space bar pressed the button as well")
	}
	x.focus("#words")
	x.keys("turn left ")
	if got := x.text("document.getElementById('words').value"); got != "turn left " || r.stopped() != "" {
		t.Errorf("typed %q; stopped by %q, want nobody: a space is a space in a field", got, r.stopped())
	}
	if out := r.must("trace", "edged/safety/stop"); !strings.Contains(out, "page") {
		t.Errorf("the record does not say that it was the page: %s", out)
	}
}

// A browser without JavaScript, or with a broken one, stops the robot as well.
func TestWithoutJavaScript(t *testing.T) {
	r := start(t)
	r.must("pub", "scout/gate")
	r.must("pub", "scout/lock", "front")
	r.until("front", "confirm")
	x := open(t, r, phone, withoutScripts)
	x.click(`noscript form[action="/answer"] button[value="yes"]`)
	r.until("yes", "bb", "get", "scout/gate")
	x.click(`noscript form[action="/confirm"] button[value="yes"]`)
	r.until("true", "bb", "get", "scout/locked/front")
	x.click("#stop button")
	peer.Eventually(t, 2*time.Second, "the page stops the robot", func() bool { return strings.HasPrefix(r.stopped(), "page: ") })
	x.click("#resume button")
	peer.Eventually(t, 2*time.Second, "it may move again", func() bool { return r.stopped() == "" })
}

func TestSay(t *testing.T) {
	r := start(t)
	x := open(t, r, desk).ready()
	moving := func() bool {
		var s struct{ Devices []struct{ Name, Goal string } }
		r.status(&s)
		for _, d := range s.Devices {
			if d.Name == "base" {
				return d.Goal != ""
			}
		}
		return false
	}
	x.focus("#words")
	x.keys("go to the kitchen" + kb.Enter)
	peer.Eventually(t, 2*time.Second, "the robot drives", moving)
	x.shows("#agents .agent", "go to the kitchen")
	x.until("document.querySelector('#map .path')")
	x.focus("#words")
	x.keys("stop" + kb.Enter)
	peer.Eventually(t, 2*time.Second, "the word stops it", func() bool { return strings.HasPrefix(r.stopped(), "page") && !moving() })
	x.shows("#talk", "stopped in")
	r.must("resume")
	x.keys("sing a song" + kb.Enter)
	x.shows("#talk .trouble", "declined")
}

// Without the token everything is seen, and nothing done.
func TestReadOnly(t *testing.T) {
	r := start(t)
	address, _, _ := strings.Cut(r.address(), "?")
	x := openAt(t, r, address, desk).ready()
	x.shows(".banner", "You can look, and change nothing")
	x.press("#stop button", "STOP")
	x.shows(".banner.bad", "STOP did not reach the robot")
	x.shows(".banner.bad", "edged page")
	if got := r.stopped(); got != "" {
		t.Errorf("stopped by %q without the token", got)
	}
	r.must("pub", "scout/gate")
	x.press(".ask button", "yes")
	x.shows(".ask .trouble", "token")
	if out, err := r.verb("bb", "get", "scout/gate"); err == nil {
		t.Errorf("answered without the token: %s", out)
	}
}

// A robot that is started anew is found again, and what it asked is asked again.
func TestReconnect(t *testing.T) {
	r := start(t)
	x := open(t, r, desk).ready()
	r.must("pub", "scout/gate")
	x.shows(".ask", "That leaves the fence")
	r.end()
	x.shows(".banner.bad", "No connection to the robot")
	x.press("#stop button", "STOP")
	x.shows(".banner.bad", "STOP did not reach the robot")
	r.run()
	x.until("!document.querySelector('.banner[data-name=down]')")
	r.must("pub", "scout/mood", "calm")
	x.shows("#rows", "calm")
	x.press(".ask button", "no")
	r.until("no", "bb", "get", "scout/gate")
}
