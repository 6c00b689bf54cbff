package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"edged/background"
	"edged/bus"
	"edged/bus/trace"
	"edged/cmd/edged/internal/control"
	"edged/hw"
	"edged/starlark/lib"
	"edged/starlark/value"
)

// The verb why: why something ran, or why it did not, from the record and from
// the counters of the robot that runs. What can't be told apart from outside is
// said as what it may be.

// answer is why something ran or did not.
type answer struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind"` // "handler", "agent", "device", "topic"
	What    string   `json:"what,omitempty"`
	Ran     bool     `json:"ran"`
	Reasons []reason `json:"reasons"`
}

// reason is one thing that answers why. Why is "ran", "failed", "busy",
// "stopped", "nobody-published", "filter", "ignored", "queue-full" or "state".
type reason struct {
	Why   string `json:"why"`
	Text  string `json:"text"`
	Event uint64 `json:"event,omitempty"` // to look at with edged trace
}

func (a *answer) add(why, format string, args ...any) {
	a.Reasons = append(a.Reasons, reason{Why: why, Text: fmt.Sprintf(format, args...)})
	a.Ran = a.Ran || why == "ran"
}

// because adds what an event tells.
func (a *answer) because(n *trace.Node, why, format string, args ...any) {
	a.add(why, format, args...)
	a.Reasons[len(a.Reasons)-1].Event = n.Seq
}

// evidence is what answers are drawn from.
type evidence struct {
	tree    *trace.Tree
	scripts lib.Summary
	subs    []bus.SubscriptionStats // this and the rest only while it runs
	devices []hw.Status
	stop    *hw.StopRecord
}

// explain answers for everything that bears a name.
func (e *evidence) explain(name string) ([]answer, error) {
	var list []answer
	for _, h := range e.scripts.Handlers {
		if h.Handler == name {
			list = append(list, e.handler(h))
		}
	}
	if slices.Contains(e.scripts.Agents, name) {
		list = append(list, e.agent(name))
	}
	if a, ok := e.device(name); ok {
		list = append(list, a)
	}
	if len(list) == 0 && (strings.ContainsAny(name, "/+#*") || e.tree.Last(name) != nil) && bus.ValidFilter(name) == nil {
		list = append(list, e.topic(name))
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("why: no handler, agent, device or topic is called %q%s", name, perhaps(name, e.names()))
	}
	if e.stop != nil {
		for i := range list {
			list[i].add("stopped", "the robot is stopped by %s since %s: %s; nothing moves before 'edged resume'", e.stop.Source, e.stop.Time.Local().Format("15:04:05"), e.stop.Reason)
		}
	}
	return list, nil
}

func (e *evidence) names() []string {
	names := slices.Clone(e.scripts.Agents)
	for _, h := range e.scripts.Handlers {
		names = append(names, h.Handler)
	}
	for _, d := range e.devices {
		names = append(names, d.Name)
	}
	return append(names, topics(e.tree)...)
}

func (e *evidence) handler(h lib.HandlerSummary) answer {
	a := answer{Name: h.Handler, Kind: "handler", What: fmt.Sprintf("%s %s, %s", h.Kind, strings.Join(h.What, " "), h.At)}
	if h.Kind == "timer" {
		a.add("state", "it runs by time: %s", strings.Join(h.What, " "))
		if h.Dropped > 0 {
			a.add("ignored", "its time came %d times while it still ran, and was passed over", h.Dropped)
		}
		return a
	}
	heard := e.heard(&a, filters(h))
	name := func(s bus.SubscriptionStats) bool {
		return strings.HasSuffix(s.Name, ":"+h.Handler) && s.Filter == h.What[0]
	}
	i := slices.IndexFunc(e.subs, name)
	if h.Kind != "on" || i < 0 { // no counters: what it listens to is all that is known
		if heard != nil {
			a.because(heard, "state", "what it listens to came last at %s: %s", at(heard), heard.Reason())
		}
		e.failures(&a)
		return a
	}
	s := e.subs[i]
	e.counted(&a, s, heard)
	lost := s.DropOldest + s.DropNew
	if ignored := h.Dropped - min(h.Dropped, lost); ignored > 0 {
		a.add("ignored", "%s came while it ran, and its mode ignores those", count(int(ignored), "event"))
	}
	e.failures(&a)
	return a
}

// filters are the topics that bring a handler to run.
func filters(h lib.HandlerSummary) []string {
	prefix := map[string]string{"watch": "board/", "volunteer": "request/"}[h.Kind]
	var list []string
	for _, f := range h.What {
		if rest, ok := strings.CutSuffix(prefix+f, "*"); ok && prefix != "" {
			f = rest[:strings.LastIndex(rest, "/")+1] + "#" // as near as a filter comes to it
		} else {
			f = prefix + f
		}
		list = append(list, f)
	}
	return list
}

