package workflow

import "edged/agent"

// Unbounded is what [ModelCalls] gives where nothing bounds it.
const Unbounded = -1

// ModelCalls gives how often one run of an agent asks models at most. It knows
// of the calls that agents tell of themselves with ModelCalls() int, and of how
// often nodes run their children and ask who leads them.
func ModelCalls(a agent.Agent) int {
	for a != nil {
		if c, ok := a.(interface{ ModelCalls() int }); ok {
			return c.ModelCalls()
		}
		if n, ok := a.(inner); ok {
			return nodeCalls(n)
		}
		w, ok := a.(Wrapper)
		if !ok {
			break
		}
		a = w.Unwrap()
	}
	return 0
}

// led is what one question to a lead takes: it is asked once more over an
// answer that can't be used.
const led = 2

func nodeCalls(n inner) int {
	sum, most := 0, 0
	for _, c := range n.self().children {
		calls := ModelCalls(c)
		if calls < 0 {
			return Unbounded
		}
		sum, most = sum+calls, max(most, calls)
	}
	switch x := n.(type) {
	case *Custom:
		if x.calls != nil {
			return x.calls()
		}
	case *Switch:
		return most
	case *Router:
		if x.opt.Lead != nil {
			most += led
		}
		return most
	case *Supervisor:
		return x.opt.MaxDispatches*(most+led) + led
	case *Orchestrator:
		if x.opt.Worker == nil {
			return 0
		}
		worker := ModelCalls(x.opt.Worker(x.name, x.opt.Tools))
		if worker < 0 {
			return Unbounded
		}
		return led + x.opt.MaxSubtasks*worker + sum
	case *Retry:
		return x.opt.MaxAttempts * sum
	case *Loop:
		return x.opt.MaxIterations * sum
	case *Repeat:
		if x.times > 0 {
			return x.times * sum
		}
		return endless(sum)
	case *Tick:
		return endless(sum)
	}
	return sum
}

// endless is what a node asks that runs its child for ever.
func endless(calls int) int {
	if calls > 0 {
		return Unbounded
	}
	return 0
}
