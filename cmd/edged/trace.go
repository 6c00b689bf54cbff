package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"edged/bus"
	"edged/bus/trace"
	"edged/cmd/edged/internal/control"
)

// The verb trace: what happened, and because of what. The record of a robot
// that doesn't run is read from its data folder; one that runs writes what
// waits and sends it.

// traceFlags are what trace shows.
type traceFlags struct {
	dir, from   string
	save, test  string // files to write
	last        time.Duration
	count       int
	all, follow bool
}

func (c *cli) traceVerb() *cobra.Command {
	var o traceFlags
	cmd := verb("trace [FILTER|NUMBER]", "Tell what happened, because of what", 0, 1, func(cmd *cobra.Command, args []string) error {
		about := strings.Join(args, "")
		if err := checkAbout(about); err != nil {
			return err
		}
		if o.follow {
			return c.followTrace(cmd.Context(), cmp.Or(about, "*"))
		}
		lines, err := c.record(cmd.Context(), "trace", o.dir, o.from)
		if err != nil {
			return err
		}
		lines = since(lines, o.last)
		switch {
		case o.save != "":
			return c.saveTrace(cmd.Context(), o, lines)
		case o.test != "":
			return c.saveTest(cmd.Context(), o, lines)
		}
		return c.showTrace(trace.Build(lines), about, o)
	})
	cmd.Long = "Tells what happened in the last minutes, each event indented under the one that brought it about.\n" +
		"With a topic filter: every event that matches, with its causes in a sentence. With the number of an event: all that belongs to it.\n" +
		"Readings of sensors and starts of services that brought nothing about are left out, but for --all."
	cmd.Example = "edged trace\nedged trace 'hw/+/set'\nedged trace --last 60s --save crash.jsonl\nedged trace --from crash.jsonl\nedged trace --last 60s --save-test guard/field_test.star"
	cmd.Flags().DurationVar(&o.last, "last", 0, "only what happened so long before the end of the record")
	cmd.Flags().IntVarP(&o.count, "count", "n", 20, "the last so many; 0 is all")
	cmd.Flags().BoolVar(&o.all, "all", false, "leave nothing out")
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "go on with what happens now")
	cmd.Flags().StringVar(&o.save, "save", "", "write the record to this file, for replay")
	cmd.Flags().StringVar(&o.test, "save-test", "", "write a test to this file: what came in, and what the robot does then as a golden file")
	cmd.Flags().StringVar(&o.from, "from", "", "read the record from such a file")
	cmd.Flags().StringVar(&o.dir, "dir", "", "folder of the robot; the one here, or else the one running")
	return cmd
}

// checkAbout refuses what is neither the number of an event nor a filter.
func checkAbout(about string) error {
	if _, err := strconv.ParseUint(about, 10, 64); err == nil || about == "" {
		return nil
	}
	if err := bus.ValidFilter(about); err != nil {
		return usagef("trace: %q: %v", about, err)
	}
	return nil
}

// record gives the lines of the robot that is meant, or of a file.
func (c *cli) record(ctx context.Context, verb, dir, file string) ([]trace.Line, error) {
	if file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", verb, err)
		}
		return trace.Parse(b), nil
	}
	cl, cfg, err := c.meant(verb, dir)
	if err != nil {
		return nil, err
	}
	if cl == nil {
		return trace.Read(traceDir(cfg))
	}
	defer cl.Close()
	var lines []trace.Line
	err = cl.Stream(ctx, "trace", nil, func(b json.RawMessage) error {
		var some []trace.Line
		err := json.Unmarshal(b, &some)
		lines = append(lines, some...)
		return err
	})
	return lines, cmp.Or(err, ctx.Err())
}

// since gives the end of a record; 0 is all of it.
func since(lines []trace.Line, last time.Duration) []trace.Line {
	if last <= 0 || len(lines) == 0 {
		return lines
	}
	from := lines[len(lines)-1].Time.Add(-last)
	for i, l := range lines {
		if !l.Time.Before(from) {
			return lines[i:]
		}
	}
	return nil
}

// told is an event in --json output.
type told struct {
	trace.Line
	Reason string `json:"reason"`
}

