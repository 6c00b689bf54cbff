package page

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"edged/tests/peer"
)

// What a person sees at the page while the robot goes on.

const hostile = "document.title='owned'"

// What scripts, models and strangers write is text, wherever it is shown.
func TestHostile(t *testing.T) {
	r := start(t)
	r.must("pub", "scout/name")
	x := open(t, r, desk).ready()
	r.must("pub", "scout/mood", `<svg onload="`+hostile+`">`)
	x.shows("#rows .value", hostile)
	x.shows("#events", hostile)
	x.shows(".ask", hostile)
	x.shows("#others, #agents", "<script>")
	x.press("#rows button", "scout/hostile")
	x.shows("#detail", hostile)
	if title := x.text("document.title"); title != "scout" {
		t.Errorf("the title is %q", title)
	}
	if n := x.text("document.querySelectorAll('img, script:not([src]), [onload], [onerror]').length"); n != "0" {
		t.Errorf("%s elements were made of text", n)
	}
}

func TestBoard(t *testing.T) {
	r := start(t)
	x := open(t, r, desk).ready()
	r.must("bb", "set", "scout/level", "1")
	x.shows("#rows", "scout/level")
	r.must("bb", "set", "scout/level", "2")
	x.until("[...document.querySelectorAll('#rows tr.flash')].some(e => e.textContent.includes('scout/level2'))")
	n := 2
	peer.Eventually(t, 3*time.Second, "a number that changes is drawn", func() bool {
		n++
		r.must("bb", "set", "scout/level", fmt.Sprint(n))
		return x.text("[...document.querySelectorAll('#rows tr')].find(e => e.textContent.includes('scout/level')).querySelector('.spark:not([hidden]) polyline') != null") == "true"
	})
	x.focus("#keys")
	x.keys("nothing like it")
	x.until("document.querySelectorAll('#rows tr').length == 0")
	x.is("document.getElementById('keys').value = ''", nil)
	x.keys("l")
	x.shows("#rows", "scout/level")
	x.shows("#devices li", "battery")
	x.until("[...document.querySelectorAll('#devices .badge')].every(e => e.textContent == 'sim' && e.title == 'simulated')")
	x.until("document.querySelector('#map .robot') && document.querySelectorAll('#map .wall').length > 4")
}

