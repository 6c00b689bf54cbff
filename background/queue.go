package background

import (
	"fmt"

	"edged/bus"
)

// Overflow says what a full queue of tasks gives up.
type Overflow uint8

// The overflow policies.
const (
	DropOldest Overflow = iota // the task that waits longest
	DropNew                    // the new task
	Latest                     // a newer task takes the place of a waiting one of the same topic; else the oldest goes
)

// ParseOverflow reads a policy by its name.
func ParseOverflow(s string) (Overflow, error) {
	switch s {
	case "drop_oldest":
		return DropOldest, nil
	case "drop_new":
		return DropNew, nil
	case "latest":
		return Latest, nil
	}
	return 0, fmt.Errorf("background: overflow %q: it must be drop_oldest, drop_new or latest", s)
}

// item is a task that waits, and the event it came from.
type item struct {
	event bus.Event
	task  any
	tries int // runs that crashed on it
}

// queue is a ring of tasks that grows by need. Its owner locks.
type queue struct {
	limit    int
	overflow Overflow
	ring     []item // a power of two long
	head, n  int
}

func (q *queue) at(i int) *item { return &q.ring[(q.head+i)&(len(q.ring)-1)] }

// push puts a task at the end. It says what was lost for it: nothing, the
// oldest, the new one, or one that was replaced.
func (q *queue) push(it item) (lost *item, cause string) {
	if q.overflow == Latest {
		for i := range q.n {
			if w := q.at(i); w.event.Topic == it.event.Topic {
				old := *w
				*w = it
				return &old, "replaced"
			}
		}
	}
	if q.n >= q.limit {
		if q.overflow == DropNew {
			return &it, "overflow"
		}
		old := q.pop()
		lost, cause = &old, "overflow"
	}
	q.room()
	q.n++
	*q.at(q.n - 1) = it
	return lost, cause
}

// unpop puts a task back in front; it has been in the queue, so there is room.
func (q *queue) unpop(it item) {
	q.room()
	q.head = (q.head - 1) & (len(q.ring) - 1)
	q.n++
	*q.at(0) = it
}

func (q *queue) room() {
	if q.n < len(q.ring) {
		return
	}
	ring := make([]item, max(2, 2*len(q.ring)))
	for i := range q.n {
		ring[i] = *q.at(i)
	}
	q.ring, q.head = ring, 0
}

func (q *queue) pop() item {
	w := q.at(0)
	it := *w
	*w = item{}
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return it
}

// clear forgets everything, the memory too, and says how many were lost.
func (q *queue) clear() int {
	n := q.n
	q.ring, q.head, q.n = nil, 0, 0
	return n
}
