package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"edged/blackboard"
	"edged/bus"
	"edged/cmd/edged/internal/control"
	"edged/starlark/value"
)

// The verbs of the blackboard and their side in the running robot.

type bbRequest struct {
	Op     string          `json:"op"`
	Key    string          `json:"key"`
	Value  json.RawMessage `json:"value,omitempty"`
	TTL    time.Duration   `json:"ttl,omitempty"`
	Mode   string          `json:"mode,omitempty"`
	N      int             `json:"n,omitempty"`
	Wait   time.Duration   `json:"wait,omitempty"`
	Prefix bool            `json:"prefix,omitempty"`
}

// bbEntry is a key as it is shown.
type bbEntry struct {
	Key     string    `json:"key"`
	Value   any       `json:"value"`
	Version uint64    `json:"version,omitempty"`
	Time    time.Time `json:"time,omitzero"`
	Writer  string    `json:"writer,omitempty"`
	TTL     string    `json:"ttl,omitempty"`
	Durable bool      `json:"durable,omitempty"` // it is kept on disk
	Damaged string    `json:"damaged,omitempty"` // why there is no value
}

func (c *cli) bbVerb() *cobra.Command {
	cmd := verb("bb get|set|delete|incr|keys|show|history|watch|ask …", "Read and write the blackboard", 0, -1, func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownVerb(cmd, args[0])
		}
		return cmd.Help()
	})
	var ttl, wait time.Duration
	var mode string
	set := verb("set KEY VALUE", "Store a value: JSON, or text", 2, 2, func(cmd *cobra.Command, args []string) error {
		if _, ok := modes[mode]; !ok {
			return usagef("bb set: unknown mode %q; use memory, group or sync", mode)
		}
		v, err := c.payload(args[1], false)
		if err != nil {
			return err
		}
		return c.bb(cmd.Context(), bbRequest{Op: "set", Key: args[0], Value: v, TTL: ttl, Mode: mode})
	})
	set.Flags().DurationVar(&ttl, "ttl", 0, "the key disappears after that time")
	set.Flags().StringVar(&mode, "mode", "", "memory, group or sync; the key's own if empty")
	incr := verb("incr KEY [BY]", "Add to a number", 1, 2, func(cmd *cobra.Command, args []string) error {
		by := json.RawMessage("1")
		if len(args) == 2 {
			by = json.RawMessage(args[1])
		}
		if !json.Valid(by) {
			return usagef("bb incr: %q is no number", args[1])
		}
		return c.bb(cmd.Context(), bbRequest{Op: "incr", Key: args[0], Value: by})
	})
	ask := verb("ask KEY [TASK]", "Post a request and print the answer", 1, 2, func(cmd *cobra.Command, args []string) error {
		r := bbRequest{Op: "ask", Key: args[0], Wait: wait}
		if len(args) == 2 {
			v, err := c.payload(args[1], false)
			if err != nil {
				return err
			}
			r.Value = v
		}
		return c.bb(cmd.Context(), r)
	})
	ask.Flags().DurationVar(&wait, "timeout", 30*time.Second, "how long to wait for an answer")
	history := verb("history KEY [N]", "Print the past values of a key declared with history", 1, 2, func(cmd *cobra.Command, args []string) error {
		n := 20
		if len(args) == 2 {
			if _, err := fmt.Sscan(args[1], &n); err != nil || n < 1 {
				return usagef("bb history: %q is no number of values", args[1])
			}
		}
		return c.bb(cmd.Context(), bbRequest{Op: "history", Key: args[0], N: n})
	})
	cmd.AddCommand(set, incr, ask, history,
		verb("get KEY", "Print a value", 1, 1, func(cmd *cobra.Command, args []string) error {
			return c.bb(cmd.Context(), bbRequest{Op: "get", Key: args[0]})
		}),
		verb("delete KEY", "Remove a key", 1, 1, func(cmd *cobra.Command, args []string) error {
			return c.bb(cmd.Context(), bbRequest{Op: "delete", Key: args[0]})
		}),
		verb("keys [PREFIX]", "List the keys", 0, 1, func(cmd *cobra.Command, args []string) error {
			return c.bb(cmd.Context(), bbRequest{Op: "keys", Key: strings.Join(args, "")})
		}),
		verb("show [PREFIX]", "Print all keys with their values", 0, 1, func(cmd *cobra.Command, args []string) error {
			return c.bb(cmd.Context(), bbRequest{Op: "show", Key: strings.Join(args, "")})
		}),
		verb("watch [PATTERN]", "Print changes as they are committed", 0, 1, func(cmd *cobra.Command, args []string) error {
			return c.bb(cmd.Context(), bbRequest{Op: "watch", Key: strings.Join(args, "")})
		}))
	return cmd
}

// bb asks the running robot and prints what comes.
func (c *cli) bb(ctx context.Context, r bbRequest) error {
	return c.stream(ctx, "bb", r, func(b json.RawMessage) error {
		if c.json {
			_, err := fmt.Fprintf(c.out, "%s\n", b)
			return err
		}
		return c.showBB(r.Op, b)
	})
}

