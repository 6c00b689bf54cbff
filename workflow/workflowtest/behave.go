package workflowtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"edged/agent"
)

// Behave is an agent c that ends in one way, a second after it began: how is a
// word for a failure, and any other is what it answers. "slow" takes an hour,
// "deaf" too, and does not hear that it is stopped.
func Behave(how string) agent.Agent {
	return agent.Func("c", func(ctx context.Context, _ agent.Task) (agent.Result, error) {
		wait, stopped := time.Second, ctx.Done()
		switch how {
		case "slow":
			wait = time.Hour
		case "deaf":
			wait, stopped = time.Hour, nil
		}
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-stopped:
			return agent.Result{}, ctx.Err()
		}
		if how == "half" {
			return agent.Result{Output: map[string]any{"p": int64(1)}}, nil
		}
		if err := broken(how); err != nil {
			return agent.Result{}, err
		}
		return agent.Result{Reply: how}, nil
	})
}

// broken is how an agent fails, or nil.
func broken(how string) error {
	switch how {
	case "fails":
		return errors.New("broken")
	case "declines":
		return agent.Declined("no arm")
	case "panics":
		panic("oh")
	case "rejects":
		return fmt.Errorf("%w: bad plan", agent.ErrRejected)
	case "blocks":
		return fmt.Errorf("%w: rude", agent.ErrBlocked)
	case "deadlock":
		return fmt.Errorf("%w: 8 rounds", agent.ErrDeadlock)
	case "timeout":
		return fmt.Errorf("%w: server", agent.ErrTimeout)
	case "cancelled":
		return fmt.Errorf("%w: by hand", agent.ErrCancelled)
	}
	return nil
}