// heard is the last event that matches, or nil; then it is said what came
// instead.
func (e *evidence) heard(a *answer, filters []string) *trace.Node {
	var last *trace.Node
	for _, f := range filters {
		if n := e.tree.Last(f); n != nil && (last == nil || n.Time.After(last.Time)) {
			last = n
		}
	}
	if last != nil {
		return last
	}
	a.add("nobody-published", "nobody published %s as far back as the record goes", strings.Join(filters, " or "))
	for _, f := range filters {
		if near := value.Nearest(f, topics(e.tree)); near != "" {
			n := e.tree.Last(near)
			a.because(n, "filter", "%s was published, last at %s from %s; %s does not match that", near, at(n), n.Source, f)
		}
	}
	return nil
}

// counted says what became of the events that a queue was offered.
func (e *evidence) counted(a *answer, s bus.SubscriptionStats, heard *trace.Node) {
	lost := s.DropOldest + s.DropNew
	switch {
	case s.Taken > 0 && heard != nil:
		a.because(heard, "ran", "it ran %s since it began to listen; the last event for it: %s, at %s", count(int(s.Taken), "time"), heard.Reason(), at(heard))
	case s.Taken > 0:
		a.add("ran", "it ran %s since it began to listen", count(int(s.Taken), "time"))
	case heard != nil && s.Queued == 0 && lost == 0:
		a.because(heard, "ignored", "%s came at %s and was not let in: its where= said no, or it did not listen yet", heard.Topic, at(heard))
	}
	if s.Queued > 0 {
		a.add("busy", "%s for it to end what it does (room for %d)", count(int(s.Queued), "event")+" wait", s.Limit)
	}
	if lost > 0 {
		a.add("queue-full", "%s lost: its queue of %d was full", count(int(lost), "event"), s.Limit)
	}
	if s.Replaced > 0 {
		a.add("queue-full", "%s replaced by newer ones while it ran", count(int(s.Replaced), "event"))
	}
}

// failures says what went wrong under the name, and where.
func (e *evidence) failures(a *answer) {
	var last *trace.Node
	var said struct {
		Source, Error, Script string
		Line                  int
	}
	n := 0
	for _, x := range e.tree.Match(bus.ErrorTopic) {
		one := said
		if json.Unmarshal(x.Payload, &one) == nil && strings.HasSuffix(one.Source, ":"+a.Name) {
			last, said = x, one
			n++
		}
	}
	if n == 0 {
		return
	}
	where := ""
	if said.Script != "" {
		where = fmt.Sprintf(", %s:%d", said.Script, said.Line)
	}
	a.because(last, "failed", "it failed %s, last at %s: %s%s", count(n, "time"), at(last), said.Error, where)
}

func (e *evidence) agent(name string) answer {
	a := answer{Name: name, Kind: "agent"}
	topic := "edged/agent/" + name + "/"
	if n := e.tree.Last(topic + "start"); n != nil {
		text := strings.TrimPrefix(n.Reason(), n.Topic+" ")
		a.because(n, "ran", "it ran, last at %s, %s", at(n), text)
	}
	if n := e.tree.Last(topic + "end"); n != nil {
		a.because(n, "state", "the last run ended: %s", n.Text(200))
	}
	var hears []string
	for _, s := range e.subs {
		if s.Name == "background:"+name {
			hears = append(hears, s.Filter)
		}
	}
	if len(hears) > 0 {
		a.What = "hears " + strings.Join(hears, " ")
		if n := e.heard(&a, hears); n != nil && !a.Ran {
			a.because(n, "ignored", "%s came at %s; its trigger did not fire: a condition was false, or it waits, or holds back a repetition", n.Topic, at(n))
		}
	}
	if e.scripts.Background != nil {
		e.supervised(&a, *e.scripts.Background)
	}
	e.failures(&a)
	if len(a.Reasons) == 0 {
		a.add("nobody-published", "nobody called it as far back as the record goes")
	}
	return a
}

// supervised says what the supervision tree knows of an agent.
func (e *evidence) supervised(a *answer, t background.Status) {
	for _, child := range t.Children {
		e.supervised(a, child)
	}
	if t.Kind != "agent" || t.Name != a.Name {
		return
	}
	var d background.AgentDetail
	if b, err := json.Marshal(t.Detail); err != nil || json.Unmarshal(b, &d) != nil {
		return
	}
	if t.State != background.Running {
		a.add("state", "it is %s; %s", t.State, strings.TrimSpace(fmt.Sprintf("%d restarts %s", t.Restarts, t.LastError)))
	}
	if d.Queue > 0 || d.Busy {
		a.add("busy", "it runs now; %s (room for %d)", count(d.Queue, "task")+" wait", d.MaxQueue)
	}
	for _, cause := range slices.Sorted(maps.Keys(d.Drops)) {
		why := "ignored"
		if cause == "overflow" || cause == "replaced" {
			why = "queue-full"
		}
		a.add(why, "%s dropped: %s", count(int(d.Drops[cause]), "task"), cause)
	}
}

