package value

import (
	"fmt"
	"sort"
	"strings"

	"go.starlark.net/starlark"
)

// Entry is one thing scripts can name, as the manual, the checker and the
// editor get it.
type Entry struct {
	Name      string     `json:"name"` // "bb.set", "future.result"
	Kind      string     `json:"kind"` // "function", "module", "type", "method", "attribute", "value"
	Doc       string     `json:"doc,omitempty"`
	Example   string     `json:"example,omitempty"`
	Signature string     `json:"signature,omitempty"`
	Params    []ParamDoc `json:"params,omitempty"`
	Rest      string     `json:"rest,omitempty"`  // name of further positional arguments
	Named     string     `json:"named,omitempty"` // name of further keyword arguments
	Returns   string     `json:"returns,omitempty"`
	Blocks    bool       `json:"blocks,omitempty"`
}

// ParamDoc is one row of an argument table, as data.
type ParamDoc struct {
	Name       string   `json:"name"`
	Type       string   `json:"type"`
	Unit       string   `json:"unit,omitempty"`
	Enum       []string `json:"enum,omitempty"`
	Default    string   `json:"default,omitempty"`
	Required   bool     `json:"required,omitempty"`
	Positional bool     `json:"positional,omitempty"`
	Doc        string   `json:"doc,omitempty"`
}

// Catalogue describes what is predeclared, modules with their members, and kinds
// as they describe themselves, sorted by name.
func Catalogue(predeclared starlark.StringDict, kinds ...[]Entry) []Entry {
	var out []Entry
	for name, v := range predeclared {
		out = append(out, describeValue(name, v)...)
	}
	for _, k := range kinds {
		out = append(out, k...)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

func describeValue(name string, v starlark.Value) []Entry {
	switch v := v.(type) {
	case *Builtin:
		e := v.f.entry()
		e.Name = name
		return []Entry{e}
	case *Module:
		out := []Entry{{Name: name, Kind: "module", Doc: v.doc}}
		for _, n := range v.names {
			out = append(out, describeValue(name+"."+n, v.members[n])...)
		}
		return out
	case *starlark.Function:
		return []Entry{{Name: name, Kind: "function", Doc: v.Doc(), Signature: name + "(…)"}}
	case *starlark.Builtin:
		return []Entry{{Name: name, Kind: "function", Signature: name + "(…)"}}
	}
	e := Entry{Name: name, Kind: "value"}
	if Measure(v, 20, 200) == nil {
		e.Signature = name + " = " + v.String()
	}
	return []Entry{e}
}

func (f *Func) entry() Entry {
	e := Entry{Name: f.Name, Kind: "function", Doc: f.Doc, Example: f.Example, Signature: f.Signature(),
		Rest: f.Rest, Named: f.Named, Returns: f.Returns, Blocks: f.Blocks}
	for i := range f.Params {
		p := &f.Params[i]
		d := ParamDoc{Name: p.Name, Type: p.typeOf().String(), Unit: p.Unit, Required: p.Required, Positional: p.Positional, Doc: p.Doc}
		if o, ok := p.typeOf().(oneOf); ok {
			d.Enum = o
		}
		if !p.Required {
			d.Default = p.defaultText()
		}
		e.Params = append(e.Params, d)
	}
	return e
}

// Summary is the first sentence of the documentation.
func (e Entry) Summary() string {
	if i := strings.Index(e.Doc, ". "); i >= 0 {
		return e.Doc[:i+1]
	}
	return e.Doc
}

// Markdown is the entry as a section of the manual, without its heading.
func (e Entry) Markdown() string {
	var b strings.Builder
	if e.Signature != "" {
		fmt.Fprintf(&b, "```python\n%s\n```\n", e.Signature)
	}
	if e.Doc != "" {
		b.WriteString(e.Doc + "\n")
	}
	if len(e.Params) > 0 {
		b.WriteString("\n| argument | type | default | |\n|---|---|---|---|\n")
		for _, p := range e.Params {
			typ, def := p.Type, p.Default
			if p.Unit != "" {
				typ += ", " + p.Unit
			}
			if p.Required {
				def = "required"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", p.Name, escapeCell(typ), escapeCell(def), escapeCell(p.Doc))
		}
	}
	if e.Returns != "" {
		fmt.Fprintf(&b, "\nReturns %s.\n", strings.TrimSuffix(e.Returns, "."))
	}
	if e.Blocks {
		b.WriteString("\nWaits: the time spent waiting does not count against the script's limit.\n")
	}
	if e.Example != "" {
		fmt.Fprintf(&b, "\n```python\n%s\n```\n", strings.TrimSpace(e.Example))
	}
	return b.String()
}

func escapeCell(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "|", "\\|"), "\n", " ")
}
