package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// mosquitto starts the real broker with the settings that our doc recommends.
func (b *bench) mosquitto() (addr string, stop func(), err error) {
	if addr, err = freePort(); err != nil {
		return "", nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	conf := filepath.Join(b.bin, "mosquitto-"+port+".conf")
	text := "listener " + port + " 127.0.0.1\nallow_anonymous true\npersistence false\nlog_type error\n" +
		"max_queued_messages 100000\nmax_inflight_messages 0\nset_tcp_nodelay true\n"
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		return "", nil, err
	}
	path, err := exec.LookPath("mosquitto")
	if err != nil {
		if path = "/usr/sbin/mosquitto"; !exists(path) {
			return "", nil, fmt.Errorf("mosquitto is missing: run `make peers`")
		}
	}
	p, err := b.spawn(".", path, "-c", conf)
	if err != nil {
		return "", nil, err
	}
	if err := reachable(addr); err != nil {
		p.stop()
		return "", nil, err
	}
	return addr, p.stop, nil
}

func reachable(addr string) error {
	for range 500 {
		if c, err := net.Dial("tcp", addr); err == nil {
			return c.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("nothing listens on %s", addr)
}

// run is what one engine did in one round.
type run struct {
	P50   float64 `json:"p50_us"`
	P99   float64 `json:"p99_us"`
	Rate  float64 `json:"msg_per_s"`
	Got   int     `json:"got"`
	Error string
	rss   float64
}

// probe runs the probe on the programs behind some brokers.
func (b *bench) probe(addrs []string, args ...string) ([]run, error) {
	out, err := exec.Command(b.bin+"/probe", append(args, addrs...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("probe: %w: %s", err, out)
	}
	var runs []run
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var r run
		if err := d.Decode(&r); err != nil {
			return nil, fmt.Errorf("probe: %w: %s", err, out)
		}
		runs = append(runs, r)
	}
	if len(runs) != len(addrs) {
		return nil, fmt.Errorf("probe: %s", out)
	}
	return runs, nil
}

// An engine is a program that does sensor → rule → actuator over MQTT.
type engine struct {
	name string
	args func(addr string) ([]string, string, error) // arguments, folder
	own  bool                                        // brings its own broker
}

// mqttFigures: all engines run, each with a broker of its own; the latency of
// each is measured by lot. Then each is flooded, while the others stand still.
func mqttFigures(b *bench) error {
	robot := func(embedded bool) func(string) ([]string, string, error) {
		return func(addr string) ([]string, string, error) {
			dir, err := b.robot(1, addr, embedded)
			return []string{"edged", "run", dir}, ".", err
		}
	}
	engines := []engine{
		{"limit", func(addr string) ([]string, string, error) { return []string{"rule", "-addr", addr}, ".", nil }, false},
		{"edged", robot(false), false},
		{"embedded", robot(true), true},
	}
	if nodeRED() == nil {
		engines = append(engines, engine{"node-red", nodeREDArgs(b), false})
	} else {
		fmt.Fprintln(os.Stderr, "bench: node-red is left out:", nodeRED())
	}
	slow, flood := map[string][]run{}, map[string][]run{}
	for range b.rounds {
		if err := b.round(engines, slow, flood); err != nil {
			return err
		}
	}
	p50 := func(n string) float64 { return pick(slow[n], func(r run) float64 { return r.P50 }) }
	rate := func(n string) float64 { return pick(flood[n], func(r run) float64 { return r.Rate }) }
	rss := func(n string) float64 { return pick(flood[n], func(r run) float64 { return r.rss }) }
	ratio := func(what, unit string, v, o float64, goal string, ok func(float64) bool) {
		b.add(row{group: "mqtt", what: what, value: fmt.Sprintf("%.0f %s", v, unit), against: fmt.Sprintf("%.0f %s", o, unit),
			ratio: v / o, goal: goal, ok: ok(v / o)})
	}
	ratio("MQTT in → script → MQTT out at 100/s, p50, mosquitto outside; limit: minimal Go + paho", "µs", p50("edged"), p50("limit"), "≤ 1.15×", func(x float64) bool { return x <= 1.15 })
	ratio("the same, flood with 200 outstanding", "msg/s", rate("edged"), rate("limit"), "≥ 0.85×", func(x float64) bool { return x >= 0.85 })
	if len(slow["node-red"]) > 0 {
		ratio("the same at 100/s, p50; peer: Node-RED", "µs", p50("edged"), p50("node-red"), "≤ 0.5×", func(x float64) bool { return x <= 0.5 })
		ratio("peak resident memory (edged set up as on a board with 1 GiB); peer: Node-RED", "MB", rss("edged"), rss("node-red"), "≤ 1/6×", func(x float64) bool { return x <= 1.0/6 })
	}
	v := rate("embedded")
	best := max(rate("limit"), rate("edged"), rate("node-red"))
	b.add(row{group: "mqtt", what: "flood with the embedded broker", value: fmt.Sprintf("%.0f msg/s", v), goal: "≥ 60,000 msg/s", ok: v >= 60000})
	ratio("the same; best engine with an outside broker", "msg/s", v, best, "≥ 1.5×", func(x float64) bool { return x >= 1.5 })
	ratio("embedded broker at 100/s, p50; limit: minimal Go + paho with mosquitto", "µs", p50("embedded"), p50("limit"), "≤ 1.15×", func(x float64) bool { return x <= 1.15 })
	return nil
}

func (b *bench) round(engines []engine, slow, flood map[string][]run) error {
	var addrs []string
	var programs []*process
	for _, e := range engines {
		p, addr, stop, err := b.serve(e)
		defer stop()
		if err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		addrs, programs = append(addrs, addr), append(programs, p)
	}
	runs, err := b.probe(addrs, "-rate", "100", "-n", "500")
	if err != nil {
		return err
	}
	signal := func(s syscall.Signal) {
		for _, p := range programs {
			_ = p.cmd.Process.Signal(s)
		}
	}
	signal(syscall.SIGSTOP)
	defer signal(syscall.SIGCONT)
	for i, e := range engines {
		_ = programs[i].cmd.Process.Signal(syscall.SIGCONT)
		var floods []run
		for range 3 { // the first is of a cold program
			f, err := b.probe(addrs[i:i+1], "-n", "20000", "-window", "200")
			if err != nil {
				return fmt.Errorf("%s: %w", e.name, err)
			}
			if f[0].Got != 20000 || runs[i].Got != 500 {
				return fmt.Errorf("%s: lost messages: %d of 500, %d of 20000 came", e.name, runs[i].Got, f[0].Got)
			}
			floods = append(floods, f[0])
		}
		peak := status(programs[i].cmd.Process.Pid, "VmHWM") / 1024
		for k := range floods {
			floods[k].rss = peak
		}
		_ = programs[i].cmd.Process.Signal(syscall.SIGSTOP)
		slow[e.name], flood[e.name] = append(slow[e.name], runs[i]), append(flood[e.name], floods...)
	}
	return nil
}

// serve starts an engine with its broker; stop ends what was started.
func (b *bench) serve(e engine) (p *process, addr string, stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, f := range slices.Backward(stops) {
			f()
		}
	}
	if e.own {
		addr, err = freePort()
	} else {
		var end func()
		if addr, end, err = b.mosquitto(); err == nil {
			stops = append(stops, end)
		}
	}
	if err != nil {
		return
	}
	argv, dir, err := e.args(addr)
	if err != nil {
		return
	}
	if p, err = b.spawn(dir, argv[0], argv[1:]...); err != nil {
		return
	}
	stops = append(stops, p.stop)
	err = reachable(addr)
	return
}

func pick(runs []run, f func(run) float64) float64 {
	var v []float64
	for _, r := range runs {
		v = append(v, f(r))
	}
	return median(v)
}

// nodeRED says whether the peer is installed: `npm install` in nodered/.
func nodeRED() error {
	if !exists("nodered/node_modules/node-red/red.js") {
		return fmt.Errorf("run `npm install --prefix tests/bench/nodered`")
	}
	return nil
}

// nodeREDArgs writes the flow with the broker's port in it.
func nodeREDArgs(b *bench) func(string) ([]string, string, error) {
	return func(addr string) ([]string, string, error) {
		dir, err := os.MkdirTemp(b.bin, "nodered")
		if err != nil {
			return nil, "", err
		}
		_, port, _ := net.SplitHostPort(addr)
		ui, err := freePort()
		if err != nil {
			return nil, "", err
		}
		_, uiPort, _ := net.SplitHostPort(ui)
		flow := []map[string]any{
			{"id": "tab", "type": "tab", "label": "rule"},
			{"id": "b", "type": "mqtt-broker", "broker": "127.0.0.1", "port": port, "clientid": "nr", "autoConnect": true,
				"usetls": false, "protocolVersion": "4", "keepalive": "60", "cleansession": true},
			{"id": "in", "type": "mqtt in", "z": "tab", "topic": "sensors/t", "qos": "0", "datatype": "json", "broker": "b",
				"nl": false, "rap": true, "rh": 0, "inputs": 0, "wires": []any{[]any{"fn"}}},
			{"id": "fn", "type": "function", "z": "tab", "outputs": 1,
				"func": "if (msg.payload.t > 30) { return {payload: {on: true, n: msg.payload.n}}; }", "wires": []any{[]any{"out"}}},
			{"id": "out", "type": "mqtt out", "z": "tab", "topic": "actuators/fan", "qos": "0", "retain": "false", "broker": "b", "wires": []any{}},
		}
		text, err := json.Marshal(flow)
		if err != nil {
			return nil, "", err
		}
		settings := `module.exports={uiHost:"127.0.0.1",uiPort:` + uiPort + `,flowFile:"flows.json",credentialSecret:false,` +
			`telemetry:{enabled:false},logging:{console:{level:"warn"}},externalModules:{autoInstall:false},diagnostics:{enabled:false}}`
		if err := os.WriteFile(filepath.Join(dir, "flows.json"), text, 0o644); err != nil {
			return nil, "", err
		}
		if err := os.WriteFile(filepath.Join(dir, "settings.js"), []byte(settings), 0o644); err != nil {
			return nil, "", err
		}
		red, err := filepath.Abs("nodered/node_modules/node-red/red.js")
		return []string{"node", red, "-u", dir}, ".", err
	}
}
