package society_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent"
	"edged/workflow/society"
)

// TestRetriesNeverOverlap: whoever is late and deaf is asked once more when it
// has ended, and not at all if it does not end in time.
func TestRetriesNeverOverlap(t *testing.T) {
	for _, part := range []string{"worker", "reviewer", "competitor", "judge", "voter", "cooperator", "merger"} {
		for _, c := range []struct {
			deaf    time.Duration
			status  agent.Status
			asked   int64
			elapsed time.Duration
		}{
			{10*time.Second + 150*time.Millisecond, agent.Done, 2, 10*time.Second + 150*time.Millisecond},
			{time.Hour, agent.Timeout, 1, 10*time.Second + 200*time.Millisecond}, // still at it
		} {
			t.Run(fmt.Sprint(part, c.deaf), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var asked, now, most atomic.Int64
					late := func(name string, answer any) *society.Agent {
						return &society.Agent{Name: name, Speaker: society.Func(func(context.Context, society.Prompt) (any, error) {
							n := asked.Add(1)
							most.Store(max(most.Load(), now.Add(1)))
							defer now.Add(-1)
							if n == 1 {
								time.Sleep(c.deaf)
							}
							return answer, nil
						})}
					}
					sh := society.Shared{Timeout: 10 * time.Second, OnTimeout: society.RetryOnce}
					k, s := newCast(t), society.New("x", society.Options{})
					two := func() list { return list{k.agent("a", draft("ONE")), k.agent("b", draft("TWO"))} }
					var e *society.Interaction
					switch part {
					case "worker":
						e = must(s.Connect(late("a", "ONE"), k.agent("b", review("approve", "")), &society.Oversight{Shared: sh}))
					case "reviewer":
						e = must(s.Connect(k.agent("a", draft("ONE")), late("b", "approve"), &society.Oversight{Shared: sh}))
					case "competitor":
						e = must(s.Compete(list{late("a", "ONE"), k.agent("b", draft("TWO"))}, &society.Competition{Shared: sh, Resolve: society.JudgePicks{Judge: k.judge("j", "ONE")}}))
					case "judge":
						e = must(s.Compete(two(), &society.Competition{Shared: sh, Resolve: society.JudgePicks{Judge: late("j", pick("A"))}}))
					case "voter":
						e = must(s.Compete(two(), &society.Competition{Shared: sh, Resolve: society.MajorityVote{Voters: list{late("v", pick("A"))}}}))
					case "cooperator":
						e = must(s.Cooperate(list{k.agent("a", draft("ONE")), late("b", true)}, &society.Cooperation{Shared: sh}))
					case "merger":
						e = must(s.Cooperate(two(), &society.Cooperation{Shared: sh, MergeBy: late("m", "BOTH")}))
					}
					start := time.Now()
					r := run(t, e, "go")
					if r.Status != c.status || asked.Load() != c.asked || time.Since(start) != c.elapsed {
						t.Errorf("got %s %q, asked %d times, after %v", r.Status, r.Reason, asked.Load(), time.Since(start))
					}
					time.Sleep(2 * time.Hour)
					if most.Load() != 1 || asked.Load() != c.asked {
						t.Errorf("%d were at it at once, asked %d times", most.Load(), asked.Load())
					}
				})
			})
		}
	}
}
