package society_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent"
	"edged/bus"
	"edged/workflow/society"
	"edged/workflow/society/protocol"
)

// TestContractNet: peers on a bus bid, refuse, come late, talk nonsense and
// vanish; each is its own state in the record.
func TestContractNet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		defer b.Close(context.Background())
		answer := func(name string, after time.Duration, reply func(id any) any) {
			sub, err := b.Handle("robots/"+name, bus.Queue{}, func(ctx context.Context, e bus.Event) error {
				q := e.Payload().(map[string]any)
				if q["kind"] != "cfp" || q["task"] != "job" || q["form"] == nil {
					t.Errorf("%s got %v", name, q)
				}
				if reply == nil {
					return nil
				}
				time.Sleep(after)
				for _, id := range []any{"another turn", q["id"]} {
					if _, err := b.Publish(ctx, "mqtt", "robots/"+name+"/reply", reply(id)); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(sub.Close)
		}
		bid := func(cost int64) func(any) any {
			return func(id any) any { return m{"kind": "propose", "id": id, "answer": m{"cost": cost, "eta": int64(1)}} }
		}
		answer("mule", 0, bid(40))
		answer("crab", time.Second, bid(30))
		answer("slow", 10*time.Second, bid(1))
		answer("shy", 0, func(id any) any { return m{"kind": "refuse", "id": id, "reason": "battery"} })
		answer("odd", 0, func(id any) any { return m{"kind": "propose", "id": id, "answer": "cheap"} })
		answer("sick", 0, func(id any) any { return m{"kind": "failure", "id": id, "reason": "wheel"} })
		answer("gone", 0, nil)
		var members list
		for _, name := range []string{"mule", "crab", "slow", "shy", "odd", "sick", "gone"} {
			members = append(members, &society.Agent{Name: name, Speaker: society.Peer(b, "robots/"+name)})
		}
		s := society.New("fleet", society.Options{})
		e := must(s.Compete(members, &society.Competition{Quorum: 1, Resolve: society.BestScore{Field: "cost", Lowest: true},
			Shared: society.Shared{Protocol: &protocol.Market{Bid: bidSchema}, Timeout: 5 * time.Second, OnTimeout: society.Terminate}}))
		start := time.Now()
		r := run(t, e, "job")
		if r.Status != agent.Done || r.Winner != "crab" || time.Since(start) != 5*time.Second || !r.Tainted {
			t.Errorf("got %+v after %v", r, time.Since(start))
		}
		got := map[string]society.State{}
		for _, turn := range s.Log().Turns(r.RunID) {
			got[turn.Speaker] = turn.State
			if turn.Asked != 1 {
				t.Errorf("%s was asked %d times", turn.Speaker, turn.Asked)
			}
		}
		for who, want := range map[string]society.State{"mule": society.OK, "crab": society.OK, "slow": society.TimedOut, "shy": society.Refused,
			"odd": society.Invalid, "sick": society.Broken, "gone": society.TimedOut} {
			if got[who] != want {
				t.Errorf("%s: got %s, want %s", who, got[who], want)
			}
		}
		if names := society.Ranking(r); len(names) != 2 || names[0] != "crab" || names[1] != "mule" {
			t.Errorf("got ranking %v", names)
		}
		time.Sleep(time.Minute)
	})
}
