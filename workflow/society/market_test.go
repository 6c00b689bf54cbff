package society_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"edged/agent"
	"edged/workflow"
	"edged/workflow/society"
	"edged/workflow/society/protocol"
)

// sale is one auction of several that go on at once.
type sale struct {
	begin, bid, resolve, end time.Duration
	prices                   map[string]int64 // of those who bid
	status                   agent.Status
	winner                   string
}

// TestAuctionsAtOnce: whoever bids in several auctions of a market at once, some
// of which are stopped on their way, pays for all that it won, and had the money
// for it; and what it did not win it can bid again.
func TestAuctionsAtOnce(t *testing.T) {
	names := []string{"a", "b", "c"}
	seconds := rapid.Map(rapid.IntRange(0, 4), func(n int) time.Duration { return time.Duration(n) * time.Second })
	rapid.Check(t, func(rt *rapid.T) {
		budget := map[string]float64{}
		for _, name := range names {
			budget[name] = float64(rapid.SampledFrom([]int{0, 1, 50, 99, 100}).Draw(rt, "budget"))
		}
		sales := make([]sale, rapid.IntRange(2, 5).Draw(rt, "sales"))
		for i := range sales {
			s := &sales[i]
			s.begin, s.bid, s.resolve, s.end = seconds.Draw(rt, "begin"), seconds.Draw(rt, "bid"), seconds.Draw(rt, "resolve"), time.Hour
			if rapid.Bool().Draw(rt, "stopped") {
				s.end = seconds.Draw(rt, "end")
			}
			s.prices = map[string]int64{}
			for _, name := range names {
				if n := rapid.SampledFrom([]int64{-1, 0, 1, 49, 50, 51, 100}).Draw(rt, "price"); n >= 0 {
					s.prices[name] = n
				}
			}
		}
		var wrong string
		synctest.Test(t, func(t *testing.T) { wrong = sellAll(t, budget, sales) })
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}

// sellAll runs all sales, and says what is wrong then.
func sellAll(t *testing.T, budget map[string]float64, sales []sale) string {
	market := &protocol.Market{Bid: bidSchema, Budget: budget}
	names := []string{"a", "b", "c"}
	var members list
	for _, name := range names {
		members = append(members, &society.Agent{Name: name, Speaker: society.Func(func(_ context.Context, p society.Prompt) (any, error) {
			n, ok := p.Task.Input.(int)
			if !ok { // all it has
				return m{"cost": int64(market.Balance(name)), "eta": int64(1)}, nil
			}
			time.Sleep(sales[n].bid)
			if price, ok := sales[n].prices[name]; ok {
				return m{"cost": price, "eta": int64(n)}, nil
			}
			return nil, society.ErrRefused
		})})
	}
	dearest := society.ResolveFunc(func(_ context.Context, subs []society.Submission, _ map[string]any) (string, error) {
		cost := func(s society.Submission) int64 { return s.Output.(map[string]any)["cost"].(int64) }
		best := slices.MaxFunc(subs, func(x, y society.Submission) int { return int(cost(x) - cost(y)) })
		time.Sleep(sales[best.Output.(map[string]any)["eta"].(int64)].resolve)
		return best.Agent, nil
	})
	e := must(society.New("x", society.Options{}).Compete(members, &society.Competition{Resolve: dearest, Shared: society.Shared{Protocol: market}}))
	var wg sync.WaitGroup
	for i := range sales {
		wg.Go(func() {
			time.Sleep(sales[i].begin)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			defer time.AfterFunc(sales[i].end, cancel).Stop()
			r, _ := agent.Run(ctx, e, agent.Task{Input: i, Origin: "test"})
			sales[i].status, sales[i].winner = r.Status, r.Winner
		})
	}
	wg.Wait()
	time.Sleep(time.Minute) // those who were stopped and left behind end, too
	for _, name := range names {
		paid := 0.0
		for _, s := range sales {
			if s.status == agent.Done && s.winner == name {
				paid += float64(s.prices[name])
			}
		}
		if has := market.Balance(name); has < 0 || has != budget[name]-paid {
			return fmt.Sprintf("%s had %v, pays %v and has %v", name, budget[name], paid, has)
		}
	}
	r, err := agent.Run(t.Context(), e, agent.Task{Input: "the rest", Origin: "test"})
	for _, child := range r.Children {
		if child.Status != agent.Done {
			return fmt.Sprintf("nobody else bids, and %s can't bid what it has: %s, %v", child.By, child.Reason, err)
		}
	}
	return ""
}

// TestBidIsMadeDearer: what a guardrail makes of a bid is what its bidder pays,
// and must have.
func TestBidIsMadeDearer(t *testing.T) {
	market := &protocol.Market{Bid: bidSchema, Budget: map[string]float64{"a": 50, "b": 50}}
	twice := workflow.Guardrail{Name: "twice", On: workflow.Sanitize, Check: func(_ context.Context, v any, _ map[string]any) (workflow.Finding, error) {
		bid := v.(map[string]any)
		return workflow.Finding{Replaced: true, By: m{"cost": 2 * bid["cost"].(int64), "eta": bid["eta"]}}, nil
	}}
	e := must(society.New("x", society.Options{}).Compete(bids("a b", 40, 20), &society.Competition{Resolve: society.BestScore{Field: "cost"},
		Shared: society.Shared{Protocol: market, Guardrails: []workflow.Guardrail{twice}}}))
	if r := run(t, e, "x"); r.Winner != "b" || market.Balance("a") != 50 || market.Balance("b") != 10 {
		t.Errorf("got %+v, balances %v and %v", r, market.Balance("a"), market.Balance("b"))
	}
}
