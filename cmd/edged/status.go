package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"edged/agent/llm"
	"edged/background"
	"edged/blackboard"
	"edged/bus"
	"edged/bus/mqtt"
	"edged/bus/mqtt/broker"
	"edged/bus/trace"
	"edged/cmd/edged/internal/config"
	"edged/cmd/edged/internal/control"
	"edged/hw"
	"edged/starlark/lib"
)

// The verb status and its side in the running robot.

// status is a running robot as it stands.
type status struct {
	Name    string            `json:"name"`
	Dir     string            `json:"dir"`
	PID     int               `json:"pid"`
	Version string            `json:"version"`
	Mode    string            `json:"mode"` // "stopped", else "starting", "dry", "sim" or "run"
	Sim     bool              `json:"sim,omitempty"`
	Dry     bool              `json:"dry,omitempty"`
	Stop    *hw.StopRecord    `json:"stop,omitempty"`
	Time    time.Time         `json:"time"`
	Started time.Time         `json:"started"`
	Uptime  float64           `json:"uptime"` // seconds
	Scripts lib.Summary       `json:"scripts"`
	Reload  string            `json:"reload,omitempty"` // why the last one was refused
	Down    string            `json:"down,omitempty"`   // why isolated scripts are not started again
	Memory  memoryUse         `json:"memory"`
	Machine machineUse        `json:"machine"`
	Bus     bus.Stats         `json:"bus"`
	Board   blackboard.Status `json:"board"`
	Devices []hw.Status       `json:"devices"`
	Link    string            `json:"link"` // to MQTT, in one phrase
	MQTT    *mqtt.Stats       `json:"mqtt,omitempty"`
	Broker  *broker.Stats     `json:"broker,omitempty"` // the one inside
	Aside   []string          `json:"aside,omitempty"`  // what of earlier runs was not taken up
	Trace   *trace.Stats      `json:"trace,omitempty"`
	Page    pageState         `json:"page"`
	Audit   auditState        `json:"audit"`
	Data    string            `json:"data,omitempty"` // why it works in a spare data folder, if it does

	Models map[string]llm.QueueStatus `json:"models,omitempty"` // who waits for which server
	Tree   background.Status          `json:"tree"`
}

// memoryUse is what the process takes, in bytes, beside what it aims at.
type memoryUse struct {
	Resident    int64   `json:"resident,omitempty"`
	Heap        uint64  `json:"heap"`
	Go          uint64  `json:"go"` // all that the Go runtime has from the system
	Goroutines  uint64  `json:"goroutines"`
	Collections uint64  `json:"collections"`
	Pause       float64 `json:"pause"` // no garbage collection was longer, seconds
	Limit       int64   `json:"limit"`
	GC          int     `json:"gc"` // percent
	Aim         string  `json:"aim"`
}

func (r *robot) handleStatus(_ context.Context, _ json.RawMessage, send func(any) error) error {
	return send(r.status())
}

func (r *robot) status() status {
	running, refused := r.scripts.behaviour()
	s := status{
		Name: r.cfg.Name, Dir: absolute(r.cfg.Dir()), PID: os.Getpid(), Version: version,
		Mode: "run", Sim: r.sim, Dry: r.dry, Time: time.Now().UTC(), Started: r.started.UTC(), Uptime: time.Since(r.started).Seconds(),
		Scripts: running.Summary(), Memory: readMemory(r.memory), Machine: r.machine.read(), Bus: r.bus.Stats(), Board: r.board.Status(),
		Devices: r.rig.Devices(), Link: r.link.line(r.cfg), Aside: r.aside, Page: r.page.state(), Data: r.dataTrouble, Audit: r.audit.state(), Tree: r.tree.Status(),
	}
	s.Down = r.scripts.whyDown()
	if refused != nil {
		s.Reload = text(refused)
	}
	if r.link != nil {
		if st, ok := r.link.Describe().(mqtt.Stats); ok {
			s.MQTT = &st
		}
		s.Broker = r.link.brokerStats()
	}
	s.Models = r.servers.status()
	if r.recorder != nil {
		st := r.recorder.Stats()
		s.Trace = &st
	}
	record, stopped := r.rig.Stopped()
	switch {
	case stopped:
		s.Mode, s.Stop = "stopped", &record
	case !r.isReady():
		s.Mode = "starting"
	case r.dry:
		s.Mode = "dry"
	case r.sim:
		s.Mode = "sim"
	}
	return s
}

// readMemory asks the runtime, without stopping the world.
func readMemory(m memory) memoryUse {
	u := memoryUse{Limit: int64(m.Limit), GC: m.GC, Aim: m.String()}
	list := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"},
		{Name: "/sched/goroutines:goroutines"}, {Name: "/gc/cycles/total:gc-cycles"}, {Name: "/sched/pauses/total/gc:seconds"},
	}
	metrics.Read(list)
	u.Heap, u.Go = list[0].Value.Uint64(), list[1].Value.Uint64()
	u.Goroutines, u.Collections = list[2].Value.Uint64(), list[3].Value.Uint64()
	if h := list[4].Value; h.Kind() == metrics.KindFloat64Histogram {
		u.Pause = longest(h.Float64Histogram())
	}
	if b, err := os.ReadFile("/proc/self/status"); err == nil {
		if f := strings.Fields(string(line(b, "VmRSS:"))); len(f) > 1 {
			kb, _ := strconv.ParseInt(f[1], 10, 64) // 0 is left out
			u.Resident = kb << 10
		}
	}
	return u
}

