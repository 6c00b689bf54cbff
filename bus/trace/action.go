package trace

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strings"
	"time"
)

// An Action is something the robot did: what an actuator was told, what its
// scripts and agents published, and what they wrote on the blackboard. What came
// in, and what the runtime tells of itself, is none.
type Action struct {
	At    time.Duration `json:"at"` // since the beginning
	Do    string        `json:"do"` // "base.drive_to", "publish home/arrived", "set home/room"
	Value string        `json:"value,omitempty"`
	Seq   uint64        `json:"seq"`             // of its event
	State bool          `json:"state,omitempty"` // it says how something is, not that something happened
}

// String is the action without its time.
func (a Action) String() string {
	if a.Value == "" {
		return a.Do
	}
	return a.Do + " " + a.Value
}

// Actions lists what was done in a record, by time, with ties in the order of
// names, so that it does not depend on the scheduler.
func Actions(lines []Line, begun time.Time) []Action {
	list := []Action{}
	ramps := map[string]string{} // where an actuator is on its way to
	for _, l := range lines {
		a := Action{At: l.Time.Sub(begun).Round(time.Microsecond), Seq: l.Seq}
		if a.read(l, ramps) {
			list = append(list, a)
		}
	}
	sort.SliceStable(list, func(i, j int) bool {
		return cmp.Or(cmp.Compare(list[i].At, list[j].At), cmp.Compare(list[i].Do, list[j].Do)) < 0
	})
	return list
}

// blink is how long a state lasts at least to be of interest.
const blink = 20 * time.Millisecond

// Settled leaves out states that lasted for less than 20 ms, and those that are
// said again: handlers that run at the same time do so in any order.
func Settled(list []Action) []Action {
	next := map[string]Action{} // of the same name
	short := make([]bool, len(list))
	for i := len(list) - 1; i >= 0; i-- {
		a := list[i]
		if !a.State {
			continue
		}
		n, ok := next[a.Do]
		short[i] = ok && n.At-a.At < blink
		next[a.Do] = a
	}
	out := []Action{}
	last := map[string]string{}
	for i, a := range list {
		if short[i] {
			continue
		}
		if was, ok := last[a.Do]; a.State && ok && was == a.Value {
			continue
		}
		if a.State {
			last[a.Do] = a.Value
		}
		out = append(out, a)
	}
	return out
}

// Acts reports whether a source is one that acts by itself: a script, an agent,
// not who is outside.
func Acts(source string) bool {
	kind, _, ok := strings.Cut(source, ":")
	switch kind {
	case "script", "agent", "background", "workflow", "graph", "guardrail", "society":
		return ok
	}
	return false
}

// read makes the action of a line and reports whether it is one.
func (a *Action) read(l Line, ramps map[string]string) bool {
	room, rest, _ := strings.Cut(l.Topic, "/")
	switch {
	case room == "hw" && strings.HasPrefix(l.Source, "hw:"):
		name, what, _ := strings.Cut(rest, "/")
		switch what {
		case "set":
			return a.command(name, l.Payload, ramps)
		case "goal":
			return a.goal(l.Payload)
		}
		return false
	case !Acts(l.Source):
		return false
	case room == "board":
		var c struct {
			Old json.RawMessage `json:"old"`
			New json.RawMessage `json:"new"`
		}
		if json.Unmarshal(l.Payload, &c) != nil {
			return false
		}
		a.Do, a.Value, a.State = "set "+rest, tidy(c.New), true
		if l.Cut == 0 && tidy(c.Old) == a.Value {
			return false // it was that before
		}
	case l.Topic == "edged/safety/stop" || l.Topic == "edged/safety/resume":
		a.Do = "robot." + strings.TrimPrefix(l.Topic, "edged/safety/")
	case room == "message":
		var m struct {
			Content json.RawMessage `json:"content"`
		}
		_ = json.Unmarshal(l.Payload, &m) // then it has none
		a.Do, a.Value = "message "+rest, tidy(m.Content)
	case room == "edged" || room == "request":
		return false
	default:
		a.Do, a.Value, a.State = "publish "+l.Topic, tidy(l.Payload), l.Keep
	}
	if l.Cut > 0 {
		a.Value = fmt.Sprintf("… %d bytes", l.Cut)
	}
	return true
}

// command reads what an actuator was told. The steps of a ramp are one action,
// and what a long action does with the actuator is none.
func (a *Action) command(name string, payload json.RawMessage, ramps map[string]string) bool {
	var p struct {
		Command json.RawMessage `json:"command"`
		To      json.RawMessage `json:"to"`
		Goal    int64           `json:"goal"`
		Rest    bool            `json:"rest"`
		Why     string          `json:"why"`
		Error   string          `json:"error"`
	}
	if json.Unmarshal(payload, &p) != nil || p.Goal != 0 {
		return false
	}
	a.Do = name
	was := ramps[name]
	delete(ramps, name)
	if p.Rest {
		a.Value = "rest"
		return p.Why == "asked"
	}
	a.Value = tidy(p.Command)
	if p.To != nil {
		a.Value = tidy(p.To)
		ramps[name] = a.Value
	}
	if p.Error != "" {
		a.Value += " failed: " + p.Error
	}
	return was == "" || was != a.Value
}

// goal reads the beginning of a long action, or that it was cancelled.
func (a *Action) goal(payload json.RawMessage) bool {
	var p struct {
		Goal   string          `json:"goal"`
		State  string          `json:"state"`
		Args   json.RawMessage `json:"args"`
		Reason string          `json:"reason"`
	}
	if json.Unmarshal(payload, &p) != nil {
		return false
	}
	switch {
	case p.Args != nil:
		a.Do, a.Value = p.Goal, tidy(p.Args)
	case p.State == "cancelled":
		a.Do, a.Value = p.Goal+" cancelled", p.Reason
	default:
		return false
	}
	return true
}

// tidy writes JSON in one form: keys in order, 1.0 as 1; nothing for null.
func tidy(b json.RawMessage) string {
	if len(b) == 0 || string(b) == "null" {
		return ""
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return string(b)
	}
	var w bytes.Buffer
	e := json.NewEncoder(&w)
	e.SetEscapeHTML(false)
	if e.Encode(number(v)) != nil {
		return string(b)
	}
	return strings.TrimSuffix(w.String(), "\n")
}

func number(v any) any {
	switch x := v.(type) {
	case json.Number:
		if n, err := x.Int64(); err == nil {
			return n
		}
		f, err := x.Float64()
		if err != nil {
			return x
		}
		return f
	case []any:
		for i := range x {
			x[i] = number(x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = number(x[k])
		}
	}
	return v
}

// WriteActions prints actions, one a line.
func WriteActions(w io.Writer, list []Action) error {
	for _, a := range list {
		if _, err := fmt.Fprintf(w, "%9.3fs %s\n", a.At.Seconds(), a); err != nil {
			return err
		}
	}
	return nil
}
