package blackboard

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"edged/bus"
)

func (b *Board) postDurable(ctx context.Context, r *Request) error {
	return b.commitOp(ctx, &op{
		name: "post",
		prepare: func(t *batch) error {
			if err := b.reqs.room(b); err != nil {
				return err
			}
			b.reqs.last++
			r.ID, r.at, r.old = b.reqs.last, b.bus.Now(), bus.OldOf(ctx)
			t.add(r.put())
			return nil
		},
		finish: func(err error) {
			if err == nil {
				b.admit(ctx, r, false)
			}
		},
	}, func() { r.run(ctx, nil, r) })
}

// drop takes all open requests, for Close; durable ones stay in the file.
func (q *requests) drop() []*Request {
	var open []*Request
	for _, l := range q.lines {
		for r := l.first; r != nil; r = r.next {
			if r.expiry != nil {
				r.expiry.Stop()
			}
			if c := r.claim; c != nil {
				if c.lease != nil {
					c.lease.Stop()
				}
				for _, cancel := range c.cancels {
					cancel()
				}
			}
			open = append(open, r)
		}
		for r := l.first; r != nil; {
			next := r.next
			r.q, r.prev, r.next = nil, nil, nil
			r = next
		}
		l.first, l.last = nil, nil
	}
	q.open = 0
	return open
}

// What a durable request is in the file: a record with the id as its key and
// version, and the rest as a list.

func (r *Request) fileKey() string { return string(binary.BigEndian.AppendUint64(nil, r.ID)) }

func (r *Request) put() put {
	k := r.fileKey()
	l := []any{r.Key, r.Task, int64(r.timeout), r.ReplyKey}
	if o := r.old; o != nil {
		l = append(l, o.Topic, o.Reason, int64(o.Age), o.Remedy)
	}
	s := state{version: r.ID, at: r.at, writer: r.From, origin: by(r.Origin, r.From), value: l}
	return put{bucketRequests, k, s.encode([]byte(k))}
}

func (r *Request) gone() put { return put{bucket: bucketRequests, key: r.fileKey()} }

var errShape = errors.New("not a request")

func (q *requests) load(b *Board, k, v []byte) error {
	s, err := decodeState(k, v)
	if err != nil {
		return err
	}
	l, ok := s.value.([]any)
	if !ok || len(l) != 4 && len(l) != 8 || len(k) != 8 {
		return errShape
	}
	r := &Request{ID: s.version, at: s.at, From: s.writer, Origin: s.whose(), Durable: true, Task: l[1]}
	timeout, ok1 := l[2].(int64)
	var ok2, ok3 bool
	r.Key, ok2 = l[0].(string)
	r.ReplyKey, ok3 = l[3].(string)
	if !ok1 || !ok2 || !ok3 {
		return errShape
	}
	r.timeout = time.Duration(timeout)
	if len(l) == 8 {
		age, _ := l[6].(int64)
		r.old = &bus.Old{Age: time.Duration(age)}
		r.old.Topic, ok1 = l[4].(string)
		r.old.Reason, ok2 = l[5].(string)
		r.old.Remedy, ok3 = l[7].(string)
		if !ok1 || !ok2 || !ok3 {
			return errShape
		}
	}
	q.found = append(q.found, r)
	return nil
}

// adopt puts the loaded requests into their lines; whoever posted them is gone,
// whoever volunteers is offered them. The caller holds mu.
func (q *requests) adopt(b *Board) {
	for _, r := range q.found {
		q.last = max(q.last, r.ID)
		r.future = bus.NewFuture(func() { b.withdraw(r) })
		whole := r.timeout
		if whole > 0 {
			left := leftOf(whole, r.at)
			if left <= 0 {
				b.later(r.gone())
				b.count.expired.Add(1)
				continue
			}
			r.timeout = left
		}
		ctx := r.again()
		if r.old != nil {
			ctx = bus.WithOld(ctx, *r.old)
		}
		b.admit(ctx, r, false)
		r.timeout = whole
	}
	q.found = nil
}

func (q *requests) everything(puts []put) []put {
	for _, l := range q.lines {
		for r := l.first; r != nil; r = r.next {
			if r.Durable {
				puts = append(puts, r.put())
			}
		}
	}
	return puts
}
