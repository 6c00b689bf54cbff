package page

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Whoever sees little, or uses no mouse, gets as far: checked as the browser
// tells it to a screen reader, and by arithmetic.

// busy is a page with something of everything on it.
func busy(t *testing.T, width int64, before ...chromedp.Action) (*robot, *tab) {
	t.Helper()
	r := start(t)
	for _, topic := range []string{"gate", "name", "plan", "search"} {
		r.must("pub", "scout/"+topic, "tidy")
	}
	r.must("pub", "scout/lock", "front")
	x := open(t, r, width, before...).ready()
	r.must("pub", "scout/mood", "good")
	x.shows("#rows", "good")
	x.until("document.querySelectorAll('.ask').length == 4")
	return r, x
}

func TestNames(t *testing.T) {
	_, x := busy(t, desk)
	var tree struct {
		Nodes []struct {
			Ignored bool `json:"ignored"`
			Role    word `json:"role"`
			Name    word `json:"name"`
		} `json:"nodes"`
	}
	x.do(chromedp.ActionFunc(func(ctx context.Context) error { // chromedp's own reading stops at words that it doesn't know
		return cdp.Execute(ctx, accessibility.CommandGetFullAXTree, nil, &tree)
	}))
	controls, roles := 0, map[string]int{}
	for _, n := range tree.Nodes {
		if n.Ignored {
			continue
		}
		role := fmt.Sprint(n.Role.Value)
		name, _ := n.Name.Value.(string)
		roles[role]++
		switch role {
		case "button", "textbox", "searchbox", "combobox", "checkbox", "treeitem", "tree", "link", "region", "image", "progressbar", "meter", "dialog":
			controls++
			if strings.TrimSpace(name) == "" {
				t.Errorf("a %s has no name: %+v", role, n)
			}
		}
	}
	t.Logf("%d things with names; %v", controls, roles)
	for role, least := range map[string]int{"treeitem": 200, "heading": 5, "button": 20, "banner": 1, "main": 1, "region": 5, "table": 1} {
		if roles[role] < least {
			t.Errorf("%d of role %s, want at least %d", roles[role], role, least)
		}
	}
}

// word is how a browser tells a word.
type word struct {
	Value any `json:"value"`
}

// Tab goes through everything, in order, and shows where it is.
func TestFocus(t *testing.T) {
	_, x := busy(t, desk)
	x.is("document.activeElement.blur()", nil)
	seen := map[string]bool{}
	for range 24 {
		x.keys(kb.Tab)
		at := x.text(`(() => { const e = document.activeElement, s = getComputedStyle(e), shape = e.querySelector && e.querySelector('rect') && getComputedStyle(e.querySelector('rect'));
			const shown = s.outlineStyle != 'none' && parseFloat(s.outlineWidth) >= 2 || shape && parseFloat(shape.strokeWidth) > 3 || e.id == 'detail';
			return (shown ? '' : 'no focus to be seen: ') + e.tagName + '#' + e.id + ' ' + e.textContent.trim().slice(0, 24) })()`)
		if strings.HasPrefix(at, "no focus") {
			t.Error(at)
		}
		seen[at] = true
	}
	for _, want := range []string{"STOP", "yes", "approve", "Allow", "Send"} {
		found := false
		for at := range seen {
			found = found || strings.HasSuffix(at, want)
		}
		if !found {
			t.Errorf("Tab does not come by %q: %v", want, seen)
		}
	}
}

// contrast computes, of every text that is seen, that against what is behind
// it, as WCAG 2 does: 4.5 is enough, 3 for what is large.
const contrast = `(() => {
	const parse = c => { const m = c.match(/[\d.]+/g).map(Number); return [m[0], m[1], m[2], m[3] ?? 1] };
	const over = (a, b) => [0, 1, 2].map(i => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
	const light = c => { const f = c.slice(0, 3).map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * f[0] + .7152 * f[1] + .0722 * f[2] };
	const behind = e => { const stack = []; for (let x = e; x; x = x.parentElement) { const c = parse(getComputedStyle(x).backgroundColor); if (c[3] > 0) stack.push(c); if (c[3] == 1) break } let b = [255, 255, 255, 1]; while (stack.length) b = over(stack.pop(), b); return b };
	const bad = {};
	let n = 0, least = 99;
	for (const e of document.querySelectorAll('body *')) {
		if (e.closest('svg') && e.tagName != 'text' || !e.checkVisibility() || e.closest('.out, .flash') || ![...e.childNodes].some(n => n.nodeType == 3 && n.textContent.trim())) continue;
		const s = getComputedStyle(e), b = e.tagName == 'text' ? behind(e.closest('figure, div')) : behind(e), f = over(parse(e.tagName == 'text' ? s.fill : s.color), b);
		const [hi, lo] = [light(f), light(b)].sort((x, y) => y - x), ratio = (hi + .05) / (lo + .05), px = parseFloat(s.fontSize);
		n++; least = Math.min(least, ratio);
		if (ratio < (px >= 24 || px >= 18.6 && s.fontWeight >= 700 ? 3 : 4.5)) bad[e.tagName + '.' + e.className + ' in ' + (e.parentElement.className || e.parentElement.id)] = ratio.toFixed(2) + ' ' + e.textContent.trim().slice(0, 30);
	}
	return n + ' texts, the faintest ' + least.toFixed(2) + ' ' + JSON.stringify(bad);
})()`

func TestContrast(t *testing.T) {
	_, x := busy(t, desk)
	for _, scheme := range []bool{false, true} {
		x.do(dark(scheme))
		x.until(fmt.Sprintf("matchMedia('(prefers-color-scheme: dark)').matches == %v", scheme))
		bad := x.text(contrast)
		t.Logf("dark %v: %s", scheme, bad)
		if !strings.HasSuffix(bad, " {}") {
			t.Errorf("dark %v: too little contrast", scheme)
		}
	}
}

// Whatever is on the page, a phone scrolls it down only.
func TestPhone(t *testing.T) {
	_, x := busy(t, phone)
	if w := x.text("document.documentElement.scrollWidth"); w != fmt.Sprint(phone) {
		t.Errorf("the page is %s pixels wide on a phone of %d", w, phone)
	}
	small := x.text(`[...document.querySelectorAll('.ask button, #bar button, #sayform button')].filter(e => e.checkVisibility() && e.getBoundingClientRect().height < 32).map(e => e.textContent).join()`)
	if small != "" {
		t.Errorf("too small for a finger: %s", small)
	}
	x.is("scrollTo(0, 3000)", nil)
	if y := x.text("document.querySelector('#stop button').getBoundingClientRect().top < 100 && document.querySelector('#stop button').checkVisibility()"); y != "true" {
		t.Error("STOP is out of sight further down")
	}
}
