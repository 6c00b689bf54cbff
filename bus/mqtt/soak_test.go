package mqtt_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"edged/bus/mqtt"
	"edged/tests/peer"
)

// QoS 2 through cut connections: nothing lost, nothing twice.
func TestExactlyOnce(t *testing.T) {
	t.Parallel()
	m := startMosquitto(t, "")
	p := newProxy(t, "127.0.0.1:"+m.Port)
	c := collect(t, m.URL(), "n/#", 2)
	r := newRobot(t, mqtt.Options{URL: "tcp://" + p.addr, ClientID: "once", Backoff: 20 * time.Millisecond, MaxBackoff: 100 * time.Millisecond,
		Mapping: mqtt.Mapping{Publish: []mqtt.Route{{Filter: "n/#", QoS: 2}}}}).connected(t)
	n := 0
	for range 15 {
		tick(time.Duration(20+rand.IntN(80))*time.Millisecond, func() {
			for i := range 8 {
				n++
				r.say(t, "n/"+string(rune('a'+i)), n)
			}
		})
		p.cut()
		p.open(t)
	}
	peer.Eventually(t, 30*time.Second, "all arrived", func() bool { return c.len() >= n && r.br.Stats().Waiting == 0 })
	if dup := c.numbers(t, int64(n)); dup != 0 {
		t.Errorf("got %d duplicates, want none", dup)
	}
	if r.br.Stats().Again == 0 {
		t.Error("nothing was sent again: the test proves nothing")
	}
}

// (i) 200 messages a second through random faults: nothing lost, and neither
// goroutines nor heap grow. One hour, or EDGED_SOAK.
func TestSoak(t *testing.T) {
	if !slow() {
		t.Skip("one hour: run by `make slow` (EDGED_SLOW=1, EDGED_SOAK=10m for less)")
	}
	length := time.Hour
	if s := os.Getenv("EDGED_SOAK"); s != "" {
		var err error
		if length, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	m := startMosquitto(t, "")
	p := newProxy(t, "127.0.0.1:"+m.Port)
	c := collect(t, m.URL(), "n/#", 1)
	box, err := openLog(filepath.Join(t.TempDir(), "outbox"))
	if err != nil {
		t.Fatal(err)
	}
	r := newRobot(t, mqtt.Options{URL: "tcp://" + p.addr, ClientID: "soak", MaxBackoff: 5 * time.Second, Outbox: box,
		Mapping: mqtt.Mapping{Publish: []mqtt.Route{{Filter: "n/#", QoS: 1}}, Subscribe: []mqtt.Route{{Filter: "n/#", QoS: 1}}}}).connected(t)

	n := 0
	say := func() {
		n++
		r.say(t, "n/"+string(rune('a'+n%4)), n)
	}
	calm := func(d time.Duration) {
		tk := time.NewTicker(5 * time.Millisecond)
		defer tk.Stop()
		for end := time.Now().Add(d); time.Now().Before(end); <-tk.C {
			say()
		}
	}
	flat := func() (goroutines int, heap uint64) {
		peer.Eventually(t, time.Minute, "connected and empty", func() bool { return r.br.Connected() && r.br.Stats().Waiting == 0 })
		peer.Eventually(t, time.Minute, "all arrived", func() bool { return c.distinct() >= int64(n) })
		c.mu.Lock()
		own := cap(c.list) * 64
		c.mu.Unlock()
		runtime.GC()
		var ms runtime.MemStats
		runtime.ReadMemStats(&ms)
		return runtime.NumGoroutine(), ms.HeapAlloc - min(ms.HeapAlloc, uint64(own))
	}
	calm(10 * time.Second)
	g0, h0 := flat()
	for end := time.Now().Add(length); time.Now().Before(end); {
		switch rand.IntN(4) {
		case 0:
			p.cut()
			calm(time.Duration(rand.IntN(2000)) * time.Millisecond)
			p.open(t)
		case 1:
			m.Stop(syscall.SIGTERM)
			calm(time.Duration(rand.IntN(5000)) * time.Millisecond)
			m.Start()
		case 2:
			box.setFail(syscall.ENOSPC)
			calm(time.Second)
			box.setFail(nil)
		}
		calm(time.Duration(5+rand.IntN(20)) * time.Second)
	}
	g1, h1 := flat()
	t.Logf("goroutines %d → %d, heap %d → %d kB, %+v", g0, g1, h0>>10, h1>>10, r.br.Stats())
	if g1 > g0+10 || h1 > h0+16<<20 {
		t.Errorf("goroutines %d → %d, heap %d → %d kB: not flat", g0, g1, h0>>10, h1>>10)
	}
	c.numbers(t, int64(n))
}
