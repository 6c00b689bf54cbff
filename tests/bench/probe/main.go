// Command probe drives sensor → rule → actuator programs over their brokers on
// loopback and prints figures as JSON, one line per program.
//
//	-mode rule   publish sensors/t, receive actuators/fan: one event after the
//	             other, each to a program by lot, for the machine's mood changes by
//	             the second
//	-mode cold   publish every 2 ms until the first actuators/fan arrives; the
//	             line is printed when the probe is connected or retrying
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

func dial(addr, id string) mqtt.Client {
	c := mqtt.NewClient(mqtt.NewClientOptions().AddBroker("tcp://" + addr).SetClientID(id).SetConnectTimeout(100 * time.Millisecond))
	for i := 0; ; i++ {
		t := c.Connect()
		t.Wait()
		if t.Error() == nil {
			return c
		}
		if i > 20000 {
			panic(t.Error())
		}
		time.Sleep(500 * time.Microsecond)
	}
}

// A program under measurement, behind a broker of its own.
type program struct {
	sub, pub mqtt.Client
	base     time.Time
	sent     []atomic.Int64 // by number, nanoseconds after base
	last     int            // number of the last one sent
	got      atomic.Int64
	lat      []int64
	first    chan struct{} // closed at the first reaction
}

func connect(addr string, n int) *program {
	p := &program{sub: dial(addr, "probe-s"), pub: dial(addr, "probe-p"), base: time.Now(), sent: make([]atomic.Int64, n+1), first: make(chan struct{})}
	var once sync.Once
	t := p.sub.Subscribe("actuators/fan", 0, func(_ mqtt.Client, m mqtt.Message) {
		now := time.Since(p.base).Nanoseconds()
		b := m.Payload()
		if len(b) > 0 && b[0] == '"' { // an engine that sends JSON as a string
			var q string
			json.Unmarshal(b, &q)
			b = []byte(q)
		}
		var v struct{ N int64 }
		if json.Unmarshal(b, &v) != nil || v.N < 0 || v.N > int64(n) {
			return
		}
		if v.N == 0 {
			once.Do(func() { close(p.first) })
			return
		}
		p.lat = append(p.lat, now-p.sent[v.N].Load())
		p.got.Add(1)
	})
	if t.Wait() && t.Error() != nil {
		panic(t.Error())
	}
	for i := 0; ; i++ {
		p.say(0)
		select {
		case <-p.first:
			return p
		case <-time.After(2 * time.Millisecond):
			if i > 30000 {
				fmt.Println(`{"error":"no reaction"}`)
				os.Exit(1)
			}
		}
	}
}

func (p *program) say(i int) {
	p.pub.Publish("sensors/t", 0, false, fmt.Appendf(nil, `{"t":31.5,"n":%d}`, i))
}

// event sends the next one.
func (p *program) event() {
	p.last++
	p.sent[p.last].Store(time.Since(p.base).Nanoseconds())
	p.say(p.last)
}

func (p *program) waits() int { return p.last - int(p.got.Load()) }

func main() {
	mode := flag.String("mode", "rule", "rule or cold")
	n := flag.Int("n", 2000, "messages to each program")
	rate := flag.Int("rate", 0, "messages per second to each program; 0: closed loop with -window outstanding")
	window := flag.Int("window", 200, "outstanding messages of a flood")
	flag.Parse() // the rest are the brokers' addresses

	var all []*program
	for _, addr := range flag.Args() {
		all = append(all, connect(addr, *n))
	}
	if *mode == "cold" {
		fmt.Printf("{\"at_ns\":%d}\n", time.Now().UnixNano())
		return
	}
	time.Sleep(300 * time.Millisecond)
	start := time.Now()
	for i := range *n * len(all) {
		p := all[rand.IntN(len(all))]
		for p.last == *n {
			p = all[rand.IntN(len(all))]
		}
		if *rate > 0 {
			time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / time.Duration(*rate*len(all)))))
		} else {
			for w := 0; p.waits() >= *window && w < 100000; w++ {
				time.Sleep(20 * time.Microsecond)
			}
		}
		p.event()
	}
	waits := func(p *program) bool { return p.waits() > 0 }
	for d := time.Now(); slices.ContainsFunc(all, waits) && time.Since(d) < 5*time.Second; {
		time.Sleep(100 * time.Microsecond)
	}
	el := time.Since(start)
	for _, p := range all {
		l := slices.Sorted(slices.Values(p.lat[:p.got.Load()]))
		q := func(f float64) float64 { return float64(l[int(f*float64(len(l)-1))]) / 1e3 }
		fmt.Printf(`{"got":%d,"msg_per_s":%.0f,"p50_us":%.0f,"p99_us":%.0f}`+"\n", len(l), float64(len(l))/el.Seconds(), q(.5), q(.99))
	}
}
