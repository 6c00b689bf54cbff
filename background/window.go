package background

import (
	"math/rand/v2"
	"time"
)

// window is the rule of restart intensity: a restart is allowed if fewer than
// max were made within the span before it. It is exact and monotonic; OTP
// rounds to whole seconds.
type window struct {
	max   int
	span  time.Duration
	times []time.Time
}

// allow counts a restart at now, or says that it is one too many.
func (w *window) allow(now time.Time) bool {
	since := now.Add(-w.span)
	gone := 0
	for gone < len(w.times) && !w.times[gone].After(since) {
		gone++
	}
	w.times = append(w.times[:0], w.times[gone:]...)
	if len(w.times) >= w.max {
		return false
	}
	w.times = append(w.times, now)
	return true
}

// left is how many restarts are allowed at now.
func (w *window) left(now time.Time) int {
	since, n := now.Add(-w.span), w.max
	for _, t := range w.times {
		if t.After(since) {
			n--
		}
	}
	return n
}

// backoff is the wait before restart number attempt (from 0) in a row.
func backoff(base, most time.Duration, attempt int) time.Duration {
	if base <= 0 {
		return 0
	}
	if most <= 0 {
		most = 1<<62 - 1
	}
	d := min(base, most)
	for range attempt {
		if d >= most/2 {
			d = most
			break
		}
		d *= 2
	}
	return d - rand.N(d/5+1)
}