// showTrace prints one event with all that belongs to it, or those that match,
// or the trees.
func (c *cli) showTrace(t *trace.Tree, about string, o traceFlags) error {
	if seq, err := strconv.ParseUint(about, 10, 64); err == nil {
		n := t.Event(seq)
		if n == nil {
			return fmt.Errorf("trace: event %d is not in the record", seq)
		}
		return c.print(flat([]*trace.Node{n.Root()}), func(w io.Writer) {
			_ = n.Root().Outline(w) // who closes the terminal sees no error
			fmt.Fprintln(w, n.Reason())
			var t turnTold
			if bus.Match(turnTopic, n.Topic) && json.Unmarshal(n.Payload, &t) == nil {
				fmt.Fprintf(w, "what was asked and said in it: edged runs turns %s --full\n", t.Run)
			}
		})
	}
	list, left := t.Roots, 0
	if about != "" {
		list = t.Match(about)
	} else if !o.all {
		list, left = telling(list)
	}
	if o.count > 0 && len(list) > o.count {
		list = list[len(list)-o.count:]
	}
	if c.json {
		if about == "" {
			return c.print(flat(list), nil)
		}
		out := []told{}
		for _, n := range list {
			out = append(out, told{n.Line, n.Reason()})
		}
		return c.print(out, nil)
	}
	for _, n := range list {
		if about == "" {
			if err := n.Outline(c.out); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(c.out, "%s %d %s %s\n", n.Time.Local().Format("15:04:05.000"), n.Seq, n.Reason(), n.Text(60))
	}
	switch {
	case t.Len() == 0:
		fmt.Fprintln(c.out, "nothing is recorded")
	case len(list) == 0 && about != "":
		fmt.Fprintf(c.out, "nothing in the record matches %s%s\n", about, nearTopic(t, about))
	case left > 0:
		fmt.Fprintf(c.out, "%s that brought nothing about left out; --all shows them\n", count(left, "event"))
	}
	return nil
}

// telling leaves out what happens all the time and brought nothing about.
func telling(roots []*trace.Node) (list []*trace.Node, left int) {
	for _, n := range roots {
		if len(n.Then) == 0 && (strings.HasPrefix(n.Source, "hw:") || strings.HasPrefix(n.Source, "background:") && strings.HasSuffix(n.Topic, "/start")) {
			left++
			continue
		}
		list = append(list, n)
	}
	return list, left
}

// nearTopic names a recorded topic that may have been meant.
func nearTopic(t *trace.Tree, about string) string { return perhaps(about, topics(t)) }

func topics(t *trace.Tree) []string {
	var list []string
	for topic := range t.Topics() {
		list = append(list, topic)
	}
	return list
}

// flat lists trees, causes before effects.
func flat(roots []*trace.Node) []told {
	out := []told{}
	var walk func(n *trace.Node)
	walk = func(n *trace.Node) {
		out = append(out, told{n.Line, n.Reason()})
		for _, child := range n.Then {
			walk(child)
		}
	}
	for _, n := range roots {
		walk(n)
	}
	return out
}

// remembered is how many events followTrace knows the depth of.
const remembered = 4096

// followTrace prints events as they come, indented by how many causes they
// have.
func (c *cli) followTrace(ctx context.Context, filter string) error {
	depth := map[uint64]int{}
	var order []uint64
	return c.stream(ctx, "sub", subRequest{Filter: "*"}, func(b json.RawMessage) error {
		var e control.Line
		if err := json.Unmarshal(b, &e); err != nil {
			return err
		}
		d := 0
		if up, ok := depth[e.Cause]; ok {
			d = up + 1
		}
		depth[e.Seq] = d
		if order = append(order, e.Seq); len(order) > remembered {
			delete(depth, order[0])
			order = order[1:]
		}
		switch {
		case !bus.Match(filter, e.Topic):
			return nil
		case c.json:
			_, err := fmt.Fprintf(c.out, "%s\n", b)
			return err
		}
		l := trace.Line{Payload: e.Payload}
		_, err := fmt.Fprintf(c.out, "%s %s%s %s (%s)\n", e.Time.Local().Format("15:04:05.000"), strings.Repeat("  ", min(d, 32)), e.Topic, l.Text(60), e.Source)
		return err
	})
}

// batch is about how many bytes of a record go over the socket at once.
const batch = 1 << 20

// handleTrace sends the record, oldest first.
func (r *robot) handleTrace(ctx context.Context, _ json.RawMessage, send func(any) error) error {
	lines, err := r.record()
	if err != nil {
		return err
	}
	for len(lines) > 0 && ctx.Err() == nil {
		n, size := 0, 0
		for n < len(lines) && (n == 0 || size < batch) {
			size += 256 + len(lines[n].Topic) + len(lines[n].Payload)
			n++
		}
		if err := send(lines[:n]); err != nil {
			return nil // the client is gone
		}
		lines = lines[n:]
	}
	return nil
}

// record is what is recorded until now.
func (r *robot) record() ([]trace.Line, error) {
	if r.recorder == nil {
		return nil, errors.New("trace: there is no record; the setting trace.off is true")
	}
	r.recorder.Flush()
	return trace.Read(traceDir(r.cfg))
}
