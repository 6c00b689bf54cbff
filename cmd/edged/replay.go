package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"edged/bus/trace"
	"edged/cmd/edged/internal/config"
)

// The verb replay: a recorded run once more, with the scripts as they are now,
// and what they do otherwise.

// replayFlags are how 'edged replay' was called.
type replayFlags struct {
	within  time.Duration
	actions bool
	verbose bool
}

// replayed is what came of it.
type replayed struct {
	Name        string             `json:"name"`
	Seconds     float64            `json:"seconds"`
	Inputs      int                `json:"inputs"`
	Recorded    []trace.Action     `json:"recorded,omitempty"`
	Actions     []trace.Action     `json:"actions,omitempty"`
	Count       int                `json:"count"`
	Differences []trace.Difference `json:"differences"`
	Errors      []string           `json:"errors,omitempty"` // that the recorded run had not
	Notes       []string           `json:"notes,omitempty"`
}

func (c *cli) replayVerb() *cobra.Command {
	o := replayFlags{}
	cmd := verb("replay FILE [DIR]", "Run a record again and tell what is done otherwise", 1, 2, func(cmd *cobra.Command, args []string) error {
		dir := "."
		if len(args) == 2 {
			dir = args[1]
		}
		if o.within < 0 {
			return usagef("replay: --within %v: a time can't be less than none", o.within)
		}
		cfg, err := robotAt("replay", dir)
		if err != nil {
			return err
		}
		if cfg.Script.Isolated {
			return errors.New("replay: these scripts are isolated (script.isolated in edged.toml), and a replay runs inside this process; if you trust them: EDGED_SCRIPT_ISOLATED=false edged replay")
		}
		p, err := readPast(args[0])
		if err != nil {
			return err
		}
		defer context.AfterFunc(cmd.Context(), func() { os.Exit(exitProblem) })() // all is in memory
		runtime.GOMAXPROCS(1)                                                     // what happens at the same time happens in the same order each time
		virtual(func(b bubble) int {
			if err := c.replay(p, cfg, o, b); err != nil {
				if !errors.Is(err, errShown) {
					fmt.Fprintln(c.err, text(err))
				}
				return exitProblem
			}
			return exitOK
		})
		return nil
	})
	cmd.Long = "Runs the scripts in a folder on a recorded run: what came in then comes in again at its time, devices and models answer as they did,\nand what the robot does is compared with what it did: commands of actuators, events of scripts, keys of the blackboard.\nNothing moves, no port is opened, and no time is waited for. Exit status 1 says that something is done otherwise."
	cmd.Example = "edged run --record monday.jsonl guard\nedged replay monday.jsonl guard\nedged trace --last 60s --save crash.jsonl && edged replay crash.jsonl"
	cmd.Flags().DurationVar(&o.within, "within", time.Second, "how much sooner or later an action may come")
	cmd.Flags().BoolVar(&o.actions, "actions", false, "list all that was done, not only what differs")
	cmd.Flags().BoolVarP(&o.verbose, "verbose", "v", false, "show what scripts print and log")
	return cmd
}

// replay runs the past once and tells what is other now.
func (c *cli) replay(p *past, cfg *config.Config, o replayFlags, b bubble) error {
	out := io.Discard
	if o.verbose {
		out = c.err
	}
	lines, err := p.again(cfg, o.within, out, b)
	if err != nil {
		return err
	}
	was, is := trace.Settled(trace.Actions(p.run, p.begun)), trace.Settled(trace.Actions(lines, p.begun))
	r := replayed{
		Name: cfg.Name, Seconds: p.ends.Sub(p.begun).Seconds(), Inputs: len(p.inputs), Count: len(was),
		Differences: trace.Compare(was, is, o.within, p.ends.Sub(p.begun)), Errors: newErrors(p.run, lines), Notes: p.notes,
	}
	if r.Differences == nil {
		r.Differences = []trace.Difference{}
	}
	if o.actions {
		r.Recorded, r.Actions = was, is
	}
	if err := c.print(r, r.write); err != nil {
		return err
	}
	if len(r.Differences) > 0 {
		return errShown
	}
	return nil
}

func (r replayed) write(w io.Writer) {
	for _, n := range r.Notes {
		fmt.Fprintln(w, "note:", n)
	}
	_ = trace.WriteActions(w, r.Actions) // who closes the terminal sees no error
	_ = trace.WriteDifferences(w, r.Differences)
	for _, e := range r.Errors {
		fmt.Fprintln(w, "new error:", e)
	}
	fmt.Fprintf(w, "%s: %.1f s, %s came in, %s: ", r.Name, r.Seconds, count(r.Inputs, "event"), count(r.Count, "action"))
	if len(r.Differences) == 0 {
		fmt.Fprintln(w, "no difference")
		return
	}
	fmt.Fprintln(w, count(len(r.Differences), "difference"))
}