// A script that can't be loaded is told of, with the place, until it is mended.
func TestRefusedReload(t *testing.T) {
	r := start(t)
	x := open(t, r, phone).ready()
	main := filepath.Join(r.dir, "main.star")
	good, err := os.ReadFile(main)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(main, append(good, "\nfail(\"half a thought\")\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
	x.shows(".banner.bad", "The last edit was refused")
	x.shows(".banner.bad pre", "half a thought")
	x.shows(".banner.bad pre", fmt.Sprintf("main.star:%d", bytes.Count(good, []byte("\n"))+2))
	if err := os.WriteFile(main, append(good, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	x.until("!document.querySelector('.banner.bad')")
}

// Two hundred nodes on a phone: nothing sticks out, and the keyboard gets
// everywhere.
func TestWideTree(t *testing.T) {
	r := start(t)
	x := open(t, r, phone).ready()
	r.must("pub", "scout/search")
	x.until("document.querySelectorAll('[role=treeitem]').length >= 200")
	x.until("[...document.querySelectorAll('[role=treeitem]')].some(e => e.textContent.includes('look_19_8') && e.textContent.includes('✓'))")
	x.shows("[role=treeitem] .reason", "the cup is not where it was")
	if w := x.text("document.documentElement.scrollWidth"); w != fmt.Sprint(phone) {
		t.Errorf("the page is %s pixels wide on a phone of %d", w, phone)
	}
	x.is("[...document.querySelectorAll('[role=treeitem]')].find(e => e.textContent.includes('search')).focus()", nil)
	x.keys(kb.ArrowDown + kb.ArrowDown)
	x.until("document.activeElement.textContent.includes('grasp')")
	x.keys(kb.Enter)
	x.shows("#detail h2", "grasp")
	x.shows("#detail .code .here", `Agent("grasp", fn = broken)`)
	x.shows("#detail .reasons", "failed")
	x.shows("#detail h3", "Recent runs")
	x.shows("#detail li", "failed after")
	x.keys(kb.Escape)
	x.until("document.getElementById('detail').hidden && document.activeElement.textContent.includes('grasp')")
	x.keys(kb.ArrowUp + kb.ArrowLeft)
	x.until("!document.querySelector('#trees').textContent.includes('grasp')")
}

func TestSociety(t *testing.T) {
	r := start(t)
	x := open(t, r, desk).ready()
	r.must("pub", "scout/plan", "tidy")
	x.shows("#societies .edge", "round 2/2")
	x.shows("#agents .agent", "puts plans into words")
	x.is("document.querySelector('#societies .edge').focus()", nil)
	x.keys(kb.Enter)
	x.shows("#detail .sights", "draft")
	x.shows("#detail .turn", "revise")
	x.shows("#detail", "escalates to HUMAN, then the caller")
}

func TestTimeline(t *testing.T) {
	r := start(t)
	x := open(t, r, desk).ready()
	r.must("pub", "scout/gate")
	r.must("pub", "scout/mood", "good")
	x.shows("#events .event", "scout/mood")
	x.focus("#filter")
	x.keys("board/scout/#")
	x.until("[...document.querySelectorAll('#events b')].every(e => e.textContent.startsWith('board/scout/')) && document.querySelectorAll('#events li').length == 2")
	x.is("[...document.querySelectorAll('#events .event')].find(e => e.textContent.includes('board/scout/mood')).focus()", nil)
	x.keys(kb.Enter)
	x.shows("#detail", "board/scout/mood")
	x.press("#detail button", "Follow its cause")
	x.until("[...document.querySelectorAll('#events b')].map(e => e.textContent).join() == 'board/scout/mood,board/scout/hostile,scout/mood'")
	x.press("#follow", "Show all")
	x.is("document.getElementById('filter').value = ''; document.getElementById('filter').dispatchEvent(new Event('input'))", nil)
	x.press("#pause", "Pause")
	r.must("pub", "scout/mood", "paused")
	x.shows("#rows", "paused")
	if strings.Contains(x.text("document.getElementById('events').textContent"), "paused") {
		t.Error("what came while it is paused is in the list")
	}
	x.press("#pause", "Go on")
	x.shows("#events", "paused")
}

// The last minute becomes a test of the folder.
func TestSaveTest(t *testing.T) {
	r := start(t)
	x := open(t, r, desk).ready()
	r.must("pub", "scout/mood", "good")
	x.shows("#rows", "good")
	x.press("#test", "Save the last 60 s as a test")
	x.shows("#saved", "_test.star")
	if saved, err := filepath.Glob(filepath.Join(r.dir, "*_test.star")); err != nil || len(saved) != 1 {
		t.Errorf("saved %v, %v; want one test", saved, err)
	}
}

// A thousand events a second for three seconds: the page answers a click within
// a quarter of a second, and STOP stops.
func TestManyEvents(t *testing.T) {
	r := start(t)
	x := open(t, r, desk).ready()
	x.is(`window.longest = 0; let last = performance.now(); const look = t => { longest = Math.max(longest, t - last); last = t; requestAnimationFrame(look); }; requestAnimationFrame(look)`, nil)
	r.must("pub", "scout/burst", "30")
	x.shows("#events", "scout/noise")
	for range 3 {
		began := time.Now()
		was := x.text("document.getElementById('pause').getAttribute('aria-pressed')")
		x.is("document.getElementById('pause').click()", nil)
		x.until("document.getElementById('pause').getAttribute('aria-pressed') != '" + was + "'")
		if took := time.Since(began); took > time.Second {
			t.Errorf("a click took %v", took)
		}
	}
	began := time.Now()
	x.press("#stop button", "STOP")
	peer.Eventually(t, time.Second, "STOP stops the robot", func() bool { return r.stopped() != "" })
	t.Logf("stopped %v after the click began", time.Since(began))
	var s struct{ Bus struct{ Published uint64 } }
	peer.Eventually(t, 4*time.Second, "all is published", func() bool { r.status(&s); return s.Bus.Published > 3000 })
	x.shows("#mode", "stopped")
	var longest float64
	x.is("window.longest", &longest)
	t.Logf("the longest frame took %.0f ms", longest)
	if longest > 1000 {
		t.Errorf("the page froze for %.0f ms", longest)
	}
}

// What a browser fetches is small, all of it together.
func TestSize(t *testing.T) {
	list, err := filepath.Glob("../../cmd/edged/internal/web/static/*")
	if err != nil || len(list) < 5 {
		t.Fatalf("%v, %v", list, err)
	}
	sum := 0
	for _, name := range list {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is one
		_, _ = z.Write(text)
		_ = z.Close()
		sum += b.Len()
	}
	t.Logf("%d files, %d bytes as gzip", len(list), sum)
	if sum > 80_000 {
		t.Errorf("the page is %d bytes as gzip; at most 80000", sum)
	}
}
