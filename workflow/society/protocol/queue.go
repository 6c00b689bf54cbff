package protocol

import "slices"

// Queue lets the head of a line speak, who then goes to its end. A round is
// over when as many have spoken as there are members.
type Queue struct {
	// Priority puts who has more of it in front of the line, in order of
	// arrival among equals; it is asked before each turn, of those who have not
	// had theirs in this round. Nil: plain order.
	Priority func(name string) int
}

// Open never fails.
func (q Queue) Open(members []string) (Protocol, error) {
	return &queue{priority: q.Priority, line: slices.Clone(members), left: len(members)}, nil
}

// Steady says that all always hear all.
func (Queue) Steady() {}

type queue struct {
	priority func(string) int
	line     []string
	left     int
}

func (q *queue) Next() []string {
	if q.left == 0 {
		return nil
	}
	waiting := q.line[:q.left] // who has spoken in this round stands behind them
	q.left--
	head := 0
	if q.priority != nil {
		best := q.priority(waiting[0])
		for i, name := range waiting[1:] {
			if p := q.priority(name); p > best {
				head, best = i+1, p
			}
		}
	}
	name := q.line[head]
	q.line = append(slices.Delete(q.line, head, head+1), name)
	return []string{name}
}

func (q *queue) Listeners(speaker string) []string { return others(q.line, speaker) }
func (q *queue) Route(Message)                     {}
func (q *queue) Advance()                          { q.left = len(q.line) }
func (q *queue) Stop() string                      { return "" }
