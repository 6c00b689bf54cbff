package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// figures of `go test -bench`: benchmark → unit → one value per round.
type figures map[string]map[string][]float64

// A suite is one package's benchmarks; all suites of a group take turns, so
// that a slow minute of the machine hits both sides of a ratio.
type suite struct{ dir, pkg, regex, time string }

var suites = map[string][]suite{
	"bus":    {{"../..", "./bus", "Publish|Queue", "0.2s"}, {"../..", "./bus", "Latency", "2s"}},
	"board":  {{"../..", "./blackboard", ".", "0.2s"}},
	"script": {{"../..", "./starlark/lib", "Handler", "0.5s"}, {".", "./lua", ".", "0.2s"}},
	"hw":     {{"../..", "./hw", "Stop", "1s"}},
	"models": {
		{"../..", "./agent/llm", "Turn", "0.2s"}, {"../..", "./agent/llm/intent", "Compile1000|Match", "0.2s"},
		{"../..", "./agent/llm/builtin", "Token|Score", "0.2s"}, {"../..", "./hw/stopword", "Stops", "0.2s"},
	},
	"society":  {{"../..", "./workflow/society", ".", "0.2s"}, {"../..", "./workflow/graph", ".", "0.2s"}},
	"workflow": {{"../..", "./workflow", ".", "0.2s"}, {"../..", "./starlark/lib", "Flow", "0.2s"}},
}

func micro(group string) func(*bench) error {
	return func(b *bench) error {
		f := figures{}
		for range b.rounds {
			for _, s := range suites[group] {
				if err := s.run(f); err != nil {
					return err
				}
			}
		}
		for _, r := range rules[group] {
			b.add(r.row(group, f))
		}
		return nil
	}
}

func (s suite) run(f figures) error {
	cmd := exec.Command("go", "test", "-run", "^$", "-bench", s.regex, "-benchtime", s.time, "-benchmem", s.pkg)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %v\n%s", s.pkg, err, out)
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		p := strings.Fields(lines.Text())
		if len(p) < 4 || !strings.HasPrefix(p[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(p[0], "Benchmark")
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			if _, err := strconv.Atoi(name[i+1:]); err == nil {
				name = name[:i]
			}
		}
		if f[name] == nil {
			f[name] = map[string][]float64{}
		}
		for i := 2; i+1 < len(p); i += 2 {
			if v, err := strconv.ParseFloat(p[i], 64); err == nil {
				f[name][p[i+1]] = append(f[name][p[i+1]], v)
			}
		}
	}
	return lines.Err()
}

// A rule makes a row of two benchmarks: edged's figure, the other's, and what
// their ratio must be. Without an other, the figure itself is held to max.
type rule struct {
	what, edged, other, unit string
	otherUnit                string  // of the other, where one benchmark measures both in turns
	max, min                 float64 // of the ratio, or of the figure
	allocs                   bool    // and no allocation
	none                     bool    // 0 is a figure
}

func (r rule) row(group string, f figures) row {
	unit := r.unit
	if unit == "" {
		unit = "ns/op"
	}
	otherUnit := r.otherUnit
	if otherUnit == "" {
		otherUnit = unit
	}
	v, o := median(f[r.edged][unit]), median(f[r.other][otherUnit])
	out := row{group: group, what: r.what, value: fmt.Sprintf("%.4g %s", v, unit), ok: true}
	x := v
	if r.other != "" {
		out.against = fmt.Sprintf("%.4g %s", o, unit)
		if o > 0 {
			out.ratio = v / o
		}
		x = out.ratio
	}
	times := map[bool]string{true: "×"}[r.other != ""]
	switch {
	case r.max > 0:
		out.goal, out.ok = fmt.Sprintf("≤ %g%s", r.max, times), (x > 0 || r.none) && x <= r.max
	case r.min > 0:
		out.goal, out.ok = fmt.Sprintf("≥ %g%s", r.min, times), x >= r.min
	}
	if r.allocs {
		n := median(f[r.edged]["allocs/op"])
		out.goal += ", 0 allocations"
		out.value += fmt.Sprintf(", %g allocs", n)
		out.ok = out.ok && n == 0
	}
	if len(f[r.edged][unit]) == 0 {
		out.value, out.ok = "no such benchmark: "+r.edged, false
	}
	return out
}

