package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"edged/bus/mqtt"
	"edged/cmd/edged/internal/config"
	"edged/hw"
)

// What Home Assistant is told: the devices of edged.toml that are one reading
// or follow one topic, the stop, and what [[mqtt.entities]] adds or says in
// other words.

// sensorEntity is a sensor as Home Assistant shows it.
func sensorEntity(name, unit string) mqtt.Entity {
	return mqtt.Entity{Kind: "sensor", ID: name, State: "hw/" + name, Unit: unit, Template: "{{ value_json.value }}"}
}

// outputEntity is an actuator that follows a topic: a switch between its
// largest value and rest. What it shows is what the device was told.
func outputEntity(name, topic string, r hw.Range) mqtt.Entity {
	on, off := strconv.FormatFloat(r.Max, 'g', -1, 64), strconv.FormatFloat(r.Rest, 'g', -1, 64)
	if r.Rest == r.Max {
		off = strconv.FormatFloat(r.Min, 'g', -1, 64)
	}
	return mqtt.Entity{
		Kind: "switch", ID: name, State: "hw/" + name + "/set", Command: topic, On: on, Off: off,
		Template: fmt.Sprintf("{{ %s if value_json.command is defined and value_json.command.value != %s else %s }}", on, off, off),
	}
}

// stopEntity stops the robot. There is none that lets it go on: who does that
// should see the robot.
func stopEntity() mqtt.Entity {
	return mqtt.Entity{Kind: "button", ID: "stop", Name: "Stop", Command: hw.StopTopic, Icon: "mdi:stop-circle", Press: `{"reason":"Home Assistant"}`}
}

// discovery is what the settings say about Home Assistant.
func (r *robot) discovery() mqtt.Discovery {
	m := r.cfg.MQTT
	list := slices.Clone(r.devices.entities)
	if m.InPrefix == "" { // else the stop doesn't come in
		list = append(list, stopEntity())
	}
	for _, e := range m.Entities {
		i := slices.IndexFunc(list, func(known mqtt.Entity) bool { return known.ID == e.ID })
		if i < 0 {
			list = append(list, entity(e, mqtt.Entity{}))
			continue
		}
		list[i] = entity(e, list[i])
	}
	return mqtt.Discovery{Enabled: m.Discovery, Node: r.cfg.Name, Entities: list, Memory: r.board.Records("discovery")}
}

// entity is what the settings say; what they leave out is as in known.
func entity(e config.Entity, known mqtt.Entity) mqtt.Entity {
	return mqtt.Entity{
		Kind: cmp.Or(e.Kind, known.Kind), ID: e.ID, Name: cmp.Or(e.Name, known.Name),
		State: cmp.Or(e.State, known.State), Command: cmp.Or(e.Command, known.Command),
		Unit: cmp.Or(e.Unit, known.Unit), Class: cmp.Or(e.Class, known.Class),
		Template: cmp.Or(e.Template, known.Template), Icon: cmp.Or(e.Icon, known.Icon),
		On: cmp.Or(e.On, known.On), Off: cmp.Or(e.Off, known.Off), Press: cmp.Or(e.Press, known.Press),
	}
}
