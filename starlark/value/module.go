package value

import (
	"fmt"
	"maps"
	"slices"

	"go.starlark.net/starlark"
)

// Module is a named group of builtins and values that scripts use with a dot,
// as in bb.set. It is immutable.
type Module struct {
	name    string
	doc     string
	members map[string]starlark.Value
	names   []string
}

// NewModule makes a module of builtins. The name of a Func may be given bare
// ("set") or with its module ("bb.set"); scripts see the bare one, messages the
// long one. It panics on a wrong table, as [Func.Builtin] does.
func NewModule(name, doc string, funcs ...Func) *Module {
	m := &Module{name: name, doc: doc, members: make(map[string]starlark.Value, len(funcs))}
	for _, f := range funcs {
		bare := f.Name
		if len(bare) > len(name) && bare[:len(name)+1] == name+"." {
			bare = bare[len(name)+1:]
		}
		f.Name = name + "." + bare
		m.add(bare, f.Builtin())
	}
	return m
}

// With returns a copy of the module with further members, which are frozen:
// constants, other modules, builtins of the Starlark library.
func (m *Module) With(members starlark.StringDict) *Module {
	c := &Module{name: m.name, doc: m.doc, members: maps.Clone(m.members), names: slices.Clone(m.names)}
	for _, k := range members.Keys() {
		members[k].Freeze()
		c.add(k, members[k])
	}
	return c
}

func (m *Module) add(name string, v starlark.Value) {
	if m.members[name] != nil {
		panic(fmt.Sprintf("value: module %s: %s given twice", m.name, name))
	}
	m.members[name] = v
	i, _ := slices.BinarySearch(m.names, name)
	m.names = slices.Insert(m.names, i, name)
}

// Name returns the module's name.
func (m *Module) Name() string         { return m.name }
func (m *Module) String() string       { return "<module " + m.name + ">" }
func (m *Module) Type() string         { return "module" }
func (m *Module) Freeze()              {}
func (m *Module) Truth() starlark.Bool { return true }

// Hash implements starlark.Value.
func (m *Module) Hash() (uint32, error) { return 0, fmt.Errorf("unhashable: module") }

// Doc returns the module's documentation.
func (m *Module) Doc() string { return m.doc }

// Attr implements starlark.HasAttrs.
func (m *Module) Attr(name string) (starlark.Value, error) {
	if v := m.members[name]; v != nil {
		return v, nil
	}
	return nil, noAttr(m.name, name, m.names)
}

// AttrNames implements starlark.HasAttrs.
func (m *Module) AttrNames() []string { return m.names }
