package lib

import (
	"fmt"
	"slices"
	"strings"

	"edged/starlark/value"
)

// Markdown is the manual of everything scripts can say, made of the tables.
func Markdown() string {
	entries := Catalogue()
	tests := testEntries()
	isTest := func(e value.Entry) bool {
		return slices.ContainsFunc(tests, func(t value.Entry) bool { return t.Name == e.Name }) || strings.HasPrefix(e.Name, "hw.sim")
	}
	var b strings.Builder
	b.WriteString(preface)
	section := func(title, intro string, of func(value.Entry) bool) {
		fmt.Fprintf(&b, "\n## %s\n\n", title)
		if intro != "" {
			b.WriteString(intro + "\n")
		}
		for _, e := range entries {
			if of(e) && e.Kind != "module" {
				fmt.Fprintf(&b, "\n### %s\n\n%s", e.Name, e.Markdown())
			}
		}
	}
	plainName := func(e value.Entry) bool { return !strings.Contains(e.Name, ".") }
	section("At top level", "", func(e value.Entry) bool {
		return plainName(e) && (e.Kind == "function" || e.Kind == "value") && !isTest(e)
	})
	for _, m := range entries {
		if m.Kind != "module" || isTest(m) || strings.Contains(m.Name, ".") {
			continue
		}
		section("`"+m.Name+"`", m.Doc, func(e value.Entry) bool {
			return strings.HasPrefix(e.Name, m.Name+".") && !isTest(e) && (e.Kind == "function" || e.Kind == "value")
		})
	}
	section("Values", "What builtins give, and what can be asked of it.", func(e value.Entry) bool {
		return e.Kind == "type" || e.Kind == "method" || e.Kind == "attribute"
	})
	section("In tests", "Besides everything above, `*_test.star` files can say this.", func(e value.Entry) bool { return isTest(e) && e.Kind == "function" })
	return b.String()
}

const preface = `# Everything a script can say

Made by ` + "`edged doc --markdown`" + ` from the tables that check the arguments; don't edit.
How to write a behaviour is in [behaviours.md](behaviours.md).

Arguments after ` + "`*`" + ` are written with their names. A **duration** is ` + "`\"250ms\"`, `\"1m30s\"`" + `, a
` + "`time.duration`" + `, or a number of seconds. **Data** is anything JSON can hold, and bytes. Units are SI.
A function that you hand over may leave out what it doesn't need, from the right; a parameter
called ` + "`ctx`" + ` gets the run's context.
`
