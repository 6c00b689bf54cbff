package lib

import (
	"fmt"
	"regexp"

	"go.starlark.net/starlark"

	"edged/starlark/value"
)

// maxPattern is the longest pattern; RE2 takes time in proportion to it, too.
const maxPattern = 4096

var patternParam = value.Param{Name: "pattern", Type: value.String, Required: true, Positional: true, Doc: "The expression, in RE2's syntax."}

var subjectParam = value.Param{Name: "text", Type: value.String, Required: true, Positional: true, Doc: "The text."}

var regexpRows = []row{
	{value.Func{
		Name: "re.search", Doc: "Returns the first place in a text that matches.", Example: "m = re.search(r\"(\\d+) degrees\", text)\nif m:\n    bb.set(\"guard/temp\", int(m.group(1)))",
		Params: []value.Param{patternParam, subjectParam}, Returns: "a match, or None",
	}, func(_ *Behaviour, c *value.Call) (starlark.Value, error) { return find(c, "%s") }},
	{value.Func{
		Name: "re.match", Doc: "Like re.search, for a match at the beginning of the text.", Example: "m = re.match(r\"go to (?P<room>\\w+)\", text)",
		Params: []value.Param{patternParam, subjectParam}, Returns: "a match, or None",
	}, func(_ *Behaviour, c *value.Call) (starlark.Value, error) { return find(c, `\A(?:%s)`) }},
	{value.Func{
		Name: "re.fullmatch", Doc: "Like re.search, for a match of the whole text.", Example: "ok = re.fullmatch(r\"[a-z]+\", name) != None",
		Params: []value.Param{patternParam, subjectParam}, Returns: "a match, or None",
	}, func(_ *Behaviour, c *value.Call) (starlark.Value, error) { return find(c, `\A(?:%s)\z`) }},
	{value.Func{
		Name: "re.findall", Doc: "Returns all matches: as text, or as their only group, or as a tuple of their groups.", Example: "words = re.findall(r\"\\w+\", text)",
		Params: []value.Param{patternParam, subjectParam}, Returns: "a list",
	}, findAll},
	{value.Func{
		Name: "re.sub", Doc: "Replaces all matches. In the replacement \\1 or ${1} is a group, ${name} a named one.", Example: "clean = re.sub(r\"\\s+\", \" \", text)",
		Params: []value.Param{patternParam,
			{Name: "replacement", Type: value.String, Required: true, Positional: true, Doc: "What to put there."},
			subjectParam},
		Returns: "the new text",
	}, substitute},
	{value.Func{
		Name: "re.split", Doc: "Cuts a text at all matches.", Example: "parts = re.split(r\"[,;] *\", \"a, b;c\")",
		Params: []value.Param{patternParam, subjectParam,
			{Name: "max", Type: value.Between(value.Int, 1, 1e6), Doc: "Into how many parts at most."}},
		Returns: "a list of text",
	}, func(_ *Behaviour, c *value.Call) (starlark.Value, error) {
		re, err := compile(c, "%s")
		if err != nil {
			return nil, err
		}
		n := -1
		if c.Has("max") {
			n = c.Int("max")
		}
		return c.Return(re.Split(c.String("text"), n))
	}},
	{value.Func{
		Name: "re.escape", Doc: "Returns a pattern that matches a text as it is.", Example: "p = re.escape(\"a.b\")",
		Params: []value.Param{subjectParam}, Returns: "a pattern",
	}, func(_ *Behaviour, c *value.Call) (starlark.Value, error) {
		return starlark.String(regexp.QuoteMeta(c.String("text"))), nil
	}},
}

func compile(c *value.Call, form string) (*regexp.Regexp, error) {
	p := c.String("pattern")
	if len(p) > maxPattern {
		return nil, c.Errorf("pattern", "argument \"pattern\": longer than %d bytes", maxPattern)
	}
	re, err := regexp.Compile(fmt.Sprintf(form, p))
	if err != nil {
		return nil, c.Errorf("pattern", "argument \"pattern\": %v", err)
	}
	return re, nil
}

// match is a place in a text.
type match struct {
	re   *regexp.Regexp
	text string
	at   []int // pairs of offsets, of the whole and of the groups
}

func (m *match) group(i int) any {
	if i < 0 || 2*i+1 >= len(m.at) || m.at[2*i] < 0 {
		return nil
	}
	return m.text[m.at[2*i]:m.at[2*i+1]]
}

