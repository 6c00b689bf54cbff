package script

import (
	"regexp"
	"strings"
	"sync"
)

// A habit is a way of writing that is right in Python or a relative and wrong
// here. It is looked for only on the line where reading stopped, and in code,
// not in strings or comments. The first that fits is told; its mark is the
// first group, or the whole match.
type habit struct {
	pattern *regexp.Regexp
	msg     string
	hint    string
}

// habits are made when the first script fails to parse: most processes never
// need them.
var habits = sync.OnceValue(func() []habit {
	return []habit{
		{re(`^\s*(try|finally)\s*:`), "there is no try", "r = attempt(f, x); if not r.ok: … r.error"},
		{re(`^\s*(except)\b`), "there is no except", "r = attempt(f, x); if not r.ok: … r.error"},
		{re(`^\s*(raise)\b`), "there is no raise", `fail("what is wrong") ends the call with an error`},
		{re(`^\s*(class)\s+\w`), "there are no classes", "use a dict or struct for data and functions for what it does"},
		{re(`^\s*(from)\s+\S+\s+import\b`), "there is no import", `load("lib/doors.star", "open_door")`},
		{re(`^\s*(import)\s+\w`), "there is no import", `load("lib/doors.star", "open_door"); bus, bb, json, math, time are there without`},
		{re(`^\s*(@)\s*\w`), "there are no decorators", "pass the function: on(\"topic\", handler)"},
		{re(`(?:^|[^\w])([fF][rR]?|[rR][fF])["']`), "there are no f-strings", `write "t = %s" % t, or "t = {}".format(t)`},
		{re(`^\s*(async)\s+(?:def|for|with)\b`), "there is no async", "a handler may simply wait; each runs by itself"},
		{re(`\b(await)\b`), "there is no await", "call it; a handler may simply wait"},
		{re(`\b(yield)\b`), "there is no yield", "return a list"},
		{re(`^\s*(with)\s`), "there is no with", "call the functions one after the other"},
		{re(`^\s*(global|nonlocal)\s`), "there is no global or nonlocal", frozenHint},
		{re(`^\s*(del)\s`), "there is no del", "d.pop(key), or make a new list without it"},
		{re(`^\s*(assert)\s+`), "there is no assert statement", `if not cond: fail("…"); in tests assert.eq(a, b)`},
		{re(`\b(is)\s+not\b`), "there is no is", "write !="},
		{re(`\b(is)\b`), "there is no is", "write =="},
		{re(`^\s*(match|switch)\b.*[:{]\s*$`), "there is no match", "write if … elif … else"},
		{re(`^\s*(case)\b.*:\s*$`), "there is no case", "write if … elif … else"},
		{re(`(:=)`), "there is no :=", "assign on a line of its own"},
		{re(`^\s*(?:def|lambda)\b.*(->)`), "there are no type annotations", "leave them out; say it in the doc string"},
		{re(`^\s*def\b[^#]*[(,]\s*\w+\s*(:)`), "there are no type annotations", "leave them out; say it in the doc string"},
		{re(`^\s*\w+\s*(:)\s*[A-Za-z]\w*(?:\[[^\]]*\])?\s*(?:=|$)`), "there are no type annotations", "leave them out: x = 3"},
		{re(`^\s*(print|exec)\s+["'\w]`), "print is a function", `write print("…")`},
		{re(`\b(else\s+if)\b`), "else if is one word", "write elif"},
		{re(`^\s*(else)\s*:`), "an else without its if", "loops have no else here; check the indentation"},
		{re(`^\s*(elif)\b`), "an elif without its if", "check the indentation"},
		{re(`(<>)`), "there is no <>", "write !="},
		{re(`(!==|===)`), "there is no === or !==", "write == or !="},
		{re(`(&&)`), "there is no &&", "write and"},
		{re(`(\|\|)`), "there is no ||", "write or"},
		{re(`(\+\+|--)`), "there is no ++ or --", "write x += 1"},
		{re(`(!)\s*[\w(]`), "there is no !", "write not"},
		{re(`(\?)`), "there is no ? :", "write a if cond else b"},
		{re(`^\s*(//|/\*)`), "comments begin with #", "write # …"},
		{re(`^\s*(let|var|const)\s+\w`), "variables need no declaration", "write x = 3"},
		{re(`^\s*(function|func|fn|sub)\s+\w`), "functions begin with def", "def name(x):"},
		{re(`(\*\*)\s*[\w(]`), "there is no ** for powers", "write math.pow(x, y), or x * x"},
		{re(`\b(\d[\d]*_[\d_]+)\b`), "numbers have no _", "leave it out"},
		{re("(`)"), "there is no `", "strings are in \" or '"},
		{re(`["']\s*(["'])`), "strings next to each other are not joined", `write "a" + "b"`},
		{re(`^\s*(if|elif|else|for|while|def)\b[^:]*$`), "is there a : missing at the end of the line?", "if cond:"},
	}
})

func re(s string) *regexp.Regexp { return regexp.MustCompile(s) }

// habit looks for a habit on the line where reading stopped, then on the line
// before (an error is often noticed one line late). It returns nil if it knows
// none.
func (s *source) habit(at Position) *Error {
	code := &source{name: s.name, text: mask(s.text)}
	for _, n := range []int{at.Line, at.Line - 1} {
		line := code.line(n)
		if n < 1 || len(line) > 1000 || strings.TrimSpace(line) == "" {
			continue
		}
		if n != at.Line && at.Col > 1 && strings.TrimSpace(s.line(at.Line)) != "" {
			continue // the line of the error has text of its own before the mark
		}
		for _, h := range habits() {
			m := h.pattern.FindStringSubmatchIndex(line)
			if m == nil {
				continue
			}
			from := m[0]
			for i := 2; i < len(m); i += 2 {
				if m[i] >= 0 {
					from = m[i]
					break
				}
			}
			col := len([]rune(line[:from])) + 1
			return &Error{Position: Position{s.name, n, col}, Msg: h.msg, Hint: h.hint, Code: s.line(n)}
		}
	}
	return nil
}
