package value

import "go.starlark.net/starlark"

// Snapshot is what a wrapped value looks like from a distance: the form it
// takes in another process.
type Snapshot struct {
	Type    string
	Text    string // what str(x) says
	Truth   bool
	Attrs   starlark.StringDict // the attributes' values now
	Fixed   bool                // they stay so
	Methods []string
	Keyed   bool             // answers x["key"]
	Items   []starlark.Tuple // its entries, if it can be walked through
}

// Snapshotter is a script value that can be sent as a snapshot: every value of
// a [Kind] is one.
type Snapshotter interface {
	starlark.Value
	Snapshot() Snapshot
}

// Snapshot implements [Snapshotter].
func (o *object) Snapshot() Snapshot {
	s := Snapshot{Type: o.k.name, Text: o.String(), Fixed: o.k.fixed, Truth: bool(o.Truth()), Attrs: make(starlark.StringDict, len(o.k.attr))}
	for _, name := range o.k.names {
		if o.k.attr[name] == nil {
			s.Methods = append(s.Methods, name)
		} else if v, err := o.Attr(name); err == nil {
			s.Attrs[name] = v
		}
	}
	return s
}

// Snapshot implements [Snapshotter].
func (o *indexObject) Snapshot() Snapshot {
	s := o.object.Snapshot()
	s.Keyed = true
	return s
}

// Snapshot implements [Snapshotter].
func (o *iterObject) Snapshot() Snapshot {
	s := o.indexObject.Snapshot()
	s.Items = o.Items()
	return s
}
