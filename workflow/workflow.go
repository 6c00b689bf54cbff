// Package workflow makes agents of agents: a workflow has a name, runs a task,
// and stands wherever an agent can.
//
// Its one rule: a child's failure, panic or lateness is an outcome of the
// workflow, never an escape from it, and no child is left running when the
// workflow has returned.
//
//	morning := workflow.NewParallel("morning", workflow.ParallelOptions{}, lookup, weather, calendar)
//	r, err := agent.Run(ctx, morning, agent.Task{Input: "morning briefing?"})
package workflow
