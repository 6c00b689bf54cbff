package main

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"edged/background"
	"edged/cmd/edged/internal/config"
)

// What there is to count, in Prometheus' text format.

// exposition collects metrics; those of one name stand together.
type exposition struct {
	order []string
	lines map[string][]string
	kind  map[string]string
}

// add notes a value; labels are pairs of a name and its value. What ends in
// _total is a counter, the rest is a gauge.
func (x *exposition) add(name string, v float64, labels ...string) {
	if _, known := x.lines[name]; !known {
		x.order = append(x.order, name)
	}
	line := name
	if len(labels) > 0 {
		var pairs []string
		for i := 0; i+1 < len(labels); i += 2 {
			pairs = append(pairs, labels[i]+`="`+labelText.Replace(labels[i+1])+`"`)
		}
		line += "{" + strings.Join(pairs, ",") + "}"
	}
	line += " " + strconv.FormatFloat(v, 'g', -1, 64)
	if !slices.Contains(x.lines[name], line) {
		x.lines[name] = append(x.lines[name], line)
	}
}

var labelText = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func (x *exposition) bytes() []byte {
	var b bytes.Buffer
	for _, name := range x.order {
		kind := "gauge"
		if strings.HasSuffix(name, "_total") {
			kind = "counter"
		}
		fmt.Fprintf(&b, "# TYPE %s %s\n", name, kind)
		for _, l := range x.lines[name] {
			b.WriteString(l + "\n")
		}
	}
	return b.Bytes()
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (r *robot) metrics() []byte {
	x := &exposition{lines: map[string][]string{}}
	s := r.status()
	x.add("edged_info", 1, "name", s.Name, "version", s.Version, "script", fmt.Sprintf("%.12s", s.Scripts.Hash))
	x.add("edged_uptime_seconds", s.Uptime)
	x.add("edged_stopped", truth(s.Stop != nil))
	x.add("edged_reload_refused", truth(s.Reload != ""))
	x.add("edged_memory_resident_bytes", float64(s.Memory.Resident))
	x.add("edged_memory_heap_bytes", float64(s.Memory.Heap))
	x.add("edged_goroutines", float64(s.Memory.Goroutines))
	x.add("edged_gc_collections_total", float64(s.Memory.Collections))
	x.ofMachine(s.Machine)
	x.ofBus(&s)
	x.ofScripts(&s)
	x.ofDevices(&s)
	x.ofLinks(&s)
	q := r.questions()
	x.add("edged_questions_open", float64(len(q.Confirm)), "kind", "confirm")
	x.add("edged_questions_open", float64(len(q.Answer)), "kind", "answer")
	x.add("edged_page_viewers", float64(s.Page.Clients))
	x.ofTree(s.Tree)
	if s.Scripts.Background != nil {
		x.ofTree(*s.Scripts.Background)
	}
	return x.bytes()
}

func (x *exposition) ofMachine(m machineUse) {
	for _, one := range []struct {
		name string
		v    *float64
	}{{"cpu_percent", m.CPU}, {"load", m.Load}, {"temperature_celsius", m.Temp}} {
		if one.v != nil {
			x.add("edged_machine_"+one.name, *one.v)
		}
	}
}

func (x *exposition) ofBus(s *status) {
	var lost uint64
	for _, q := range s.Bus.Subscriptions {
		lost += q.DropOldest + q.DropNew
	}
	x.add("edged_bus_events_total", float64(s.Bus.Published))
	x.add("edged_bus_errors_total", float64(s.Bus.Errors))
	x.add("edged_bus_lost_total", float64(lost))
	x.add("edged_bus_overload_total", float64(s.Bus.Overload))
	x.add("edged_bus_storms_total", float64(s.Bus.Storms))
	x.add("edged_bus_retained", float64(s.Bus.Retained))
	x.add("edged_bus_retained_bytes", float64(s.Bus.RetainedBytes))
	x.add("edged_bus_unkept_total", float64(s.Bus.Unkept))
	x.add("edged_bus_pending", float64(s.Bus.Pending))
	x.add("edged_board_keys", float64(s.Board.Keys))
	x.add("edged_board_sets_total", float64(s.Board.Sets))
	x.add("edged_board_commits_total", float64(s.Board.Commits))
	x.add("edged_board_dirty", float64(s.Board.Dirty))
	x.add("edged_board_requests", float64(s.Board.Requests))
	x.add("edged_board_trouble", truth(s.Board.Trouble != ""))
	x.add("edged_board_damages", float64(len(s.Board.Damages)))
	if s.Trace != nil {
		x.add("edged_trace_events_total", float64(s.Trace.Recorded))
		x.add("edged_trace_lost_total", float64(s.Trace.Lost))
	}
}

func (x *exposition) ofScripts(s *status) {
	runs, errors, dropped := map[[2]string]uint64{}, map[[2]string]uint64{}, map[[2]string]uint64{}
	var order [][2]string
	for _, h := range s.Scripts.Handlers {
		who := [2]string{h.Handler, h.Kind}
		if _, known := runs[who]; !known {
			order = append(order, who)
		}
		runs[who] += h.Runs
		errors[who] += h.Errors
		dropped[who] += h.Dropped
	}
	for _, who := range order {
		labels := []string{"handler", who[0], "kind", who[1]}
		x.add("edged_handler_runs_total", float64(runs[who]), labels...)
		x.add("edged_handler_errors_total", float64(errors[who]), labels...)
		x.add("edged_handler_dropped_total", float64(dropped[who]), labels...)
	}
	x.add("edged_scripts_running", float64(s.Scripts.Running))
	x.add("edged_scripts_waiting", float64(s.Scripts.Waiting))
}

func (x *exposition) ofDevices(s *status) {
	for _, d := range s.Devices {
		x.add("edged_device_up", truth(d.Error == ""), "device", d.Name, "kind", d.Kind)
		switch v := d.Value.(type) {
		case float64:
			x.add("edged_device_value", v, "device", d.Name, "unit", d.Unit)
		case int64:
			x.add("edged_device_value", float64(v), "device", d.Name, "unit", d.Unit)
		case bool:
			x.add("edged_device_value", truth(v), "device", d.Name, "unit", d.Unit)
		}
	}
}

func (x *exposition) ofLinks(s *status) {
	if q := s.MQTT; q != nil {
		x.add("edged_mqtt_connected", truth(q.Connected))
		x.add("edged_mqtt_in_total", float64(q.In))
		x.add("edged_mqtt_out_total", float64(q.Out))
		x.add("edged_mqtt_waiting", float64(q.Waiting))
		x.add("edged_mqtt_lost_total", float64(q.DropOffline+q.DropSlow+q.DropOldest+q.DropNew+q.TooLarge+q.Refused))
	}
	if q := s.Broker; q != nil {
		x.add("edged_broker_clients", float64(q.Clients))
		x.add("edged_broker_sessions", float64(q.Sessions))
		x.add("edged_broker_subscriptions", float64(q.Subscriptions))
		x.add("edged_broker_waiting", float64(q.Waiting))
		x.add("edged_broker_waiting_bytes", float64(q.WaitingBytes))
		x.add("edged_broker_retained", float64(q.Retained))
		x.add("edged_broker_retained_bytes", float64(q.RetainedBytes))
		x.add("edged_broker_received_total", float64(q.Received))
		x.add("edged_broker_sent_total", float64(q.Sent))
		x.add("edged_broker_lost_total", float64(q.Dropped))
		x.add("edged_broker_refused_total", float64(q.Refused), "what", "connection")
		x.add("edged_broker_refused_total", float64(q.Denied), "what", "message")
		x.add("edged_broker_cut_off_total", float64(q.Slow))
	}
	for _, server := range config.Names(s.Models) {
		x.add("edged_model_running", float64(s.Models[server].Running), "server", server)
		x.add("edged_model_waiting", float64(s.Models[server].Waiting), "server", server)
	}
}

// ofTree counts restarts, and what agents did.
func (x *exposition) ofTree(t background.Status) {
	if t.Kind != "supervisor" {
		x.add("edged_service_up", truth(t.State.Alive()), "name", t.Name)
		x.add("edged_service_restarts_total", float64(t.Restarts), "name", t.Name)
	}
	if d, ok := t.Detail.(background.AgentDetail); ok {
		x.add("edged_agent_runs_total", float64(d.Runs), "agent", t.Name)
		x.add("edged_agent_queued", float64(d.Queue), "agent", t.Name)
		for _, why := range config.Names(d.Drops) {
			x.add("edged_agent_dropped_total", float64(d.Drops[why]), "agent", t.Name, "cause", why)
		}
	}
	for _, child := range t.Children {
		x.ofTree(child)
	}
}