var rules = map[string][]rule{
	"bus": {
		{what: "publish → 1 handler inside the bus, exact topic; limit: copy-on-write map of callbacks",
			edged: "Publish/edged", other: "Publish/limit", max: 4, allocs: true},
		{what: "1 of 1,000 wildcard filters matches, 64 topics; against the exact case",
			edged: "Publish/edged-wildcard-1-of-1000", other: "Publish/edged", max: 4, allocs: true},
		{what: "publish → bounded queue → handler; limit: Go channel of the same capacity",
			edged: "Queue/edged", other: "Queue/limit", max: 1.5},
		{what: "the same by Handle, which gives every event a context that names the cause", edged: "Queue/edged-handle", other: "Queue/limit"},
		{what: "the same at 2,000/s, p50", edged: "Latency", other: "Latency", unit: "p50-ns", otherUnit: "limit-p50-ns", max: 1.5},
		{what: "the same at 2,000/s, p99", edged: "Latency", other: "Latency", unit: "p99-ns", otherUnit: "limit-p99-ns", max: 1.5},
	},
	"board": {
		{what: "blackboard set with a watcher; limit: map with RWMutex", edged: "SetWatched/edged", other: "SetWatched/limit", max: 4},
		{what: "blackboard get; limit: map with RWMutex", edged: "Get/edged", other: "Get/limit", max: 3},
		{what: "post_request → reply, inline", edged: "Request/edged", max: 400},
		{what: "the same with a deadline", edged: "Request/edged-deadline", max: 800},
		{what: "the same across goroutines, p50; limit: a channel", edged: "RequestAcross", other: "RequestAcross", unit: "p50-ns", otherUnit: "limit-p50-ns", max: 2.2},
		{what: "bytes written per set, 100/s over 50 keys, default mode (wchar); limit: one bbolt transaction per set",
			edged: "Bytes/edged", other: "Bytes/limit-per-set", unit: "B/set", max: 1.0 / 40},
		{what: "sync sets, 32 writers; limit: bbolt.Batch", edged: "Sync/32-writers/edged", other: "Sync/32-writers/limit-batch", unit: "sets/s", min: 2},
		{what: "sync sets, 1 writer; limit: one bbolt commit", edged: "Sync/1-writers/edged", other: "Sync/1-writers/limit-update", unit: "sets/s", min: 0.9},
	},
	"script": {
		{what: "event → Starlark handler → result (`e[\"t\"] > 30`), limits and cancel on; limit: bare starlark.Call with a prebuilt value",
			edged: "Handler/edged", other: "Handler/limit", max: 2.5},
		{what: "the same; peer: gopher-lua with the table built", edged: "Handler/edged", other: "HandlerLua", max: 0.5},
		{what: "the same handler on two cores against one, events per second", edged: "Handler/scale", unit: "speed-up", min: 1.6},
		{what: "the same of a bare starlark.Call: what the machine gives", edged: "Handler/scale", unit: "limit-speed-up"},
	},
	"hw": {
		{what: "stop → 20 actuators at rest, p99, idle processors", edged: "Stop/edged/hogs=0", unit: "p99-µs", max: 50000},
		{what: "the same beside 16 busy goroutines", edged: "Stop/edged/hogs=16", unit: "p99-µs", max: 50000},
	},
	"models": {
		{what: "an agent's turn with one tool call, the model's time excluded", edged: "Turn", max: 50_000},
		{what: "1,000 sentences with slots compiled", edged: "Compile1000", max: 200e6},
		{what: "a sentence understood", edged: "Match/long", max: 20_000},
		{what: "a sentence misheard", edged: "Match/misheard", max: 20_000},
		{what: "a sentence declined", edged: "Match/near", max: 20_000},
		{what: "builtin model, one core", edged: "Token", unit: "tokens/s", min: 3000, allocs: true},
		{what: "builtin model: exact calls, phrasings as in training", edged: "Score", unit: "seen-%", min: 97},
		{what: "builtin model: exact calls, phrasings held out", edged: "Score", unit: "held-%", min: 80},
		{what: "builtin model: wrong motion, on sentences that must move nothing", edged: "Score", unit: "wrong-motion-%", max: 2, none: true},
	},
	"workflow": {
		{what: "a workflow node in Go", edged: "Node/edged/nodes", unit: "ns/node", max: 300},
		{what: "a tick of the 101-node tree, leaves in Go, per node", edged: "Tick101/edged", unit: "ns/node", max: 70},
		{what: "a node with one leaf in Starlark, both told on the bus and recorded", edged: "FlowNode/edged/each", unit: "ns/node", max: 3000},
		{what: "a tick of the 101-node tree, leaves in Starlark, per node", edged: "FlowTick101/edged", unit: "ns/node", max: 70},
		{what: "guard turned false → child cancelled, p99", edged: "GuardCancel", unit: "p99-ns", max: 100_000},
		{what: "10,000 stored runs listed", edged: "RunsList/edged", unit: "ms/list", max: 100},
	},
	"society": {
		{what: "a turn of an interaction, 20 artifacts in its prompt, the model's time excluded", edged: "Turn", unit: "ns/turn", max: 100_000},
		{what: "an auction among 100 functions", edged: "Auction", max: 5e6},
		{what: "a step of a graph, no checkpoint", edged: "Step/none", unit: "ns/step", max: 20_000},
		{what: "a step of a graph, checkpoint after each node; limit: one durable record", edged: "Step/node", other: "Step/commit", unit: "ns/step", max: 1.5},
		{what: "a graph of 1,000 nodes checked", edged: "Check", unit: "ms/check", max: 50},
	},
	"agents": {
		{what: "1,000 idle background agents, each", edged: "IdleAgents/1000/edged", unit: "B/agent", max: 8192},
		{what: "10,000 idle background agents, each", edged: "IdleAgents/10000/edged", unit: "B/agent", max: 8192},
	},
}
