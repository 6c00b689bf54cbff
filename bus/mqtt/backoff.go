package mqtt

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is the pause between attempts to connect: it doubles from min to max
// and varies by half, so that a fleet does not come back at once.
type backoff struct {
	min, max time.Duration
	next     time.Duration
}

// pause gives the next pause. lasted is how long the last connection was up; a
// stable one, half of max, starts the pauses again.
func (b *backoff) pause(lasted time.Duration) time.Duration {
	if b.next == 0 || lasted >= b.max/2 {
		b.next = b.min
	}
	d := b.next
	b.next = min(2*b.next, b.max)
	return min(d/2+rand.N(d), b.max)
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// rival notices another client with our id: the broker then closes our
// connection each time, soon after we have taken the session from the other.
type rival struct{ closed int }

const (
	rivalTimes = 3
	rivalSoon  = 60 * time.Second
)

// ended says how a connection ended and reports whether there seems to be a
// rival. present says that the broker still had our session at its begin, so
// it was not the broker that restarted.
func (r *rival) ended(byPeer, present bool, lasted time.Duration) bool {
	switch {
	case !byPeer || lasted > rivalSoon:
		r.closed = 0
	case present || r.closed == 0:
		r.closed++
	default:
		r.closed = 1
	}
	return r.closed >= rivalTimes
}