// device answers for what has readings or commands in the record, or is known
// because the robot runs.
func (e *evidence) device(name string) (answer, bool) {
	a := answer{Name: name, Kind: "device"}
	n := e.tree.Last("hw/" + name + "/#") // the filter matches hw/NAME too
	if n != nil {
		a.because(n, "ran", "the last of it at %s: %s", at(n), n.Reason())
	}
	i := slices.IndexFunc(e.devices, func(d hw.Status) bool { return d.Name == name })
	if i < 0 {
		return a, n != nil
	}
	d := e.devices[i]
	a.What = d.Kind
	if n == nil && d.Kind == "actuator" {
		a.add("nobody-published", "nobody commanded it as far back as the record goes")
	} else if n == nil {
		a.add("nobody-published", "it gave no reading as far back as the record goes")
	}
	if d.Error != "" {
		a.add("failed", "%s", d.Error)
	}
	if d.AtRest {
		a.add("state", "it is at rest")
	}
	e.failures(&a)
	return a, true
}

func (e *evidence) topic(filter string) answer {
	a := answer{Name: filter, Kind: "topic"}
	if n := e.heard(&a, []string{filter}); n != nil {
		a.because(n, "ran", "published %s, last at %s: %s", count(len(e.tree.Match(filter)), "time"), at(n), n.Reason())
		filter = n.Topic
	}
	var listen []string
	for _, h := range e.scripts.Handlers {
		if h.Kind != "timer" && slices.ContainsFunc(filters(h), func(f string) bool { return bus.Match(f, filter) }) {
			listen = append(listen, fmt.Sprintf("%s (%s)", h.Handler, h.At))
		}
	}
	for _, s := range e.subs {
		if name, ok := strings.CutPrefix(s.Name, "background:"); ok && bus.Match(s.Filter, filter) {
			listen = append(listen, name)
		}
	}
	if len(listen) == 0 {
		a.add("state", "no handler listens to it")
	} else {
		a.add("state", "heard by %s", strings.Join(listen, ", "))
	}
	return a
}

func at(n *trace.Node) string { return n.Time.Local().Format("15:04:05.000") }

type whyRequest struct {
	Name string `json:"name"`
}

// handleWhy answers why in the robot, which has the counters.
func (r *robot) handleWhy(_ context.Context, with json.RawMessage, send func(any) error) error {
	var q whyRequest
	if err := json.Unmarshal(with, &q); err != nil {
		return control.Usagef("why: %v", err)
	}
	lines, err := r.record()
	if err != nil {
		return err
	}
	running, _ := r.scripts.behaviour()
	e := evidence{
		tree: trace.Build(lines), scripts: running.Summary(), subs: r.bus.Stats().Subscriptions, devices: r.rig.Devices(),
	}
	if record, stopped := r.rig.Stopped(); stopped {
		e.stop = &record
	}
	list, err := e.explain(q.Name)
	if err != nil {
		return err
	}
	return send(list)
}

func (c *cli) whyVerb() *cobra.Command {
	var dir string
	cmd := verb("why NAME", "Tell why something ran, or did not", 1, 1, func(cmd *cobra.Command, args []string) error {
		list, err := c.why(cmd.Context(), dir, args[0])
		if err != nil {
			return err
		}
		return c.print(list, func(w io.Writer) {
			for _, a := range list {
				fmt.Fprintf(w, "%s (%s)\n", a.Name, strings.TrimSuffix(a.Kind+": "+a.What, ": "))
				for _, r := range a.Reasons {
					see := ""
					if r.Event > 0 {
						see = fmt.Sprintf("  (edged trace %d)", r.Event)
					}
					fmt.Fprintf(w, "  %s: %s%s\n", r.Why, r.Text, see)
				}
			}
		})
	})
	cmd.Long = "Tells why a handler, an agent, a device or a topic did something last, or why it did not: nobody published, the filter does not match,\nit was ignored, its queue was full, it failed, the robot is stopped. Of a robot that doesn't run, the record is all there is to go by."
	cmd.Example = "edged why on_near\nedged why base\nedged why guard/alarm"
	cmd.Flags().StringVar(&dir, "dir", "", "folder of the robot; the one here, or else the one running")
	return cmd
}

// why asks the robot that is meant, or looks at what it left.
func (c *cli) why(ctx context.Context, dir, name string) ([]answer, error) {
	cl, cfg, err := c.meant("why", dir)
	if err != nil {
		return nil, err
	}
	if cl != nil {
		defer cl.Close()
		var list []answer
		err := cl.Call(ctx, "why", whyRequest{name}, &list)
		return list, err
	}
	lines, err := trace.Read(traceDir(cfg))
	if err != nil {
		return nil, err
	}
	i, err := inspectFolder(ctx, cfg)
	if err != nil {
		return nil, err
	}
	e := evidence{tree: trace.Build(lines), scripts: i.Scripts}
	return e.explain(name)
}
