package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"edged/bus"
	"edged/cmd/edged/internal/control"
	"edged/hw"
)

// The verbs pub and sub, and their side in the running robot.

func lineOf(e bus.Event) control.Line {
	b, err := e.JSON()
	if err != nil {
		b, _ = json.Marshal(fmt.Sprintf("unreadable payload: %v", err)) // text always has a JSON form
	}
	return control.Line{Time: e.Time(), Seq: e.Seq, Cause: e.Cause, Source: e.Source, Topic: e.Topic, Payload: b, Retained: e.Retained, Queued: e.Queued}
}

type pubRequest struct {
	Topic   string          `json:"topic"`
	Payload json.RawMessage `json:"payload"`
	Retain  bool            `json:"retain,omitempty"`
}

func (c *cli) pubVerb() *cobra.Command {
	var retain, text bool
	cmd := verb("pub TOPIC [PAYLOAD]", "Publish an event", 1, 2, func(cmd *cobra.Command, args []string) error {
		if err := bus.ValidTopic(args[0]); err != nil {
			return usagef("pub: %v", err)
		}
		r := pubRequest{Topic: args[0], Retain: retain}
		if len(args) == 2 {
			p, err := c.payload(args[1], text)
			if err != nil {
				return err
			}
			r.Payload = p
		}
		var done struct {
			Seq uint64 `json:"seq"`
		}
		if err := c.call(cmd.Context(), "pub", r, &done); err != nil {
			return err
		}
		return c.print(done, func(w io.Writer) {})
	})
	cmd.Long = "Publishes an event in the running robot. The payload is JSON; what isn't JSON is text; - reads it from standard input."
	cmd.Example = "edged pub home/goto '{\"room\": \"kitchen\"}'"
	cmd.Flags().BoolVar(&retain, "retain", false, "keep it as the last event of its topic")
	cmd.Flags().BoolVar(&text, "text", false, "the payload is text, even if it looks like JSON")
	return cmd
}

// payload reads an argument as JSON, or as text if it isn't.
func (c *cli) payload(arg string, text bool) (json.RawMessage, error) {
	b := []byte(arg)
	if arg == "-" {
		var err error
		if b, err = io.ReadAll(io.LimitReader(c.in, control.MaxLine/2)); err != nil {
			return nil, fmt.Errorf("pub: read payload: %w", err)
		}
	}
	if !text && json.Valid(b) {
		return b, nil
	}
	return json.Marshal(string(b))
}

type subRequest struct {
	Filter string `json:"filter"`
	Replay bool   `json:"replay,omitempty"`
}

func (c *cli) subVerb() *cobra.Command {
	var count int
	var wait time.Duration
	var retained bool
	cmd := verb("sub [FILTER]", "Print events as they come", 0, 1, func(cmd *cobra.Command, args []string) error {
		filter := "#"
		if len(args) == 1 {
			filter = args[0]
		}
		if err := bus.ValidFilter(filter); err != nil {
			return usagef("sub: %v", err)
		}
		ctx := cmd.Context()
		if wait > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, wait)
			defer cancel()
		}
		seen := 0
		err := c.stream(ctx, "sub", subRequest{filter, retained}, func(b json.RawMessage) error {
			if err := c.showEvent(b); err != nil {
				return err
			}
			if seen++; seen == count {
				return io.EOF
			}
			return nil
		})
		switch {
		case err == io.EOF:
			return nil
		case err == nil && count > 0 && seen < count && cmd.Context().Err() == nil:
			return fmt.Errorf("sub: %d of %d events came within %v", seen, count, wait)
		}
		return err
	})
	cmd.Long = "Prints the events of the running robot that match an MQTT topic filter (default #; \"*\" is everything, runtime events included)."
	cmd.Example = "edged sub 'home/+/temperature'\nedged sub -n 1 --wait 5s 'hw/#'"
	cmd.Flags().IntVarP(&count, "count", "n", 0, "end after so many events")
	cmd.Flags().DurationVar(&wait, "wait", 0, "end after so long; with --count it is a problem if fewer came")
	cmd.Flags().BoolVar(&retained, "retained", false, "first the retained events")
	return cmd
}

func (c *cli) showEvent(b json.RawMessage) error {
	if c.json {
		_, err := fmt.Fprintf(c.out, "%s\n", b)
		return err
	}
	var e control.Line
	if err := json.Unmarshal(b, &e); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c.out, "%s %s %s  (%s)\n", e.Time.Local().Format("15:04:05.000"), e.Topic, e.Payload, e.Source)
	return err
}

// handlePub answers pub in the robot.
func (r *robot) handlePub(ctx context.Context, with json.RawMessage, send func(any) error) error {
	var q pubRequest
	if err := json.Unmarshal(with, &q); err != nil {
		return control.Usagef("pub: %v", err)
	}
	if bus.Runtime(q.Topic) && q.Topic != hw.StopTopic {
		fix := ""
		if strings.HasPrefix(q.Topic, "board/") {
			fix = "; 'edged bb set' sets a key"
		}
		return control.Usagef("pub: topic %q is the runtime's own: nobody else speaks there%s", q.Topic, fix)
	}
	var v any
	if len(q.Payload) > 0 && string(q.Payload) != "null" {
		var err error
		if v, err = bus.DecodeJSON(q.Payload); err != nil {
			return control.Usagef("pub: %v", err)
		}
	}
	if q.Topic != hw.StopTopic {
		if err := r.awaitReady(ctx); err != nil {
			return err
		}
	}
	publish := r.bus.Publish
	if q.Retain {
		publish = r.bus.Retain
	}
	e, err := publish(ctx, control.Who(ctx), q.Topic, v)
	if err != nil {
		return err
	}
	return send(map[string]uint64{"seq": e.Seq})
}

// handleSub answers sub in the robot: it has a queue as anybody else, so a slow
// terminal loses its oldest events and delays nobody.
func (r *robot) handleSub(ctx context.Context, with json.RawMessage, send func(any) error) error {
	var q subRequest
	if err := json.Unmarshal(with, &q); err != nil {
		return control.Usagef("sub: %v", err)
	}
	sub, err := r.bus.Subscribe(q.Filter, bus.Queue{Limit: 1024, Replay: q.Replay, Name: "cli"})
	if err != nil {
		return control.Usagef("sub: %v", err)
	}
	defer sub.Close()
	for e := range sub.All(ctx) {
		if err := send(lineOf(e)); err != nil {
			return nil // the client is gone
		}
	}
	return nil
}
