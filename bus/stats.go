package bus

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

type counters struct {
	overload   atomic.Uint64
	storms     atomic.Uint64
	errors     atomic.Uint64
	unreported atomic.Uint64
	unkept     atomic.Uint64
}

// Stats is what the bus has counted since it was made.
type Stats struct {
	Published     uint64              `json:"published"`
	Pending       int                 `json:"pending"`
	Overload      uint64              `json:"overload,omitempty"` // refused: too many waited for delivery
	Storms        uint64              `json:"storms,omitempty"`   // refused by the storm guard
	Errors        uint64              `json:"errors,omitempty"`   // edged/error events
	Timers        int                 `json:"timers"`
	Retained      int                 `json:"retained"`
	RetainedBytes int64               `json:"retained_bytes"`
	Unkept        uint64              `json:"unkept,omitempty"` // refused: no more could be kept
	Late          uint64              `json:"late,omitempty"`   // answers to questions that were over
	Subscriptions []SubscriptionStats `json:"subscriptions"`
}

// Stats gives the counters of the bus and of every subscription.
func (b *Bus) Stats() Stats {
	b.mu.Lock()
	pending := len(b.pending)
	b.mu.Unlock()
	b.subsMu.Lock()
	kept, bytes := len(b.kept.last), b.kept.bytes
	b.subsMu.Unlock()
	b.talk.mu.Lock()
	late := b.talk.late
	b.talk.mu.Unlock()
	st := Stats{
		Late:      late,
		Published: b.state.Load() / oneSeq, Pending: pending, Overload: b.counters.overload.Load(),
		Storms: b.counters.storms.Load(), Errors: b.counters.errors.Load(), Timers: b.wheel.Len(), Retained: kept, RetainedBytes: bytes, Unkept: b.counters.unkept.Load(),
	}
	for _, s := range b.subscriptions() {
		st.Subscriptions = append(st.Subscriptions, s.Stats())
	}
	return st
}

// Seq is the number of the last event.
func (b *Bus) Seq() uint64 { return b.state.Load() / oneSeq }

// storms remembers which loops were reported lately.
type storms struct {
	mu   sync.Mutex
	last map[string]time.Time
}

const stormPause = time.Minute

// storm refuses an event at the end of too long a chain and reports the loop,
// once a minute.
func (b *Bus) storm(e Event) error {
	b.counters.storms.Add(1)
	topics := e.chain.topics()
	err := fmt.Errorf("bus: publish %s: %w: %d events each caused the next: %s",
		e.Topic, ErrStorm, e.Hops, strings.Join(topics, " → "))
	key := strings.Join(topics, "\x00")
	now := time.Now()
	b.storms.mu.Lock()
	if b.storms.last == nil || len(b.storms.last) > 256 {
		b.storms.last = map[string]time.Time{}
	}
	last, known := b.storms.last[key]
	quiet := known && now.Sub(last) < stormPause
	if !quiet {
		b.storms.last[key] = now
	}
	b.storms.mu.Unlock()
	if !quiet {
		list := make([]any, len(topics))
		for i, t := range topics {
			list[i] = t
		}
		_, _ = b.Publish(context.Background(), e.Source, ErrorTopic, map[string]any{
			"source": e.Source, "topic": e.Topic, "loop": list, "error": err.Error(),
		})
	}
	return err
}