func find(c *value.Call, form string) (starlark.Value, error) {
	re, err := compile(c, form)
	if err != nil {
		return nil, err
	}
	s := c.String("text")
	at := re.FindStringSubmatchIndex(s)
	if at == nil {
		return nil, nil
	}
	return matchKind.Wrap(&match{re, s, at}), nil
}

func findAll(_ *Behaviour, c *value.Call) (starlark.Value, error) {
	re, err := compile(c, "%s")
	if err != nil {
		return nil, err
	}
	var out []starlark.Value
	for _, g := range re.FindAllStringSubmatch(c.String("text"), value.MaxNodes/10) {
		switch len(g) {
		case 1, 2:
			out = append(out, starlark.String(g[len(g)-1]))
		default:
			t := make(starlark.Tuple, len(g)-1)
			for i, s := range g[1:] {
				t[i] = starlark.String(s)
			}
			out = append(out, t)
		}
	}
	return starlark.NewList(out), nil
}

func substitute(_ *Behaviour, c *value.Call) (starlark.Value, error) {
	re, err := compile(c, "%s")
	if err != nil {
		return nil, err
	}
	with, s := backslashed(c.String("replacement")), c.String("text")
	var out []byte
	end := 0
	for _, at := range re.FindAllStringSubmatchIndex(s, -1) {
		out = append(out, s[end:at[0]]...)
		out = re.ExpandString(out, with, s, at)
		if len(out) > value.MaxBytes {
			return nil, fmt.Errorf("the result is longer than %d MiB", value.MaxBytes>>20)
		}
		end = at[1]
	}
	return starlark.String(append(out, s[end:]...)), nil
}

// backslashed turns \1 into ${1}.
func backslashed(s string) string {
	var out []byte
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && s[i+1] >= '0' && s[i+1] <= '9' {
			out = append(out, '$', '{', s[i+1], '}')
			i++
			continue
		}
		out = append(out, s[i])
	}
	return string(out)
}

var groupParam = value.Param{Name: "group", Type: value.Either(value.Between(value.Int, 0, 1000), value.String), Default: 0, Positional: true, Doc: "Its number or name; 0 is the whole."}

func (m *match) number(c *value.Call) (int, error) {
	if s, ok := starlark.AsString(c.Value("group")); ok {
		if i := m.re.SubexpIndex(s); i > 0 {
			return i, nil
		}
		return 0, c.Errorf("group", "argument \"group\": the pattern has no group %q", s)
	}
	if i := c.Int("group"); i < len(m.at)/2 {
		return i, nil
	}
	return 0, c.Errorf("group", "argument \"group\": the pattern has %d groups", len(m.at)/2-1)
}

var matchKind = &value.Kind[*match]{
	Name: "match", Fixed: true,
	Doc: "A place in a text that matches.",
	Attrs: []value.Attr[*match]{
		{Name: "text", Doc: "What matched.", Type: value.String, Get: func(m *match) (any, error) { return m.group(0), nil }},
		{Name: "start", Doc: "Where it begins, in bytes.", Type: value.Int, Get: func(m *match) (any, error) { return int64(m.at[0]), nil }},
		{Name: "end", Doc: "Where it ends, in bytes.", Type: value.Int, Get: func(m *match) (any, error) { return int64(m.at[1]), nil }},
	},
	Methods: []value.Method[*match]{
		{
			Func: value.Func{Name: "group", Doc: "Returns what a group matched, None if it took no part.", Params: []value.Param{groupParam}, Returns: "text, or None"},
			Do: func(m *match, c *value.Call) (starlark.Value, error) {
				i, err := m.number(c)
				if err != nil {
					return nil, err
				}
				return c.Return(m.group(i))
			},
		},
		{
			Func: value.Func{Name: "groups", Doc: "Returns what all groups matched.", Returns: "a list"},
			Do: func(m *match, c *value.Call) (starlark.Value, error) {
				list := make([]any, 0, len(m.at)/2)
				for i := 1; i < len(m.at)/2; i++ {
					list = append(list, m.group(i))
				}
				return c.Return(list)
			},
		},
	},
	String: func(m *match) string { return fmt.Sprintf("match(%q)", m.group(0)) },
	Index: func(m *match, name string) (any, bool) {
		i := m.re.SubexpIndex(name)
		return m.group(i), i > 0
	},
}
