package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"edged/agent"
)

func TestRunSettlesStatusAndError(t *testing.T) {
	mine := errors.New("disk full")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name   string
		ctx    context.Context
		run    func(context.Context, agent.Task) (agent.Result, error)
		want   agent.Status
		reason string
		is     error
	}{
		{"done", nil, func(context.Context, agent.Task) (agent.Result, error) { return agent.Result{}, nil }, agent.Done, "", nil},
		{"error", nil, func(context.Context, agent.Task) (agent.Result, error) { return agent.Result{}, mine }, agent.Failed, "disk full", mine},
		{"declined", nil, func(context.Context, agent.Task) (agent.Result, error) {
			return agent.Result{}, agent.Declined("no arm")
		},
			agent.Failed, "declined: no arm", agent.ErrFailed},
		{"blocked", nil, func(context.Context, agent.Task) (agent.Result, error) {
			return agent.Result{}, fmt.Errorf("%w: rude", agent.ErrBlocked)
		},
			agent.Blocked, "rude", agent.ErrBlocked},
		{"status without error", nil, func(context.Context, agent.Task) (agent.Result, error) {
			return agent.Result{Status: agent.Rejected, Reason: "late"}, nil
		}, agent.Rejected, "late", agent.ErrRejected},
		{"deadline", nil, func(context.Context, agent.Task) (agent.Result, error) {
			return agent.Result{}, context.DeadlineExceeded
		},
			agent.Timeout, "context deadline exceeded", context.DeadlineExceeded},
		{"already over", cancelled, nil, agent.Cancelled, "context canceled", context.Canceled},
		{"exit", nil, func(context.Context, agent.Task) (agent.Result, error) { return agent.Result{}, agent.ErrExit }, agent.Done, "exit", agent.ErrExit},
		{"made-up status", nil, func(context.Context, agent.Task) (agent.Result, error) { return agent.Result{Status: "fine"}, nil },
			agent.Failed, `unknown status "fine"`, agent.ErrFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := c.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			r, err := agent.Run(ctx, agent.Func("a", c.run), agent.Task{})
			if r.Status != c.want || r.Reason != c.reason || r.By != "a" {
				t.Errorf("got %q %q by %q, want %q %q by a", r.Status, r.Reason, r.By, c.want, c.reason)
			}
			if !errors.Is(err, c.is) {
				t.Errorf("error %v, want %v", err, c.is)
			}
		})
	}
}

func TestPanicIsAFailure(t *testing.T) {
	r, err := agent.Run(t.Context(), agent.Func("a", func(context.Context, agent.Task) (agent.Result, error) {
		var m map[string]int
		m["x"] = 1
		return agent.Result{}, nil
	}), agent.Task{})
	var p *agent.Panic
	if r.Status != agent.Failed || !errors.As(err, &p) || !strings.Contains(p.Fields()["backtrace"].(string), "agent_test") {
		t.Errorf("got %v %v, want failed with a backtrace", r.Status, err)
	}
}

func TestReceipts(t *testing.T) {
	r := agent.Result{Receipts: []agent.Receipt{{Tool: "light", Args: json.RawMessage(`{}`), Err: errors.New("jam")}, {Tool: "look", Result: json.RawMessage(`1`)}}}
	if r.Did("light") || !r.Did("look") || r.Did("drive") {
		t.Error("only what ran and did not fail was done")
	}
	text, err := json.Marshal(r)
	var back agent.Result
	if err != nil || json.Unmarshal(text, &back) != nil || back.Receipts[0].Err.Error() != "jam" || !back.Did("look") {
		t.Errorf("got %s as %+v", text, back)
	}
}

func Example() {
	greet := agent.Func("greet", func(_ context.Context, t agent.Task) (agent.Result, error) {
		return agent.Result{Reply: "hello " + t.Text()}, nil
	})
	r, _ := agent.Run(context.Background(), greet, agent.Task{Input: "kitchen", Origin: "test"})
	fmt.Println(r.Status, r.Reply)
	// Output: done hello kitchen
}