// longest is the upper bound of the last bucket that has anything in it.
func longest(h *metrics.Float64Histogram) float64 {
	for i := len(h.Counts) - 1; i >= 0; i-- {
		if h.Counts[i] == 0 {
			continue
		}
		if up := h.Buckets[i+1]; !math.IsInf(up, 1) {
			return up
		}
		return h.Buckets[i]
	}
	return 0
}

func (c *cli) statusVerb() *cobra.Command {
	var all bool
	cmd := verb("status", "Tell how the running robot is doing", 0, 0, func(cmd *cobra.Command, args []string) error {
		var b json.RawMessage
		if err := c.call(cmd.Context(), control.Status, nil, &b); err != nil {
			return err
		}
		if c.json { // as the robot said it, which may be a newer one
			return c.print(b, nil)
		}
		var s status
		if err := json.Unmarshal(b, &s); err != nil {
			return fmt.Errorf("status: %w", err)
		}
		return c.print(s, func(w io.Writer) { s.write(w, all) })
	})
	cmd.Long = "Tells the mode of the running robot, its scripts, memory, bus, blackboard, devices, MQTT link and supervision tree.\nOf the handlers and subscriptions those that lost, failed or hold back something are listed, or with --all all."
	cmd.Flags().BoolVar(&all, "all", false, "list every handler and subscription")
	return cmd
}

// write is the status for people: a line a subject, details below it.
func (s *status) write(w io.Writer, all bool) {
	mode := s.Mode
	switch {
	case s.Stop != nil && s.Dry:
		mode += " (dry)"
	case s.Stop != nil && s.Sim:
		mode += " (sim)"
	}
	fmt.Fprintf(w, "%-9s %s, up %s, process %d, %s\n", s.Name, mode, time.Duration(s.Uptime*float64(time.Second)).Round(time.Second), s.PID, s.Dir)
	if s.Stop != nil {
		fmt.Fprintf(w, "STOPPED   by %s at %s: %s; 'edged resume' lets it move\n", s.Stop.Source, s.Stop.Time.Local().Format("15:04:05"), s.Stop.Reason)
	}
	fmt.Fprintf(w, "scripts   %.12s, %d handlers, %d agents, %d running, %d waiting\n", s.Scripts.Hash, len(s.Scripts.Handlers), len(s.Scripts.Agents), s.Scripts.Running, s.Scripts.Waiting)
	if n := s.Scripts.Lost; n > 0 {
		fmt.Fprintf(w, "          %d that waited when a version was replaced were lost: nothing in the new one takes them\n", n)
	}
	s.writeHandlers(w, all)
	if s.Reload != "" {
		fmt.Fprintf(w, "  the last reload was refused, the version before goes on:\n    %s\n", strings.ReplaceAll(s.Reload, "\n", "\n    "))
	}
	if s.Down != "" {
		fmt.Fprintf(w, "  DOWN: %s\n    when they are right again: 'edged reload', then 'edged resume'\n", s.Down)
	}
	m := s.Memory
	fmt.Fprintf(w, "memory    %s resident, heap %s, %s\n", rough(config.Size(m.Resident)), rough(config.Size(m.Heap)), m.Aim)
	fmt.Fprintf(w, "  %d collections, longest pause under %.2f ms, %d goroutines\n", m.Collections, m.Pause*1000, m.Goroutines)
	fmt.Fprintf(w, "machine   %s\n", s.Machine)
	s.writeBus(w, all)
	if s.Data != "" {
		fmt.Fprintf(w, "DATA      %s\n", s.Data)
	}
	b := s.Board
	fmt.Fprintf(w, "board     %s, %d keys, %d changes not on disk yet, %d sets, %d commits, %d requests wait\n", b.Mode, b.Keys, b.Dirty, b.Sets, b.Commits, b.Requests)
	if b.Trouble != "" {
		fmt.Fprintf(w, "  %s\n", b.Trouble)
	}
	for _, d := range b.Damages {
		fmt.Fprintf(w, "  DAMAGED: %s\n", d)
	}
	fmt.Fprintf(w, "devices   %d\n", len(s.Devices))
	writeDevices(w, s.Devices)
	fmt.Fprintf(w, "mqtt      %s\n", s.Link)
	if q := s.MQTT; q != nil {
		state := "connected"
		if !q.Connected {
			state = strings.TrimSuffix("not connected: "+q.Reason, ": ")
		}
		fmt.Fprintf(w, "  %s, %d in, %d out, %d wait, %d lost, %d malformed\n", state, q.In, q.Out, q.Waiting,
			q.DropOffline+q.DropSlow+q.DropOldest+q.DropNew+q.TooLarge+q.Refused, q.Malformed)
	}
	if q := s.Broker; q != nil {
		fmt.Fprintf(w, "  %d clients, %d sessions, %d subscriptions, %d wait, %d kept, %d lost, %d connections and %d messages refused, %d cut off\n",
			q.Clients, q.Sessions, q.Subscriptions, q.Waiting, q.Retained, q.Dropped, q.Refused, q.Denied, q.Slow)
	}
	for _, why := range s.Aside {
		fmt.Fprintf(w, "aside     %s\n", why)
	}
	fmt.Fprintf(w, "page      %s\n", s.Page)
	fmt.Fprintf(w, "audit     %s\n", count(int(s.Audit.End.Seq), "line"))
	if s.Audit.Trouble != "" {
		fmt.Fprintf(w, "  %s\n", s.Audit.Trouble)
	}
	for _, server := range config.Names(s.Models) {
		q := s.Models[server]
		fmt.Fprintf(w, "models    %s: %d running, %d wait\n", server, q.Running, q.Waiting)
	}
	switch t := s.Trace; {
	case t == nil:
		fmt.Fprintln(w, "trace     off")
	case t.Trouble != "":
		fmt.Fprintf(w, "trace     nothing can be written: %s\n", t.Trouble)
	default:
		fmt.Fprintf(w, "trace     %d events recorded, %d lost\n", t.Recorded, t.Lost)
	}
	fmt.Fprintln(w, "tree")
	writeTree(w, "  ", s.Tree)
	if s.Scripts.Background != nil {
		writeTree(w, "  ", *s.Scripts.Background)
	}
}

