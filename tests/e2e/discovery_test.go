package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestHomeAssistant: what the settings declare is announced to a real broker,
// works as announced, is announced again when Home Assistant starts, and goes
// with its lines in the settings.
func TestHomeAssistant(t *testing.T) {
	m := startMosquitto(t)
	base := fmt.Sprintf(`name = "bot"

[mqtt]
url = %q
discovery = true
publish = [{filter = "hw/#", qos = 1}, {filter = "bot/#", qos = 1}]
subscribe = [{filter = "bot/cmd/#", qos = 1}]

[[mqtt.entities]]
id = "temp"
class = "temperature"

[devices.temp]
driver = "sim.sensor"
unit = "°C"
value = 21.5
`, m.url())
	more := `
[devices.fan]
driver = "sim.actuator"
bind = "bot/cmd/fan"
max = 255
hold = "5s"

[[mqtt.entities]]
kind = "binary_sensor"
id = "door"
state = "bot/door"
on = "open"
off = "closed"
`
	dir := folder(t, map[string]string{"main.star": "", "edged.toml": base + more})
	seen := m.sub("homeassistant/#", "hw/fan/set")
	r := start(t, dir, "run", dir)
	all := []string{
		"homeassistant/binary_sensor/bot/door/config", "homeassistant/button/bot/stop/config",
		"homeassistant/sensor/bot/temp/config", "homeassistant/switch/bot/fan/config",
	}
	announced := func(times int) func() bool {
		return func() bool {
			for _, topic := range all {
				if len(seen.messages(topic)) < times {
					return false
				}
			}
			return true
		}
	}
	await(t, "everything is announced", announced(1))
	config := func(i int) map[string]any {
		t.Helper()
		var c map[string]any
		if err := json.Unmarshal([]byte(values(seen.messages(all[i]))[0]), &c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	for i, want := range []map[string]any{
		{"state_topic": "bot/door", "payload_on": "open", "payload_off": "closed", "availability_topic": "edged/bot/status"},
		{"command_topic": "edged/safety/stop"},
		{"state_topic": "hw/temp", "unit_of_measurement": "°C", "device_class": "temperature", "value_template": "{{ value_json.value }}"},
		{"state_topic": "hw/fan/set", "command_topic": "bot/cmd/fan", "payload_on": "255", "payload_off": "0"},
	} {
		for k, v := range want {
			if got := config(i)[k]; got != v {
				t.Errorf("%s: %s is %v, want %v", all[i], k, got, v)
			}
		}
	}

	// It works as announced: the switch switches, the button stops.
	fan := config(3)
	m.pub("-t", fan["command_topic"].(string), "-m", fan["payload_on"].(string))
	await(t, "the fan was told", func() bool {
		return strings.Contains(fmt.Sprint(seen.messages("hw/fan/set")), `{"value":255}`)
	})
	stop := config(1)
	m.pub("-t", stop["command_topic"].(string), "-m", stop["payload_press"].(string))
	r.until("the stop", 5*time.Second, func() bool {
		out, err := r.edged("status", "--json")
		return err == nil && strings.Contains(out, `"reason": "Home Assistant"`)
	})

	m.pub("-t", "homeassistant/status", "-m", "online")
	await(t, "everything is announced again", announced(2))

	// What left the settings while the robot was off leaves Home Assistant.
	r.end(syscall.SIGTERM)
	if err := os.WriteFile(filepath.Join(dir, "edged.toml"), []byte(base), 0o644); err != nil {
		t.Fatal(err)
	}
	start(t, dir, "run", dir).ready()
	for _, i := range []int{0, 3} {
		await(t, all[i]+" is emptied", func() bool {
			list := seen.messages(all[i])
			return list[len(list)-1] == "0 "
		})
	}
	late := m.sub("homeassistant/+/bot/#")
	await(t, "what is kept", func() bool { return len(late.topics("homeassistant/")) >= 2 })
	left := late.topics("homeassistant/")
	slices.Sort(left)
	if want := all[1:3]; !slices.Equal(left, want) {
		t.Errorf("the broker keeps %v, want %v", left, want)
	}
}
