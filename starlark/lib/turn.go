package lib

import "context"

// Runs of agents, which a stop of the robot cancels: what an agent was about to
// do when somebody stopped it is not done after the resume.

// errRobotStopped ends the runs of agents at a stop.
var errRobotStopped error = stopped{}

type stopped struct{}

func (stopped) Error() string { return RobotStopped }

// Unwrap makes it an end by somebody else, not a failure.
func (stopped) Unwrap() error { return context.Canceled }

// turns is what all runs of agents since the last stop end with.
type turns struct {
	ctx context.Context
	end context.CancelCauseFunc
}

func newTurns() *turns {
	t := &turns{}
	t.ctx, t.end = context.WithCancelCause(context.Background())
	return t
}

// CancelTurns ends the runs of agents that are going on, as a stop of the robot
// does; new ones may begin at once. It does not wait for them and takes no lock
// that a script holds.
func (b *Behaviour) CancelTurns() { b.turns.Swap(newTurns()).end(errRobotStopped) }

// turn is the context of one run of an agent; over is called at its end.
func (b *Behaviour) turn(ctx context.Context) (_ context.Context, over func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	forget := context.AfterFunc(b.turns.Load().ctx, func() { cancel(errRobotStopped) })
	return ctx, func() {
		forget()
		cancel(nil)
	}
}