// newErrors lists the errors that only the second run had, each once.
func newErrors(was, is []trace.Line) (list []string) {
	known := map[string]bool{"": true}
	for _, l := range was {
		known[errorOf(l)] = true
	}
	for _, l := range is {
		if t := errorOf(l); !known[t] {
			known[t] = true
			list = append(list, t)
		}
	}
	return list
}

// errorOf is what went wrong as a line of a record tells it, empty for nothing.
func errorOf(l trace.Line) string {
	var e struct{ Source, Error, Status, Reason string }
	ended := strings.HasPrefix(l.Topic, "edged/agent/") && strings.HasSuffix(l.Topic, "/end")
	switch {
	case l.Topic != "edged/error" && !ended, json.Unmarshal(l.Payload, &e) != nil:
		return ""
	case ended && e.Reason == "":
		return ""
	case ended:
		return fmt.Sprintf("%s: %s: %s", l.Source, e.Status, e.Reason)
	}
	first, _, _ := strings.Cut(e.Error, "\n")
	return strings.TrimPrefix(e.Source+": "+first, ": ")
}

// past is a recorded run, made ready to be run again.
type past struct {
	head   snapshot
	lines  []trace.Line // of one process
	run    []trace.Line // from the start of the scripts to their end
	inputs []input
	models map[string][]byte // recordings, by the name of the model
	notes  []string
	midway bool      // the scripts ran before the record begins
	begins time.Time // of the record, or of the scripts' time before it
	begun  time.Time // of the scripts, or of the record
	ends   time.Time
}

// readPast reads a record with what belongs to it.
func readPast(file string) (*past, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	p := &past{}
	var ok bool
	if p.head, ok = headOf(text); ok && p.head.Record != snapshotFormat {
		return nil, fmt.Errorf("replay: %s: it is %q, want %q; replay it with the version that made it, %s", file, p.head.Record, snapshotFormat, cmp.Or(p.head.Version, "a newer one"))
	}
	p.lines = lastRun(trace.Parse(text))
	switch {
	case len(p.lines) == 0 && strings.HasPrefix(string(text), `{"format":"edged model traffic`):
		return nil, fmt.Errorf("replay: %s: these are answers of models; an agent with model = \"replay:%s\" answers from them. Events are recorded with 'edged run --record FILE'", file, file)
	case len(p.lines) == 0:
		return nil, fmt.Errorf("replay: %s: no events are in it; 'edged run --record FILE' and 'edged trace --save FILE' write them", file)
	case !ok:
		p.head = p.head.before(p.lines)
		p.notes = append(p.notes, "the record does not say what was on the blackboard before; only what it tells of itself is there")
	}
	if p.models, err = readTraffic(file + ".models"); err != nil {
		return nil, err
	}
	p.bound()
	p.inputs = inputsOf(p.lines, p.ends)
	return p, nil
}

// lastRun keeps the events of the latest process.
func lastRun(lines []trace.Line) []trace.Line {
	if len(lines) == 0 {
		return nil
	}
	run := lines[len(lines)-1].Run
	var out []trace.Line
	for _, l := range lines {
		if l.Run == run {
			out = append(out, l)
		}
	}
	return out
}

// warm is how long scripts run before a record that begins while they ran: what
// they do at their start is over then, and their timers go as they went, if it
// is known when that was.
func (p *past) warm() time.Duration {
	const unknown, most = time.Minute, time.Hour
	up := p.begins.Sub(p.head.Loaded)
	if p.head.Loaded.IsZero() || up < 0 || up > most {
		return unknown
	}
	return up
}

// bound finds where the scripts began and ended, and what can't be repeated.
func (p *past) bound() {
	p.begins = p.lines[0].Time
	if !p.head.Time.IsZero() && p.head.Time.Before(p.begins) {
		p.begins = p.head.Time
	}
	p.begun, p.ends = p.begins, p.lines[len(p.lines)-1].Time
	p.midway = true
	from, to := 0, len(p.lines)
	lost, cut := uint64(0), 0
	for i, l := range p.lines {
		switch l.Topic {
		case startTopic:
			from, p.begun, p.midway = i, l.Time, false
			var s struct{ Sim bool }
			if json.Unmarshal(l.Payload, &s) == nil && s.Sim {
				p.head.Sim = true
			}
		case endTopic:
			to, p.ends = i, l.Time
		case ReloadTopic:
			p.notes = append(p.notes, fmt.Sprintf("the scripts were edited %.1f s after the start; the present ones run all the time", l.Time.Sub(p.begun).Seconds()))
		}
		lost += l.Lost
		if l.Cut > 0 {
			cut++
		}
	}
	if p.midway {
		p.notes = append(p.notes, "the record begins while the scripts ran: what was under way then is not in it")
		p.begins = p.begins.Add(-p.warm())
	}
	if lost > 0 {
		p.notes = append(p.notes, fmt.Sprintf("%s are not in the record: there were too many at once", count(int(lost), "event")))
	}
	if cut > 0 {
		p.notes = append(p.notes, fmt.Sprintf("the payload of %s is not in the record: it was too long (setting trace.payload)", count(cut, "event")))
	}
	p.run = p.lines[from:to]
}
