package lib

// Where things are declared, for whoever shows the line.

// places tells where agents and nodes of workflows are declared at top level,
// by name. Of two of one name it is the first.
func (b *Behaviour) places() map[string]string {
	at := map[string]string{}
	note := func(name, place string) {
		if _, known := at[name]; !known {
			at[name] = place
		}
	}
	for _, a := range b.Agents() {
		if known := aboutAgent(a); known.at.Line > 0 {
			note(known.name, known.at.String())
		}
	}
	for _, f := range b.flows.declared() {
		note(f.Name(), f.at.String())
	}
	return at
}

// Text gives the text of a file that was loaded, under the name that messages
// give it; ok is false if none is called so.
func (b *Behaviour) Text(file string) (text string, ok bool) {
	if b.remote != nil {
		return b.remote.Text(file)
	}
	for _, m := range b.program.Modules {
		if m.File == file {
			return m.Text, true
		}
	}
	return "", false
}
