// Package workflow makes agents of agents: a workflow has a name, runs a task,
// and stands wherever an agent can.
//
// Its one rule: a child's failure, panic or lateness is an outcome of the
// workflow, never an escape from it, and no child is left running when the
// workflow has returned. The one exception is a child that ignores that its
// time is over: [Timeout] and [Parallel] leave it behind, count it and say so.
//
//	tidy := workflow.NewSequence("tidy", workflow.SequenceOptions{},
//		find,
//		workflow.NewRetry("grasp", workflow.RetryOptions{MaxAttempts: 3}, grasp),
//		workflow.NewFallback("away", workflow.FallbackOptions{}, drawer, box),
//	)
//	r, err := agent.Run(ctx, tidy, agent.Task{Input: "the cup"})
//
// Any node may have a guard, which is asked again whenever something that it
// read changes ([Guard]), and a function for when it is halted. With a
// checkpoint a run outlives the process ([Runs]). What watches, records and
// listens comes with the context ([WithRuntime]).
package workflow
