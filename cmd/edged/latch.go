package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
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
// those of this one kept. They are on disk within the board's window. What is
// more than may be kept goes to a file aside: the robot's own events are taken
// up before those of MQTT clients, newer ones before older.
func (r *robot) restoreRetained() error {
	records := r.board.Records("retained")
	type record struct {
		topic string
		b     []byte
		k     keptEvent
	}
	var list, beyond []record
	for topic, b := range records.All() {
		var k keptEvent
		if err := json.Unmarshal(b, &k); err != nil {
			r.log.Warn("retained event skipped", "topic", topic, "err", err)
			continue
		}
		list = append(list, record{topic, b, k})
	}
	slices.SortStableFunc(list, func(x, y record) int {
		if a, b := strings.HasPrefix(x.k.Source, "mqtt"), strings.HasPrefix(y.k.Source, "mqtt"); a != b {
			if a {
				return 1
			}
			return -1
		}
		return y.k.Time.Compare(x.k.Time)
	})
	for _, one := range list {
		var v any = one.k.Bytes
		if one.k.JSON != nil {
			v = bus.RawJSON(one.k.JSON)
		}
		switch err := r.bus.Restore(one.topic, one.k.Source, one.k.Origin, v, one.k.Time); {
		case errors.Is(err, bus.ErrFull):
			beyond = append(beyond, one)
		case err != nil:
			r.log.Warn("retained event skipped", "topic", one.topic, "err", err)
		}
	}
	if len(beyond) > 0 {
		a, err := r.openAside("retained")
		if err == nil {
			for _, one := range beyond {
				err = errors.Join(err, a.add(one.topic, one.b))
			}
			err = errors.Join(err, a.close())
		}
		why := fmt.Sprintf("%d retained events are more than bus.retained and bus.retained_bytes allow", len(beyond))
		if err != nil {
			r.setAside(fmt.Sprintf("%s; they stay in the blackboard's file, unused: %v", why, err), "")
		} else {
			r.setAside(why, a.path)
			for _, one := range beyond {
				if err := records.Delete(context.Background(), one.topic); err != nil {
					return err
				}
			}
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
