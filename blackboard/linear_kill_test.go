package blackboard

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/anishathalye/porcupine"

	"edged/bus"
)

// What follows is done by processes that are killed. They write what they do
// to a pipe, which keeps what it has taken: the order of its lines is the clock.

const linearChild = "EDGED_LINEAR_CHILD" // "seed file" in the child

type pipeLine struct {
	ID     int
	Client int    `json:",omitempty"`
	Ask    *ask   `json:",omitempty"`
	Answer *reply `json:",omitempty"`
}

// pipe is a recorder that another process reads.
type pipe struct {
	mu   sync.Mutex
	last int
}

func (p *pipe) say(l pipeLine) {
	b, _ := json.Marshal(l) // it is made of plain fields
	_, _ = os.Stdout.Write(append(b, '\n'))
}

func (p *pipe) begin(client int, a ask) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	p.say(pipeLine{ID: p.last, Client: client, Ask: &a})
	return p.last
}

func (p *pipe) end(id int, b reply) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.say(pipeLine{ID: id, Answer: &b})
}

// runLinearChild works until it is killed.
func runLinearChild(arg string) int {
	var seed uint64
	var path string
	if _, err := fmt.Sscan(arg, &seed, &path); err != nil {
		panic(err)
	}
	d, err := Open(bus.New(bus.Options{}), Options{Path: path})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_ = d.Declare("*", Rule{Mode: Sync})
	rec := &pipe{}
	_, err = d.Volunteer("job", VolunteerOptions{}, func(_ context.Context, req *Request) (any, error) {
		token, _ := req.Task.(string)
		rec.end(rec.begin(4, ask{Op: "claim", Token: token, Claim: int(req.ID)}), reply{})
		id := rec.begin(4, ask{Op: "reply", Token: token})
		rec.end(id, reply{OK: d.Reply(ctx, "volunteer", req, token)})
		return nil, nil
	})
	if err != nil {
		panic(err)
	}
	together(4, func(client int) {
		r := rand.New(rand.NewPCG(seed, uint64(client)))
		if client < 3 {
			linearWork(d, d, rec, client, 1000, r, syncOps)
			return
		}
		for n := range 1000 {
			token := fmt.Sprint(seed, "-", n)
			id := rec.begin(client, ask{Op: "post", Token: token})
			if _, err := d.Post(ctx, "test", "job", token, PostOptions{Durable: true}); err == nil {
				rec.end(id, reply{OK: true})
			}
		}
	})
	return 0
}

// life runs a child on the file, kills it after some lines, and adds what it
// did to the history.
func (h *history) life(t *testing.T, seed uint64, path string, lines int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", linearChild, seed, path))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	ids, n := map[int]int{}, 0
	for s := bufio.NewScanner(out); s.Scan(); n++ {
		var l pipeLine
		if err := json.Unmarshal(s.Bytes(), &l); err != nil {
			t.Fatalf("%v: %s", err, s.Text())
		}
		if l.Ask != nil {
			ids[l.ID] = h.begin(l.Client, *l.Ask)
		} else {
			h.end(ids[l.ID], *l.Answer)
		}
		if n == lines {
			_ = cmd.Process.Kill()
		}
	}
	_ = cmd.Wait()
	if n < lines {
		t.Fatalf("the child ended after %d lines", n)
	}
}

// TestLinearOverKills: 16 histories of three processes each, the first two of
// which are killed by SIGKILL and the third, too.
func TestLinearOverKills(t *testing.T) {
	for seed := range uint64(16) {
		r := rand.New(rand.NewPCG(seed, 9))
		o, h := quick(t), &history{}
		for life := range uint64(3) {
			h.life(t, seed*10+life, o.Path, 10+r.IntN(40))
			tokens := map[string]bool{}
			for _, o := range h.ops {
				tokens[o.Input.(ask).Token] = true
			}
			h.now++
			for token := range tokens {
				if token != "" {
					h.ops[h.open(9, ask{Op: "crash", Token: token}, h.now)].Return = h.now
				}
			}
			h.now++
		}
		var keys, requests []porcupine.Operation
		for _, o := range h.ops {
			if o.Input.(ask).Token == "" {
				keys = append(keys, o)
			} else {
				requests = append(requests, o)
			}
		}
		checkLinear(t, fmt.Sprint("keys, seed ", seed), boardModel, keys)
		checkLinear(t, fmt.Sprint("requests, seed ", seed), requestModel, requests)
		lost := map[string]bool{}
		for _, o := range requests {
			switch a, b := o.Input.(ask), o.Output.(reply); {
			case a.Op == "post" && b.OK:
				lost[a.Token] = true
			case a.Op == "reply":
				delete(lost, a.Token)
			}
		}
		d := open(t, o)
		for _, req := range d.Pending("job") {
			delete(lost, req.Task.(string))
		}
		if len(lost) > 0 {
			t.Errorf("seed %d: requests that were acknowledged are lost: %v", seed, lost)
		}
	}
}
