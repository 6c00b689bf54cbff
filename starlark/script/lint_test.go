package script_test

import (
	"fmt"
	"strings"
	"testing"

	"edged/starlark/script"
)

func TestLint(t *testing.T) {
	for _, c := range []struct {
		name, src string
		want      []string // line:col rule, in order
	}{
		{"clean", "\"doc\"\nload(\"x.star\", \"y\")\nLIMIT = 30.0\ndef f(e, ctx = None):\n    \"\"\"doc\"\"\"\n    if e[\"t\"] > LIMIT:\n        base.drive_to(y, speed = 1, timeout = \"5s\")\n    return [x for x in range(3) if x]\n", nil},
		{"unknown-argument", "drive_to(\"a\", timeot = 3)\n", []string{"1:15 unknown-argument"}},
		{"module", "base.drive_to(\"a\", tiemout = 3)\nbase.drive(\"a\")\n", []string{"1:20 unknown-argument", "2:6 unknown-attribute"}},
		{"missing", "drive_to(speed = 1)\ndrive_to(**{})\n", []string{"1:9 missing-argument"}},
		{"positional", "drive_to(\"a\", 3)\n", []string{"1:15 too-many-arguments"}},
		{"first row left out", "def f(m): pass\nhears(\"a\", f)\nhears([], \"a\", f)\nhears(f, name = \"a\", fn = f)\nhears(\"a\", fn = f)\nb = str(1)\nhears(b, f)\n", nil},
		{"first row left out, wrong", "def f(m): pass\nhears(\"a\")\nhears([], \"a\", f, 3)\nhears(\"a\", f, 3)\n", []string{"2:6 missing-argument", "3:19 too-many-arguments", "4:15 too-many-arguments"}},
		{"type", "drive_to(\"a\", timeout = \"5\", mode = \"sngle\", speed = -1)\n", []string{"1:25 argument-type", "1:37 argument-type"}},
		{"own function", "def f(a, b = 1, *, c): pass\nf(1, 2, 3, c = 1)\nf(1, c = 1, d = 2)\nf(b = 1)\nf(*[1], **{})\n", []string{"2:9 too-many-arguments", "3:13 unknown-argument", "4:2 missing-argument", "4:2 missing-argument"}},
		{"unreachable", "def f():\n    return 1\n    f()\ndef g(x):\n    for y in x:\n        break\n        g(y)\n    if x: fail(\"a\")\n    else: return 2\n    g(1)\n", []string{"3:5 unreachable", "7:9 unreachable", "10:5 unreachable"}},
		{"unused", "load(\"x.star\", \"a\", \"b\")\nprint(a)\ndef f():\n    z = 1\n    _q = 2\n    u, v = 1, 2\n    return u\n", []string{"1:22 unused-load", "4:5 unused-variable"}},
		{"frozen", "seen = []\nd = {}\nn = 0\ndef f(x):\n    seen.append(x)\n    d[x] = 1\n    d[x] += 1\n    n += 1\n    mine = []\n    mine.append(1)\n    return mine\nseen.append(2)\n", []string{"5:10 frozen-global", "6:6 frozen-global", "7:6 frozen-global", "8:5 frozen-global"}},
		{"default", "def f(x, acc = []):\n    acc.append(x)\n    return acc\n", []string{"2:9 mutable-default"}},
		{"shadow", "list = [1]\ndef base(): pass\n", []string{"1:1 shadowed-builtin", "2:5 shadowed-builtin"}},
		{"redefined", "def f(): pass\ndef f(): pass\n", []string{"2:5 redefined"}},
		{"duplicate", "x = {\"a\": 1, \"b\": 2, \"a\": 3}\nprint(x)\n", []string{"1:22 duplicate-key"}},
		{"effect", "x = 1\nx == 2\nbase.drive_to\nx and print(x)\n[print(y) for y in [1]]\n", []string{"2:1 no-effect", "3:1 no-effect"}},
		{"always true", "def f(): pass\ndef g(h):\n    if f: pass\n    if not base.drive_to: pass\n    if h or (f and h): pass\n    if h and f(): pass\n    return 1 if len else [x for x in [1] if lambda: x]\nk = f or 1\n", []string{"3:8 always-true", "4:12 always-true", "5:14 always-true", "7:17 always-true", "7:45 always-true", "8:5 always-true"}},
		{"may be false", "f = None\ndef g(f, cb = None):\n    h = cb or g\n    if f: pass\n    if h: pass\n    if g(1): pass\nif f: pass\n", nil},
		{"allowed", "x = 1\nx == 2 # lint: allow no-effect\n", nil},
		{"closure", "def f():\n    n = 1\n    def g():\n        return n\n    return g\ndef h():\n    k = lambda: 1\n    return [k() for _ in range(2)]\n", nil},
	} {
		var got []string
		for _, e := range script.Lint("guard/lib.star", c.src, predeclared()) {
			got = append(got, fmt.Sprintf("%d:%d %s", e.Line, e.Col, e.Rule))
		}
		if strings.Join(got, ", ") != strings.Join(c.want, ", ") {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, strings.Join(got, ", "), strings.Join(c.want, ", "))
		}
	}
}

func TestLintErrors(t *testing.T) {
	es := script.Lint("main.star", "x = trunk(1)\ny = bas.drive_to(2)\n", predeclared())
	if len(es) != 2 || es[0].Rule != "" || es[1].Hint != `did you mean "base"?` {
		t.Errorf("got %q", es.Text())
	}
}

// In main.star a function that nothing mentions is one that never runs.
func TestLintUnusedFunctions(t *testing.T) {
	src := "def used(ev): pass\ndef helper(): return 1\ndef forgotten(ev): helper()\ndef _later(): pass\nbase.drive_to(used)\n" +
		"def meant(ev): pass # lint: allow unused-function\n"
	es := script.Lint("guard/main.star", src, predeclared())
	if len(es) != 1 || es[0].Rule != "unused-function" || es[0].Line != 3 {
		t.Errorf("got %q, want forgotten alone", es.Text())
	}
	if es := script.Lint("guard/lib/doors.star", src, predeclared()); len(es) != 0 {
		t.Errorf("got %q, want nothing: others load it", es.Text())
	}
}
