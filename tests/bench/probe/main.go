// Command probe drives a sensor → rule → actuator program over a broker on
// loopback and prints one line of figures.
//
//	-mode rule   publish sensors/t, receive actuators/fan
//	-mode cold   publish every 2 ms until the first actuators/fan arrives; the
//	             line is printed when the probe is connected or retrying
package main

import (
	"encoding/json"
	"flag"
	"fmt"
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

func main() {
	addr := flag.String("addr", "127.0.0.1:18830", "broker")
	mode := flag.String("mode", "rule", "rule or cold")
	n := flag.Int("n", 2000, "messages")
	rate := flag.Int("rate", 0, "messages per second; 0: closed loop with -window outstanding")
	window := flag.Int("window", 200, "outstanding messages of a flood")
	flag.Parse()

	sub, pub := dial(*addr, "probe-s"), dial(*addr, "probe-p")
	sent := make([]atomic.Int64, *n+1)
	lat := make([]int64, 0, *n)
	var got atomic.Int64
	base := time.Now()
	first := make(chan struct{})
	var once sync.Once
	t := sub.Subscribe("actuators/fan", 0, func(_ mqtt.Client, m mqtt.Message) {
		now := time.Since(base).Nanoseconds()
		p := m.Payload()
		if len(p) > 0 && p[0] == '"' { // an engine that sends JSON as a string
			var q string
			json.Unmarshal(p, &q)
			p = []byte(q)
		}
		var v struct{ N int64 }
		if json.Unmarshal(p, &v) != nil || v.N < 0 || v.N > int64(*n) {
			return
		}
		if v.N == 0 {
			once.Do(func() { close(first) })
			return
		}
		lat = append(lat, now-sent[v.N].Load())
		got.Add(1)
	})
	if t.Wait() && t.Error() != nil {
		panic(t.Error())
	}
	say := func(i int) { pub.Publish("sensors/t", 0, false, fmt.Appendf(nil, `{"t":31.5,"n":%d}`, i)) }
	for i, waiting := 0, true; waiting; i++ {
		say(0)
		select {
		case <-first:
			waiting = false
		case <-time.After(2 * time.Millisecond):
			if i > 30000 {
				fmt.Println(`{"error":"no reaction"}`)
				os.Exit(1)
			}
		}
	}
	if *mode == "cold" {
		fmt.Printf("{\"at_ns\":%d}\n", time.Now().UnixNano())
		return
	}
	time.Sleep(300 * time.Millisecond)
	start := time.Now()
	for i := 1; i <= *n; i++ {
		if *rate > 0 {
			time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / time.Duration(*rate))))
		} else {
			for w := 0; int64(i-1)-got.Load() >= int64(*window) && w < 100000; w++ {
				time.Sleep(20 * time.Microsecond)
			}
		}
		sent[i].Store(time.Since(base).Nanoseconds())
		say(i)
	}
	for d := time.Now(); got.Load() < int64(*n) && time.Since(d) < 5*time.Second; {
		time.Sleep(100 * time.Microsecond)
	}
	el := time.Since(start)
	l := slices.Clone(lat)
	slices.Sort(l)
	q := func(f float64) float64 { return float64(l[int(f*float64(len(l)-1))]) / 1e3 }
	fmt.Printf(`{"got":%d,"msg_per_s":%.0f,"p50_us":%.0f,"p99_us":%.0f}`+"\n", len(l), float64(len(l))/el.Seconds(), q(.5), q(.99))
}
