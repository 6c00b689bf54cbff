package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"edged/background"
	"edged/bus"
	"edged/bus/trace"
	"edged/hw"
	"edged/starlark/lib"
)

// What the verb why says of each kind of thing: a handler, an agent, a device,
// a topic.

// handler answers for a handler, a timer, a watcher or a volunteer.
func (e *evidence) handler(h lib.HandlerSummary) answer {
	a := answer{Name: h.Handler, Kind: "handler", What: fmt.Sprintf("%s %s, %s", h.Kind, strings.Join(h.What, " "), h.At)}
	if h.Kind == "timer" {
		a.add("state", "it runs by time: %s", strings.Join(h.What, " "))
		if h.Runs > 0 {
			a.add("ran", "it ran %s", count(int(h.Runs), "time"))
		}
		if h.Skipped > 0 {
			a.add("ignored", "its time came %s while it still ran, and was passed over", count(int(h.Skipped), "time"))
		}
		e.failures(&a)
		return a
	}
	heard := e.heard(&a, filters(h))
	switch {
	case h.Listens:
		e.counted(&a, h, heard)
	case heard != nil: // it doesn't run: what it listens to is all that is known
		a.because(heard, "state", "what it listens to came last at %s: %s", at(heard), heard.Reason())
	}
	e.failures(&a)
	return a
}

// counted says what became of the events, changes or requests that a handler
// was offered.
func (e *evidence) counted(a *answer, h lib.HandlerSummary, heard *trace.Node) {
	what := map[string]string{"watch": "change", "volunteer": "request"}[h.Kind]
	what = cmp.Or(what, "event")
	asked := map[string]string{"volunteer": "accept="}[h.Kind]
	asked = cmp.Or(asked, "where=")
	before := heard != nil && e.run != "" && (heard.Run != e.run || heard.Seq <= h.Since)
	switch {
	case h.Runs > 0 && heard != nil && !before:
		a.because(heard, "ran", "it ran %s since it began to listen; the last %s for it: %s, at %s", count(int(h.Runs), "time"), what, heard.Reason(), at(heard))
	case h.Runs > 0:
		a.add("ran", "it ran %s since it began to listen", count(int(h.Runs), "time"))
	case before:
		a.because(heard, "not-listening", "%s came at %s, before it began to listen", heard.Topic, at(heard))
	case heard != nil && h.Queued == 0 && h.Dropped+h.Refused == 0:
		a.because(heard, "state", "%s came at %s and did not bring it to run", heard.Topic, at(heard))
	}
	if h.Refused > 0 {
		a.add("refused", "its %s said no to %s", asked, count(int(h.Refused), what))
	}
	if h.Queued > 0 {
		a.add("busy", "%s for it to end what it does", count(h.Queued, what)+" wait")
	}
	if lost := h.Dropped - h.Skipped; lost > 0 {
		a.add("queue-full", "%s lost: its queue was full", count(int(lost), what))
	}
	if h.Collapsed > 0 {
		a.add("queue-full", "%s replaced by newer ones while it ran", count(int(h.Collapsed), what))
	}
	if h.Skipped > 0 {
		a.add("ignored", "%s came while it ran, and its mode ignores those", count(int(h.Skipped), what))
	}
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
	e.turns(&a, func(t turnTold) bool { return t.Speaker == name })
	for _, t := range e.scripts.Triggers {
		if t.Agent == name {
			e.woken(&a, t)
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

// woken says what became of the events that could have woken an agent.
func (e *evidence) woken(a *answer, t lib.TriggerSummary) {
	a.What = fmt.Sprintf("woken by %s, %s", t.Trigger, t.At)
	if len(t.Hears) == 0 {
		return
	}
	a.What = fmt.Sprintf("hears %s, %s", strings.Join(t.Hears, " "), a.What)
	var hears []string
	for _, f := range t.Hears {
		hears = append(hears, wide(f))
	}
	n := e.heard(a, hears)
	if n == nil || a.Ran {
		return
	}
	i := slices.IndexFunc(e.subs, func(s bus.SubscriptionStats) bool { return s.Name == "background:"+a.Name })
	switch {
	case i < 0 && e.run != "":
		a.because(n, "not-listening", "%s came at %s; it does not listen now", n.Topic, at(n))
	case i < 0:
		a.because(n, "state", "what it listens to came last at %s: %s", at(n), n.Reason())
	case n.Run != e.run || n.Seq <= e.subs[i].Since:
		a.because(n, "not-listening", "%s came at %s, before it began to listen", n.Topic, at(n))
	default:
		a.because(n, "ignored", "%s came at %s; its trigger did not fire: a condition was false, or it waits, or holds back a repetition", n.Topic, at(n))
	}
}

// device answers for what has readings or commands in the record, or is known
// because the robot runs.
func (e *evidence) device(name string) (answer, bool) {
	a := answer{Name: name, Kind: "device"}
	var n *trace.Node // the filter matches hw/NAME too
	for _, one := range e.tree.Match("hw/" + name + "/#") {
		if one.Topic != "hw/"+name+"/refused" {
			n = one
		}
	}
	if n != nil {
		a.because(n, "ran", "the last of it at %s: %s", at(n), n.Reason())
	}
	if refused := e.refusals(&a, name); n == nil && refused {
		n = e.tree.Last("hw/" + name + "/refused")
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

// refusals says which commands came of what is no order. It reports whether
// there were any.
func (e *evidence) refusals(a *answer, name string) bool {
	list := e.tree.Match("hw/" + name + "/refused")
	if len(list) == 0 {
		return false
	}
	last := list[len(list)-1]
	var said struct{ Error string }
	_ = json.Unmarshal(last.Payload, &said) // then it says nothing
	a.because(last, "old", "%s refused, last at %s: %s", count(len(list), "command"), at(last), said.Error)
	return true
}

// waited says which events of a topic were no orders.
func (e *evidence) waited(a *answer, filter string) {
	var last *trace.Node
	n := 0
	for _, one := range e.tree.Match(filter) {
		if one.Old != nil {
			last, n = one, n+1
		}
	}
	if last != nil {
		a.because(last, "old", "%s no order, so nothing that came of it could move anything; the last at %s: %v",
			count(n, "event")+" of it "+map[bool]string{true: "was", false: "were"}[n == 1], at(last), last.Old)
	}
}

func (e *evidence) topic(filter string) answer {
	a := answer{Name: filter, Kind: "topic"}
	if n := e.heard(&a, []string{filter}); n != nil {
		a.because(n, "ran", "published %s, last at %s: %s", count(len(e.tree.Match(filter)), "time"), at(n), n.Reason())
		e.waited(&a, filter)
		filter = n.Topic
	}
	var listen []string
	for _, h := range e.scripts.Handlers {
		if h.Kind != "timer" && slices.ContainsFunc(filters(h), func(f string) bool { return bus.Match(f, filter) }) {
			listen = append(listen, fmt.Sprintf("%s (%s)", h.Handler, h.At))
		}
	}
	for _, t := range e.scripts.Triggers {
		if slices.ContainsFunc(t.Hears, func(f string) bool { return bus.Match(wide(f), filter) }) {
			listen = append(listen, t.Agent)
		}
	}
	if len(listen) == 0 {
		a.add("state", "no handler listens to it")
	} else {
		a.add("state", "heard by %s", strings.Join(listen, ", "))
	}
	return a
}
