package mqtt_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"edged/tests/peer"
)

// collector is a client of the test with a session of its own: it notes what
// arrives through every outage.
type collector struct {
	c    paho.Client
	mu   sync.Mutex
	list []got
}

type got struct {
	topic, payload string
	retained       bool
	qos            byte
}

func collect(t testing.TB, url, filter string, qos byte) *collector {
	t.Helper()
	c := &collector{}
	take := func(_ paho.Client, m paho.Message) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.list = append(c.list, got{m.Topic(), string(m.Payload()), m.Retained(), m.Qos()})
	}
	o := paho.NewClientOptions().AddBroker(url).SetClientID("collector-" + filter[:1] + fmt.Sprint(time.Now().UnixNano())).
		SetCleanSession(false).SetMaxReconnectInterval(300 * time.Millisecond).SetDefaultPublishHandler(take)
	up := make(chan error, 1)
	o.OnConnect = func(pc paho.Client) {
		s := pc.Subscribe(filter, qos, nil)
		s.Wait()
		select {
		case up <- s.Error():
		default:
		}
	}
	c.c = paho.NewClient(o)
	if s := c.c.Connect(); s.Wait() && s.Error() != nil {
		t.Fatal(s.Error())
	}
	if err := <-up; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.c.Disconnect(50) })
	return c
}

func (c *collector) all() []got {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]got(nil), c.list...)
}

func (c *collector) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.list)
}

func (c *collector) wait(t testing.TB, n int) []got {
	t.Helper()
	peer.Eventually(t, 10*time.Second, fmt.Sprintf("%d messages", n), func() bool { return c.len() >= n })
	return c.all()
}

// distinct is the number of different payloads.
func (c *collector) distinct() int64 {
	seen := map[string]bool{}
	for _, g := range c.all() {
		seen[g.payload] = true
	}
	return int64(len(seen))
}

// numbers checks that 1 to n arrived, each topic in order, and gives the number
// of duplicates.
func (c *collector) numbers(t testing.TB, n int64) (dup int) {
	t.Helper()
	seen := map[int64]bool{}
	last := map[string]int64{}
	for _, g := range c.all() {
		var i int64
		if _, err := fmt.Sscan(g.payload, &i); err != nil {
			t.Fatalf("payload %q: %v", g.payload, err)
		}
		if seen[i] {
			dup++
			continue
		}
		seen[i] = true
		if i < last[g.topic] {
			t.Errorf("%s: %d came after %d", g.topic, i, last[g.topic])
		}
		last[g.topic] = i
	}
	lost := 0
	for i := int64(1); i <= n; i++ {
		if !seen[i] {
			lost++
			if lost < 10 {
				t.Errorf("%d of %d was lost", i, n)
			}
		}
	}
	t.Logf("%d messages, %d lost, %d duplicates", n, lost, dup)
	return dup
}
