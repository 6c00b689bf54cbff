package mqtt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Routes that are Durable. A message of theirs goes from the reading goroutine,
// which doesn't wait, to a goroutine that writes it into the inbox, and is
// acknowledged when it is there; whatever the disk does, nothing else waits for
// it. Another goroutine hands what is in the inbox to the bus in order, a window
// of each route at a time, so that a handler's queue holds it, and removes what
// the bus says is handled. What is left when the process ends, is handed over by
// the next one, marked as queued.
//
// A full inbox takes nothing and acknowledges nothing. When it is half empty the
// connection is ended, once: a broker sends what was not acknowledged again on
// the next, and not before (MQTT 3.1.1 section 4.4).

const (
	inboxWindow = 32                     // of a route, with the handlers at a time
	inboxNews   = 5 * time.Second        // what waits longer for its turn is no order
	inboxLook   = 20 * time.Millisecond  // between two questions what is handled
	inboxSlow   = 160 * time.Millisecond // while nothing is
	inboxPause  = time.Second            // after the disk or the bus has failed

	died    = "the robot ended before it was handled"
	slowly  = "it waited for the handlers of its route"
	closing = "the inbox was full and has room again: the broker is to send what was not acknowledged"
)

// letter is a message in the inbox.
type letter struct {
	message
	a    arrival
	line *line     // it came on, to be acknowledged there
	came time.Time // zero = before this process
}

type inbox struct {
	w   *wire
	box Outbox // nil = there is none

	mu     sync.Mutex // guards what follows; never held while calling out
	fresh  []letter   // not on disk yet
	ready  [][]letter // on disk, by route
	out    map[uint64]handed
	busy   []int // how many of a route are in out
	n      int   // of all
	bytes  int64
	missed bool // something was refused for want of room
	frozen bool // nothing is removed any more

	write chan struct{} // one token: there is something in fresh
	hand  chan struct{} // one token: there is something in ready
}

// handed is a message that is with the handlers.
type handed struct {
	id    uint64
	route int
	size  int64
}

func newInbox(w *wire, box Outbox) *inbox {
	n := len(w.Subscribe)
	return &inbox{w: w, box: box, ready: make([][]letter, n), busy: make([]int, n), out: map[uint64]handed{},
		write: make(chan struct{}, 1), hand: make(chan struct{}, 1)}
}

// durable reports whether news on a topic goes through the inbox.
func (w *wire) durable(topic string) bool {
	v := w.inward(topic)
	return w.in.box != nil && v.route >= 0 && w.Subscribe[v.route].Durable
}

// load takes over what an earlier process left.
func (in *inbox) load() {
	if in.box == nil {
		return
	}
	for id, rec := range in.box.All() {
		m, err := parseRecord(rec)
		if err != nil {
			in.w.reject("inbox", fmt.Errorf("record %d: %w", id, err))
			in.remove(id)
			continue
		}
		v := in.w.inward(m.topic)
		if v.route < 0 {
			in.w.reject(m.topic, errors.New("it is left from before, and no route takes it any more"))
			in.remove(id)
			continue
		}
		m.id = id
		in.n++
		in.bytes += m.size()
		in.ready[v.route] = append(in.ready[v.route], letter{message: *m, a: arrival{queued: died}})
	}
	token(in.hand)
}

// take takes a message that came, or leaves it with the broker.
func (in *inbox) take(x letter) {
	in.mu.Lock()
	full := in.n >= in.w.o.Limit || in.bytes+x.size() > in.w.o.Bytes
	if full {
		in.missed = true
	} else {
		x.came = time.Now()
		in.n++
		in.bytes += x.size()
		in.fresh = append(in.fresh, x)
	}
	in.mu.Unlock()
	token(in.write)
	if full {
		in.w.inboxFull.Add(1)
		in.w.report("inbox", fmt.Errorf("mqtt: the inbox is full (%d messages, %d bytes: mqtt.outbox.limit, mqtt.outbox.bytes): "+
			"what comes on durable routes is not acknowledged and stays with the broker", in.w.o.Limit, in.w.o.Bytes))
	}
}

// serve runs until ctx ends.
func (in *inbox) serve(ctx context.Context) {
	if in.box == nil {
		return
	}
	var writer sync.WaitGroup
	defer writer.Wait()
	writer.Go(func() {
		for ctx.Err() == nil {
			select {
			case <-in.write:
				in.store(ctx)
			case <-ctx.Done():
			}
		}
	})
	look := inboxLook
	for ctx.Err() == nil {
		waits, ok := in.deliver()
		if in.forget() {
			look = inboxLook
		} else {
			look = min(2*look, inboxSlow)
		}
		in.again()
		var after <-chan time.Time
		switch {
		case !ok:
			after = time.After(inboxPause)
		case waits:
			after = time.After(look)
		}
		select {
		case <-after:
		case <-in.hand:
		case <-ctx.Done():
		}
	}
}

