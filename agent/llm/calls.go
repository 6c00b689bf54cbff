package llm

// ModelCalls gives how often a run asks its model at most: it uses tools as
// often as it may, is told once that a call in writing is none, and has an
// output that does not fit repaired once. What is asked again because a stream
// broke off is not counted.
func (o Options) ModelCalls() int {
	tools := len(o.Tools)+len(o.Handoffs) > 0
	n := 1
	if tools {
		switch {
		case o.MaxToolHops == 0:
			n += defaultHops
		case o.MaxToolHops > 0:
			n += o.MaxToolHops
		}
		n++
	}
	switch {
	case o.Output != nil && tools:
		n += 2
	case o.Output != nil:
		n++
	}
	return n
}

// defaultHops is what MaxToolHops is if nothing is said.
const defaultHops = 3