func (c *cli) showBB(op string, b json.RawMessage) error {
	switch op {
	case "show", "history":
		var list []bbEntry
		if err := json.Unmarshal(b, &list); err != nil {
			return err
		}
		for _, e := range list {
			if e.Damaged != "" {
				fmt.Fprintf(c.out, "%s  DAMAGED: %s\n", e.Key, e.Damaged)
				continue
			}
			fmt.Fprintf(c.out, "%s  %s  (version %d, %s, %s)\n", e.Key, compact(e.Value), e.Version, e.Writer, e.Time.Local().Format("15:04:05"))
		}
	case "keys":
		var list []string
		if err := json.Unmarshal(b, &list); err != nil {
			return err
		}
		for _, k := range list {
			fmt.Fprintln(c.out, k)
		}
	case "watch":
		var ch struct {
			Key      string
			Old, New any
			Writer   string
		}
		if err := json.Unmarshal(b, &ch); err != nil {
			return err
		}
		fmt.Fprintf(c.out, "%s  %s → %s  (%s)\n", ch.Key, compact(ch.Old), compact(ch.New), ch.Writer)
	case "set", "delete":
	default:
		fmt.Fprintf(c.out, "%s\n", b)
	}
	return nil
}

var modes = map[string]blackboard.Mode{
	"": blackboard.Default, "memory": blackboard.Memory, "group": blackboard.Group, "sync": blackboard.Sync,
}

// handleBB answers bb in the robot.
func (r *robot) handleBB(ctx context.Context, with json.RawMessage, send func(any) error) error {
	var q bbRequest
	if err := json.Unmarshal(with, &q); err != nil {
		return control.Usagef("bb: %v", err)
	}
	var v any
	if len(q.Value) > 0 {
		var err error
		if v, err = bus.DecodeJSON(q.Value); err != nil {
			return control.Usagef("bb: %v", err)
		}
	}
	switch q.Op {
	case "get":
		e, ok := r.board.Entry(q.Key)
		if !ok {
			return r.noKey(q.Key)
		}
		return send(e.Value)
	case "set":
		n, err := r.board.Set(ctx, control.Who(ctx), q.Key, v, blackboard.SetOptions{TTL: q.TTL, Mode: modes[q.Mode]})
		if err != nil {
			return err
		}
		return send(map[string]uint64{"version": n})
	case "delete":
		ok, err := r.board.Delete(ctx, control.Who(ctx), q.Key)
		if err == nil && !ok {
			err = r.noKey(q.Key)
		}
		return err
	case "incr":
		sum, err := r.board.Incr(ctx, control.Who(ctx), q.Key, v)
		if err != nil {
			return err
		}
		return send(sum)
	case "keys":
		return send(r.board.Keys(q.Key))
	case "show":
		return send(r.entries(q.Key))
	case "history":
		if err := r.board.Damaged(q.Key); err != nil {
			return err
		}
		list := []bbEntry{}
		for _, e := range r.board.History(q.Key, q.N) {
			list = append(list, shown(e))
		}
		return send(list)
	case "watch":
		return r.watchBoard(ctx, q.Key, send)
	case "ask":
		return r.askBoard(ctx, q, v, send)
	}
	return control.Usagef("bb: unknown operation %q", q.Op)
}

// noKey names the key that may have been meant.
func (r *robot) noKey(key string) error {
	if err := r.board.Damaged(key); err != nil {
		return err
	}
	if n := value.Nearest(key, r.board.Keys("")); n != "" {
		return fmt.Errorf("bb: no key %q; did you mean %q?", key, n)
	}
	return fmt.Errorf("bb: no key %q", key)
}

func shown(e blackboard.Entry) bbEntry {
	s := bbEntry{Key: e.Key, Value: e.Value, Version: e.Version, Time: e.Time, Writer: e.Writer, Durable: e.Durable}
	if e.TTL > 0 {
		s.TTL = e.TTL.Round(time.Second).String()
	}
	return s
}

func (r *robot) entries(prefix string) []bbEntry {
	list := []bbEntry{}
	for _, k := range r.board.Keys(prefix) {
		if e, ok := r.board.Entry(k); ok {
			list = append(list, shown(e))
		} else if err := r.board.Damaged(k); err != nil {
			list = append(list, bbEntry{Key: k, Damaged: err.Error()})
		}
	}
	return list
}

func (r *robot) watchBoard(ctx context.Context, pattern string, send func(any) error) error {
	if pattern == "" {
		pattern = "*"
	}
	gone := make(chan struct{})
	w, err := r.board.Watch(pattern, blackboard.WatchOptions{Name: "cli", Queue: 1024}, func(_ context.Context, c blackboard.Change) error {
		if _, request := c.New.(*blackboard.Request); request {
			return nil
		}
		if err := send(map[string]any{"key": c.Key, "old": c.Old, "new": c.New, "version": c.Version, "writer": c.Writer, "time": c.Time}); err != nil {
			select {
			case <-gone:
			default:
				close(gone)
			}
		}
		return nil
	})
	if err != nil {
		return control.Usagef("bb: %v", err)
	}
	defer w.Close()
	select {
	case <-ctx.Done():
	case <-gone:
	}
	return nil
}

func (r *robot) askBoard(ctx context.Context, q bbRequest, task any, send func(any) error) error {
	f, err := r.board.Post(ctx, control.Who(ctx), q.Key, task, blackboard.PostOptions{Timeout: q.Wait})
	if err != nil {
		return err
	}
	defer f.Cancel()
	v, err := f.Result(ctx)
	if err != nil {
		return err
	}
	return send(v)
}

// dumpBoard prints the board's keys to w, for inspect.
func dumpBoard(w io.Writer, list []bbEntry) {
	for _, e := range list {
		if e.Damaged != "" {
			fmt.Fprintf(w, "  %s: DAMAGED: %s\n", e.Key, e.Damaged)
			continue
		}
		fmt.Fprintf(w, "  %s = %s\n", e.Key, compact(e.Value))
	}
}