// writeHandlers lists what is called back by events, time, changes and requests.
func (s *status) writeHandlers(w io.Writer, all bool) {
	for _, h := range s.Scripts.Handlers {
		if all || h.Dropped+h.Collapsed+h.Errors > 0 || h.Queued > 0 {
			fmt.Fprintf(w, "  %-9s %s: %s, %d runs, %d wait, %d refused, %d lost, %d merged, %d errors\n",
				h.Kind, strings.Join(h.What, " "), h.Handler, h.Runs, h.Queued, h.Refused, h.Dropped, h.Collapsed, h.Errors)
		}
	}
}

func (s *status) writeBus(w io.Writer, all bool) {
	fmt.Fprintf(w, "bus       %d events, %d errors, %d storms, %d refused, %d subscriptions, %d retained, %d not kept, %d timers\n",
		s.Bus.Published, s.Bus.Errors, s.Bus.Storms, s.Bus.Overload, len(s.Bus.Subscriptions), s.Bus.Retained, s.Bus.Unkept, s.Bus.Timers)
	for _, q := range s.Bus.Subscriptions {
		lost := q.DropOldest + q.DropNew
		if all || lost+q.Errors+q.Discarded > 0 || q.Queued > 0 {
			fmt.Fprintf(w, "  %-24s %s: %d of %d queued, %d taken, %d lost, %d replaced, %d errors\n",
				q.Filter, cmp.Or(q.Name, "no name"), q.Queued, q.Limit, q.Taken, lost, q.Replaced, q.Errors)
		}
	}
}

// writeDevices lists devices with what they read or were told last.
func writeDevices(w io.Writer, list []hw.Status) {
	for _, d := range list {
		kind := d.Kind
		if d.Simulated {
			kind = "simulated " + kind
		}
		state := "nothing yet"
		switch {
		case d.Error != "":
			state = "FAILED: " + d.Error
		case d.AtRest:
			state = "at rest"
		case d.Value != nil:
			b := trace.Line{Payload: json.RawMessage(compact(d.Value))}
			state = strings.TrimSpace(b.Text(60) + " " + d.Unit)
		}
		if d.Quality != "" && d.Quality != hw.Good {
			state += fmt.Sprintf(" (%s)", d.Quality)
		}
		if d.Goal != "" {
			state += ", goal " + d.Goal
		}
		fmt.Fprintf(w, "  %-20s %-20s %s\n", d.Name, kind, state)
	}
}

// writeTree writes a supervision tree, a child indented under its parent.
func writeTree(w io.Writer, in string, t background.Status) {
	fmt.Fprintf(w, "%s%s: %s", in, t.Name, t.State)
	if t.Restarts > 0 {
		fmt.Fprintf(w, ", %d restarts", t.Restarts)
	}
	if t.NextRetry != nil {
		fmt.Fprintf(w, ", next try at %s", t.NextRetry.Local().Format("15:04:05"))
	}
	if t.GaveUp != nil {
		fmt.Fprintf(w, ", gave up %s, last at %s", count(t.GiveUps, "time"), t.GaveUp.Local().Format(time.DateTime))
	}
	if t.Lingering {
		fmt.Fprint(w, ", a run that ignored its stop lingers")
	}
	if t.LastError != "" {
		fmt.Fprintf(w, ", last error: %s", t.LastError)
	}
	fmt.Fprintln(w)
	for _, child := range t.Children {
		writeTree(w, in+"  ", child)
	}
}
