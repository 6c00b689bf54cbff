package blackboard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"
)

// Requests: posted once, claimed by one at a time, answered once.

const (
	absent = iota
	waiting
	claimed
	answered
	doubtful // it was answered before a crash, and may be there again
)

type work struct{ state, claim int }

// requestModel is of one request; each has a model of its own.
var requestModel = porcupine.Model{
	Partition: func(ops []porcupine.Operation) [][]porcupine.Operation {
		by := map[string][]porcupine.Operation{}
		for _, o := range ops {
			by[o.Input.(ask).Token] = append(by[o.Input.(ask).Token], o)
		}
		var out [][]porcupine.Operation
		for _, list := range by {
			out = append(out, list)
		}
		return out
	},
	Init: func() any { return work{} },
	Step: func(state, in, out any) (bool, any) {
		w, a, b := state.(work), in.(ask), out.(reply)
		free := w.state == waiting || w.state == doubtful
		switch a.Op {
		case "post":
			return w.state == absent, work{state: waiting}
		case "claim":
			return free, work{claimed, a.Claim}
		case "free": // its handler failed, or its lease was over
			if w.state == claimed && w.claim == a.Claim {
				w = work{state: waiting}
			}
			return true, w
		case "reply":
			open := w.state == waiting || w.state == claimed
			if w.state == doubtful {
				open = b.OK
			}
			return b.Unknown || b.OK == open, work{state: answered}
		case "crash":
			switch w.state {
			case claimed:
				w.state = waiting
			case answered:
				w.state = doubtful
			}
			return true, w
		}
		return false, w
	},
}

// handle is a volunteer's handler that records what it does: it answers, fails,
// panics, or takes so long that its lease is over.
func (h *history) handle(d *Board, client int, r *rand.Rand, faults map[string]int, twice bool) func(context.Context, *Request) (any, error) {
	var freeAt int64 // when the last handler was done: from then on the next is claimed
	return func(_ context.Context, req *Request) (any, error) {
		token := req.Task.(string)
		h.mu.Lock()
		h.now++
		claim := int(h.now)
		h.ops[h.open(client, ask{Op: "claim", Token: token, Claim: claim}, freeAt)].Return = h.now
		if twice {
			h.now++
			h.ops[h.open(client, ask{Op: "claim", Token: token, Claim: claim + 1}, h.now-1)].Return = h.now
		}
		how := r.IntN(6)
		if faults[token] >= maxCrashes-1 { // the board would answer for it
			how = 0
		}
		if how > 0 && how < 4 {
			faults[token]++
		}
		h.mu.Unlock()
		defer func() {
			h.mu.Lock()
			h.now++
			freeAt = h.now
			h.mu.Unlock()
		}()
		switch how {
		case 1, 2, 3:
			if how == 3 {
				time.Sleep(defaultLease - time.Millisecond)
				h.begin(client, ask{Op: "free", Token: token, Claim: claim})
				time.Sleep(time.Duration(1+r.IntN(20)) * time.Second)
			}
			h.begin(client, ask{Op: "free", Token: token, Claim: claim})
			if how == 2 {
				panic("as asked")
			}
			return nil, errors.New("as asked")
		case 4:
			time.Sleep(defaultLease - time.Millisecond)
			h.begin(client, ask{Op: "free", Token: token, Claim: claim})
			time.Sleep(time.Duration(1+r.IntN(20)) * time.Second)
		case 5:
			time.Sleep(time.Duration(r.IntN(20)) * time.Second)
		}
		id := h.begin(client, ask{Op: "reply", Token: token})
		h.end(id, reply{OK: d.Reply(ctx, "volunteer", req, token)})
		return token, nil
	}
}

// requestHistory has posters, volunteers and somebody who answers out of turn.
func requestHistory(t *testing.T, seed uint64, twice bool) *history {
	h := &history{}
	synctest.Test(t, func(t *testing.T) {
		d := open(t, Options{})
		faults := map[string]int{}
		random := func(client int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(client))) }
		for i := range 3 {
			v, err := d.Volunteer("job", VolunteerOptions{Name: fmt.Sprint("v", i)}, h.handle(d, i, random(i), faults, twice))
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
		}
		together(3, func(i int) {
			r := random(10 + i)
			if i == 2 {
				for range 3 {
					time.Sleep(time.Duration(r.IntN(40)) * time.Second)
					for _, req := range d.Pending("job") {
						id := h.begin(12, ask{Op: "reply", Token: req.Task.(string)})
						h.end(id, reply{OK: d.Reply(ctx, "thief", req, "mine")})
						break
					}
				}
				return
			}
			for n := range 3 {
				token := fmt.Sprint(i, "-", n)
				id := h.begin(10+i, ask{Op: "post", Token: token})
				f, err := d.Post(ctx, "test", "job", token, PostOptions{})
				h.end(id, reply{OK: err == nil})
				if err != nil {
					t.Error(err)
					return
				}
				if r.IntN(2) == 0 {
					continue
				}
				if _, err := f.Result(ctx); err != nil {
					t.Error(err)
				}
			}
		})
		for range 1000 {
			if len(d.Pending("job")) == 0 {
				break
			}
			time.Sleep(time.Second)
		}
		if left := len(d.Pending("job")); left > 0 {
			t.Errorf("seed %d: %d requests are never answered", seed, left)
		}
		time.Sleep(2 * defaultLease) // those who were too slow
	})
	return h
}

// TestLinearRequests: 300 histories. One request is never with two at a time,
// however late a handler fails, and one answer counts.
func TestLinearRequests(t *testing.T) {
	for seed := range uint64(300) {
		checkLinear(t, fmt.Sprint("seed ", seed), requestModel, requestHistory(t, seed, false).ops)
	}
}

// A claim that two have is found out.
func TestLinearNoticesDoubleClaims(t *testing.T) {
	for seed := range uint64(20) {
		if porcupine.CheckOperationsTimeout(requestModel, requestHistory(t, seed, true).ops, time.Minute) != porcupine.Illegal {
			t.Errorf("seed %d: not found out", seed)
		}
	}
}
