// Command rule is the limit: the smallest sensor → rule → actuator program in
// Go on paho.mqtt.golang, with no features.
package main

import (
	"encoding/json"
	"flag"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:18830", "broker")
	flag.Parse()
	var m struct {
		T float64 `json:"t"`
		N int64   `json:"n"`
	}
	o := mqtt.NewClientOptions().AddBroker("tcp://" + *addr).SetClientID("rule")
	o.OnConnect = func(c mqtt.Client) {
		c.Subscribe("sensors/t", 0, func(c mqtt.Client, msg mqtt.Message) {
			if json.Unmarshal(msg.Payload(), &m) == nil && m.T > 30 {
				c.Publish("actuators/fan", 0, false, append(strconv.AppendInt([]byte(`{"on":true,"n":`), m.N, 10), '}'))
			}
		})
	}
	c := mqtt.NewClient(o)
	if t := c.Connect(); t.Wait() && t.Error() != nil {
		panic(t.Error())
	}
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGTERM, syscall.SIGINT)
	<-ch
}
