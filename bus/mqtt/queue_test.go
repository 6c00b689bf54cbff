package mqtt

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// The queue against a plain list: order of every topic, one in flight per
// topic, the oldest goes first, sizes.
func TestQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := newQueue(uint16(rapid.IntRange(0, 1<<16-1).Draw(t, "seed")))
		var all []*message // what must be in the queue, by age
		n := 0
		last := map[string]int{} // topic → number of the last that was done
		num := map[*message]int{}
		gone := func(m *message) {
			for i, x := range all {
				if x == m {
					all = append(all[:i:i], all[i+1:]...)
					return
				}
			}
			t.Fatalf("%s was not in the queue", m.topic)
		}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				n++
				m := &message{topic: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "topic"), payload: make([]byte, n%5),
					qos: byte(rapid.IntRange(1, 2).Draw(t, "qos")), id: uint64(n), stored: rapid.Bool().Draw(t, "stored"), control: rapid.IntRange(0, 9).Draw(t, "control") == 0}
				num[m] = n
				all = append(all, m)
				q.push(m)
			},
			"next": func(t *rapid.T) {
				if m := q.next(); m != nil {
					for _, x := range q.flight {
						if x != m && x.topic == m.topic {
							t.Fatalf("two of %s are in flight", m.topic)
						}
					}
					if m.pid < 0x4000 {
						t.Fatalf("packet id %d belongs to Paho", m.pid)
					}
				}
			},
			"done": func(t *rapid.T) {
				for _, m := range q.flight {
					if num[m] < last[m.topic] {
						t.Fatalf("%s: %d after %d", m.topic, num[m], last[m.topic])
					}
					last[m.topic] = num[m]
					gone(m)
					q.done(m)
					return
				}
			},
			"released": func(t *rapid.T) {
				for _, m := range q.flight {
					if m.qos == 2 {
						m.phase = released
					}
				}
			},
			"drop": func(t *rapid.T) {
				var want *message
				for _, x := range all {
					if x.phase == waiting && !x.control {
						want = x
						break
					}
				}
				if got := q.dropOldest(); got != want {
					t.Fatalf("dropped %v, want %v", got, want)
				}
				if want != nil {
					gone(want)
				}
			},
			"lost": func(t *rapid.T) {
				forgot := rapid.Bool().Draw(t, "forgot")
				for _, m := range q.lost(forgot) {
					if m.phase != released || forgot {
						t.Fatalf("%s is to be released again", m.topic)
					}
				}
				for _, m := range q.flight {
					if m.phase != released {
						t.Fatal("in flight after the connection was lost")
					}
				}
			},
			"": func(t *rapid.T) {
				bytes, count := int64(0), 0
				m := q.first
				for _, want := range all {
					if m != want {
						t.Fatal("the order of age is wrong")
					}
					m = m.newer
					if !want.control {
						bytes += want.size()
						count++
					}
				}
				if m != nil || q.bytes != bytes || q.n != count {
					t.Fatalf("got %d messages with %d bytes, want %d, %d", q.n, q.bytes, count, bytes)
				}
			},
		})
		for i := 0; len(all) > 0; i++ { // nothing is stuck
			m := q.next()
			for _, x := range q.flight {
				if m == nil {
					m = x
				}
			}
			if m == nil || i > 10_000 {
				t.Fatalf("%d are stuck", len(all))
			}
			gone(m)
			q.done(m)
		}
		if len(q.lanes) != 0 || len(q.flight) != 0 {
			t.Fatalf("left: %d lanes, %d in flight", len(q.lanes), len(q.flight))
		}
	})
}

func TestWindow(t *testing.T) {
	q := newQueue(0)
	for i := range 3 * window {
		q.push(&message{topic: fmt.Sprint(i), qos: 1})
	}
	n := 0
	for q.next() != nil {
		n++
	}
	if n != window {
		t.Errorf("got %d in flight, want %d", n, window)
	}
}
