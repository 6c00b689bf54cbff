package mqtt_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"edged/bus"
	"edged/bus/mqtt"
	"edged/tests/peer"
)

// disk is an inbox whose disk hangs until it is freed, and that a next bridge
// may open.
type disk struct {
	*mqtt.Memory
	free chan struct{}
	recs map[uint64][]byte
}

func (d *disk) Append(rec []byte) (uint64, error) {
	<-d.free
	id, err := d.Memory.Append(rec)
	d.recs[id] = rec
	return id, err
}

func (d *disk) All() iter.Seq2[uint64, []byte] {
	return func(yield func(uint64, []byte) bool) {
		for id := range uint64(len(d.recs)) {
			if !yield(id+1, d.recs[id+1]) {
				return
			}
		}
	}
}

// A disk that hangs holds up nothing but the messages that are to be on it:
// they are not acknowledged, and a stop does not wait behind them.
func TestDurableOnAHungDisk(t *testing.T) {
	t.Parallel()
	m := startMosquitto(t, "")
	d := &disk{mqtt.NewMemory(), make(chan struct{}), map[uint64][]byte{}}
	r := newRobot(t, mqtt.Options{URL: m.URL(), ClientID: "hung", Inbox: d, Limit: 50, Mapping: mqtt.Mapping{
		Told:      []string{"edged/safety/stop"},
		Subscribe: []mqtt.Route{{Filter: "edged/safety/stop", QoS: 1}, {Filter: "job/#", QoS: 1, Durable: true}, {Filter: "plain", QoS: 1}},
	}}).connected(t)
	jobs, stops := r.hear(t, "job/#"), r.hear(t, "edged/safety/stop")
	send := sender(t, m.URL())
	const n = 100 // of which a broker sends 20 before the first acknowledgement
	for i := range n {
		send("job/a", 1, false, fmt.Sprint(i))
	}
	send("edged/safety/stop", 1, false, `"door"`)
	peer.Eventually(t, 20*time.Second, "a stop while the disk hangs", func() bool { return len(stops.events()) > 0 })
	if got := len(jobs.events()); got != 0 {
		t.Fatalf("%d came before they were on disk", got)
	}
	close(d.free)
	peer.Eventually(t, 60*time.Second, "all when it goes on", func() bool { return len(jobs.events()) >= n })
	peer.Eventually(t, 20*time.Second, "an empty inbox", func() bool { return r.br.Stats().Inbox == 0 && d.Len() == 0 })
}

// A full inbox leaves what comes with the broker, says so, and gets it when it
// has room; a handler that is slow is given no more than its queue holds.
func TestDurableInboxIsFull(t *testing.T) {
	t.Parallel()
	m := startMosquitto(t, "")
	free := make(chan struct{})
	close(free)
	d := &disk{mqtt.NewMemory(), free, map[uint64][]byte{}}
	r := newRobot(t, mqtt.Options{URL: m.URL(), ClientID: "full", Inbox: d, Limit: 10, Mapping: mqtt.Mapping{
		Subscribe: []mqtt.Route{{Filter: "job/#", QoS: 2, Durable: true}},
	}}).connected(t)
	told := r.hear(t, bus.ErrorTopic)
	step := make(chan struct{})
	seen := map[string]bool{} // the handler's own
	var distinct atomic.Int64
	sub, err := r.Handle("job/#", bus.Queue{Limit: 32}, func(ctx context.Context, e bus.Event) error {
		<-step
		seen[string(e.Bytes())] = true
		distinct.Store(int64(len(seen)))
		return errors.New("a failure is handled, too")
	})
	if err != nil {
		t.Fatal(err)
	}
	send := sender(t, m.URL())
	const n = 60
	for i := range n {
		send("job/a", byte(1+i%2), false, fmt.Sprint(i))
	}
	peer.Eventually(t, 20*time.Second, "a full inbox", func() bool { return r.br.Stats().InboxFull > 0 })
	if got := r.br.Stats().Inbox; got > 10 {
		t.Errorf("the inbox has %d, want at most 10", got)
	}
	if len(told.events()) == 0 {
		t.Error("a full inbox was not told")
	}
	close(step)
	peer.Eventually(t, 60*time.Second, "all are handled", func() bool { return distinct.Load() == n })
	if sub.Dropped() != 0 {
		t.Errorf("%d were dropped", sub.Dropped())
	}
}
