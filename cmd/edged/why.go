package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"edged/bus"
	"edged/bus/trace"
	"edged/cmd/edged/internal/control"
	"edged/hw"
	"edged/starlark/lib"
	"edged/starlark/value"
	"edged/workflow"
)

// The verb why: why something ran, or why it did not, from the record and from
// the counters of the robot that runs.

// answer is why something ran or did not.
type answer struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind"` // "handler", "agent", "device", "topic"
	What    string   `json:"what,omitempty"`
	Ran     bool     `json:"ran"`
	Reasons []reason `json:"reasons"`
}

// reason is one thing that answers why. Why is "ran", "failed", "busy",
// "stopped", "nobody-published", "filter", "not-listening", "refused",
// "ignored", "queue-full", "old", "turn" or "state".
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
	run     string // of the record, names the process; this and the rest only while it runs
	subs    []bus.SubscriptionStats
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
	if w, ok := e.node(name); ok {
		list = append(list, w)
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
	for _, tree := range e.scripts.Workflows {
		eachNode(tree, func(o workflow.Outline) { names = append(names, o.Name) })
	}
	for _, h := range e.scripts.Handlers {
		names = append(names, h.Handler)
	}
	for _, d := range e.devices {
		names = append(names, d.Name)
	}
	return append(names, topics(e.tree)...)
}

// filters are the topics that bring a handler to run.
func filters(h lib.HandlerSummary) []string {
	prefix := map[string]string{"watch": "board/", "volunteer": "request/"}[h.Kind]
	var list []string
	for _, f := range h.What {
		list = append(list, wide(prefix+f))
	}
	return list
}

// wide is a filter that covers what a pattern of keys does: as near as one
// comes to it.
func wide(pattern string) string {
	rest, star := strings.CutSuffix(pattern, "*")
	if !star || rest == "" {
		return pattern
	}
	return rest[:strings.LastIndex(rest, "/")+1] + "#"
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
	if place := fmt.Sprintf("%s:%d", said.Script, said.Line); said.Script != "" && !strings.HasPrefix(said.Error, place) {
		where = ", " + place
	}
	a.because(last, "failed", "it failed %s, last at %s: %s%s", count(n, "time"), at(last), said.Error, where)
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
		tree: trace.Build(lines), run: r.recorder.Run(), scripts: running.Summary(), subs: r.bus.Stats().Subscriptions, devices: r.rig.Devices(),
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
	cmd.Long = "Tells why a handler, an agent, a device or a topic did something last, or why it did not: nobody published, the filter does not match,\nit did not listen yet, its where= said no, it was ignored, its queue was full, it came of what waited somewhere and is no order, it failed, the robot is stopped. Of a robot that doesn't run, the record is all there is to go by."
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
	i, err := inspectFolder(ctx, cfg, 0)
	if err != nil {
		return nil, err
	}
	e := evidence{tree: trace.Build(lines), scripts: i.Scripts}
	return e.explain(name)
}
