package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"edged/blackboard"
	"edged/bus"
	"edged/bus/origin"
	"edged/bus/trace"
	"edged/hw"
)

// What outlives the process beside the board's keys: the stop latch and the
// retained events.

// latch keeps a stop that hardware caused.
type latch struct{ records *blackboard.Records }

var _ hw.Latch = latch{}

// Save implements hw.Latch.
func (l latch) Save(s *hw.StopRecord) error {
	if s == nil {
		return l.records.Delete(context.Background(), "latch")
	}
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return l.records.Put(context.Background(), "latch", b, true)
}

// Load implements hw.Latch.
func (l latch) Load() (*hw.StopRecord, error) {
	b, ok := l.records.Get("latch")
	if !ok {
		return nil, l.records.Damaged("latch")
	}
	var s hw.StopRecord
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("saved stop: %w", err)
	}
	return &s, nil
}

// keptEvent is a retained event in the board's file.
type keptEvent struct {
	Source string          `json:"source"`
	Origin origin.Label    `json:"origin,omitempty"` // if not the source's alone
	Time   time.Time       `json:"time"`
	Bytes  []byte          `json:"bytes,omitempty"`
	JSON   json.RawMessage `json:"json,omitempty"`
}

// restoreRetained puts back the retained events of earlier processes, and has
// those of this one kept. They are on disk within the board's window.
func (r *robot) restoreRetained() error {
	records := r.board.Records("retained")
	for topic, b := range records.All() {
		var k keptEvent
		if err := json.Unmarshal(b, &k); err != nil {
			r.log.Warn("retained event skipped", "topic", topic, "err", err)
			continue
		}
		var v any = k.Bytes
		if k.JSON != nil {
			v = bus.RawJSON(k.JSON)
		}
		if err := r.bus.Restore(topic, k.Source, k.Origin, v, k.Time); err != nil {
			r.log.Warn("retained event skipped", "topic", topic, "err", err)
		}
	}
	_, err := r.bus.Tap("*", func(e bus.Event) {
		if !e.Keep {
			return
		}
		if err := keep(records, e); err != nil {
			r.bus.Report(bus.WithCause(context.Background(), e), "retained", err, e)
		}
	})
	return err
}

func keep(records *blackboard.Records, e bus.Event) error {
	k := keptEvent{Source: e.Source, Origin: trace.Others(e), Time: e.Time()}
	switch p := e.Payload().(type) {
	case nil:
		return records.Delete(context.Background(), e.Topic)
	case []byte:
		k.Bytes = p
	default:
		b, err := e.JSON()
		if err != nil {
			return err
		}
		k.JSON = b
	}
	b, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return records.Put(context.Background(), e.Topic, b, false)
}
