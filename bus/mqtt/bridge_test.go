package mqtt_test

import (
	"fmt"
	"strings"
	"testing"

	"edged/bus/mqtt"
	"edged/tests/peer"
)

func TestBothWays(t *testing.T) {
	t.Parallel()
	m := startMosquitto(t, "")
	for qos := range byte(3) {
		t.Run(fmt.Sprint("qos ", qos), func(t *testing.T) {
			r := newRobot(t, mqtt.Options{URL: m.URL(), ClientID: fmt.Sprint("both", qos), Mapping: mqtt.Mapping{
				Subscribe: []mqtt.Route{{Filter: "home/#", QoS: qos}},
				Publish:   []mqtt.Route{{Filter: "robot/#", QoS: qos}},
			}}).connected(t)
			in := r.hear(t, "home/#")
			peer.Pub(t, m.Port, "-t", "home/goto", "-m", `{"room":"kitchen"}`, "-q", fmt.Sprint(qos))
			e := in.wait(t, 1)[0]
			if got := fmt.Sprint(e.Payload()); got != "map[room:kitchen]" || e.Source != "mqtt" || e.Retained {
				t.Errorf("got %s from %q, retained %v", got, e.Source, e.Retained)
			}
			lines := sub(t, m.Port, 1, "-t", "robot/#", "-q", "2")
			r.say(t, "robot/pose", map[string]any{"x": 1})
			if got, want := strings.Join(lines(), ""), fmt.Sprintf(`robot/pose {"x":1} 0 %d`, qos); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