// store writes what came, with one commit, and acknowledges it.
func (in *inbox) store(ctx context.Context) {
	in.mu.Lock()
	batch := in.fresh
	in.fresh = nil
	in.mu.Unlock()
	for len(batch) > 0 {
		recs := make([][]byte, len(batch))
		for i := range batch {
			recs[i] = appendRecord(nil, &batch[i].message)
		}
		ids, err := appendAll(in.box, recs)
		in.mu.Lock()
		for i, id := range ids {
			batch[i].id = id
			r := in.w.inward(batch[i].topic).route
			in.ready[r] = append(in.ready[r], batch[i])
		}
		in.mu.Unlock()
		for _, x := range batch[:len(ids)] {
			if x.qos == 1 {
				x.line.reply(typePuback, x.pid)
			} else {
				x.line.reply(typePubrec, x.pid)
			}
		}
		token(in.hand)
		batch = batch[len(ids):]
		if err == nil {
			continue
		}
		in.w.report("inbox", fmt.Errorf("mqtt: inbox: %w: what comes on durable routes is not acknowledged until it can be written", err))
		if wait(ctx, inboxPause); ctx.Err() != nil {
			in.mu.Lock()
			in.fresh = append(batch, in.fresh...)
			in.mu.Unlock()
			token(in.write)
			return
		}
	}
}

// deliver hands to the bus what the window of each route has room for. waits
// says that something is with the handlers; ok is false if the bus took no more.
func (in *inbox) deliver() (waits, ok bool) {
	for r := range in.ready {
		for {
			in.mu.Lock()
			if len(in.ready[r]) == 0 || in.busy[r] >= inboxWindow || in.frozen {
				in.mu.Unlock()
				break
			}
			x := in.ready[r][0]
			in.mu.Unlock()
			if !x.came.IsZero() && time.Since(x.came) > inboxNews && x.a.queued == "" {
				x.a.queued = slowly
			}
			seq, err := in.w.take(x.topic, x.payload, x.a)
			if err != nil {
				return true, false
			}
			in.mu.Lock()
			in.ready[r] = in.ready[r][1:]
			if seq != 0 {
				in.out[seq] = handed{x.id, r, x.size()}
				in.busy[r]++
			} else {
				in.n--
				in.bytes -= x.size()
			}
			in.mu.Unlock()
			if seq == 0 { // it is no event: that was counted and told
				in.remove(x.id)
			}
		}
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.out) > 0, true
}

// forget removes what is handled, and reports whether there was something.
func (in *inbox) forget() bool {
	in.mu.Lock()
	var seqs []uint64
	for seq := range in.out {
		seqs = append(seqs, seq)
	}
	in.mu.Unlock()
	if len(seqs) == 0 {
		return false
	}
	done := in.w.bus.Handled(seqs)
	in.mu.Lock()
	if in.frozen {
		in.mu.Unlock()
		return false
	}
	var ids []uint64
	for _, seq := range done {
		h := in.out[seq]
		ids = append(ids, h.id)
		in.busy[h.route]--
		in.n--
		in.bytes -= h.size
		delete(in.out, seq)
	}
	in.mu.Unlock()
	if len(ids) == 0 {
		return false
	}
	in.remove(ids...)
	token(in.hand)
	return true
}

func (in *inbox) remove(ids ...uint64) {
	if err := in.box.Remove(ids...); err != nil {
		in.w.report("inbox", fmt.Errorf("mqtt: inbox: remove: %w: they come again at the next start", err))
	}
}

// again has the broker send what was refused, when there is room.
func (in *inbox) again() {
	in.mu.Lock()
	room := in.missed && 2*in.n <= in.w.o.Limit && 2*in.bytes <= in.w.o.Bytes
	if room {
		in.missed = false
	}
	in.mu.Unlock()
	if !room {
		return
	}
	in.w.mu.Lock()
	l := in.w.line
	in.w.mu.Unlock()
	if l != nil {
		l.fail(errors.New(closing))
	}
}

// size is how many messages are not handled yet.
func (in *inbox) size() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.n
}

// freeze keeps what is not handled by now for the next process.
func (in *inbox) freeze() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.frozen = true
}
