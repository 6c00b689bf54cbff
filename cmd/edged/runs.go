package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"edged/agent"
	"edged/blackboard"
	"edged/bus"
	"edged/cmd/edged/internal/config"
	"edged/cmd/edged/internal/control"
	"edged/starlark/lib"
	"edged/starlark/value"
	"edged/workflow"
	"edged/workflow/society"
)

// The verb runs: durable runs of workflows, of the robot that runs or of what
// it left in its data folder.

// runsRequest is what is asked of runs.
type runsRequest struct {
	Op       string `json:"op"`
	ID       string `json:"id,omitempty"`
	Step     string `json:"step,omitempty"`
	Decision string `json:"decision,omitempty"`
	Reply    string `json:"reply,omitempty"`
	As       string `json:"as,omitempty"` // agent whose view of the turns it is
}

// runsDoor is what the verb works on.
type runsDoor struct {
	runs   *workflow.Runs
	turns  *society.Log
	resume func(id string) (ended <-chan struct{}, err error)
	// societies gives those of the scripts; done is called when nobody needs
	// them any more.
	societies func(ctx context.Context) (list []*society.Society, done func(), err error)
}

func (c *cli) runsVerb() *cobra.Command {
	var dir string
	var full bool
	one := func(use, short string, min, max int, do func(args []string) runsRequest) *cobra.Command {
		return verb(use, short, min, max, func(cmd *cobra.Command, args []string) error {
			return c.runs(cmd.Context(), dir, do(args), full)
		})
	}
	list := func([]string) runsRequest { return runsRequest{Op: "list"} }
	cmd := one("runs list|show|turns|resume|cancel|fork|decide|forget …", "List durable runs and turns of societies, and say how they go on", 0, -1, list)
	plain := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownVerb(cmd, args[0])
		}
		return plain(cmd, args)
	}
	id := func(op string) func([]string) runsRequest {
		return func(args []string) runsRequest { return runsRequest{Op: op, ID: args[0]} }
	}
	var at, reply string
	fork := one("fork ID", "Begin anew with what a run had done", 1, 1, func(args []string) runsRequest {
		return runsRequest{Op: "fork", ID: args[0], Step: at}
	})
	fork.Flags().StringVar(&at, "at", "", "the step to begin at: its path or its name, as 'edged runs show' tells them; after all of them if missing")
	decide := one("decide ID STEP again|done|failed", "Say what became of a step in doubt", 3, 3, func(args []string) runsRequest {
		return runsRequest{Op: "decide", ID: args[0], Step: args[1], Decision: args[2], Reply: reply}
	})
	decide.Flags().StringVar(&reply, "reply", "", "what the step answered, if it is done")
	var as string
	turns := one("turns [ID]", "List interactions of societies, or the turns of one", 0, 1, func(args []string) runsRequest {
		return runsRequest{Op: "turns", ID: strings.Join(args, ""), As: as}
	})
	turns.Flags().BoolVar(&full, "full", false, "with prompts, schemas and answers")
	turns.Flags().StringVar(&as, "as", "", "only what this agent may read of them")
	cmd.AddCommand(
		one("list", "List the runs, the oldest first", 0, 0, list),
		one("show ID", "Show a run, its steps and its turns", 1, 1, id("show")),
		turns,
		one("resume ID", "Go on with a run that was interrupted", 1, 1, id("resume")),
		one("cancel ID", "End a run for good", 1, 1, id("cancel")),
		fork, decide,
		one("forget ID", "Delete what is known of a run", 1, 1, id("forget")))
	cmd.PersistentFlags().StringVar(&dir, "dir", "", "folder of the robot; the one here, or else the one running")
	cmd.Long = "Workflows with checkpoint = True keep each step's outcome, and go on by themselves when the robot starts again. A step that moves or sends something and was interrupted\nis in doubt: somebody says with 'edged runs decide' whether it happened; then 'edged runs resume' goes on. The part of an ID that tells it from the others is enough.\nTurns of interactions between agents are kept for the latest hundred, durable or not: who was asked what, with which schema, what came of it, its tokens, its time and its cause."
	cmd.Example = "edged runs\nedged runs show 2c81\nedged runs turns 2c81 --full\nedged runs decide 2c81 1 done\nedged runs resume 2c81\nedged runs fork 2c81 --at 2"
	return cmd
}

// runs asks the robot that is meant, or does it in its data folder.
func (c *cli) runs(ctx context.Context, dir string, q runsRequest, full bool) error {
	cl, cfg, err := c.meant("runs", dir)
	if err != nil {
		return err
	}
	var answer any
	if cl != nil {
		defer cl.Close()
		var text json.RawMessage
		err = cl.Call(ctx, "runs", q, &text)
		answer = text
	} else {
		answer, err = leftRuns(ctx, cfg, q)
	}
	if err != nil {
		return err
	}
	bad := c.print(answer, func(w io.Writer) {
		lines := bufio.NewWriter(w)
		if q.Op == "turns" && q.ID != "" {
			err = showTurns(lines, answer, full)
		} else {
			err = showRuns(lines, q.Op, answer)
		}
		_ = lines.Flush() // who closes the terminal sees no error
	})
	return cmp.Or(bad, err)
}

// readAs gives an answer of the verb, which is text if it came over the socket.
func readAs[T any](answer any) (v T, err error) {
	if text, ok := answer.(json.RawMessage); ok {
		return v, json.Unmarshal(text, &v)
	}
	v, ok := answer.(T)
	if !ok {
		return v, fmt.Errorf("runs: the answer is of type %T", answer)
	}
	return v, nil
}

// leftRuns does what is asked in the data folder of a robot that doesn't run.
func leftRuns(ctx context.Context, cfg *config.Config, q runsRequest) (any, error) {
	file := boardFile(cfg)
	if _, err := os.Stat(file); err != nil {
		return nil, fmt.Errorf("runs: %s has no data yet", cfg.Name)
	}
	// What is read here is let go when the process ends: collecting garbage of
	// ten thousand runs takes a quarter of the time.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(256 << 20))
	b := bus.New(bus.Options{})
	defer func() { _ = b.Close(ctx) }() // nobody is listening
	board, err := blackboard.Open(b, blackboard.Options{Path: file})
	if err != nil {
		return nil, inUse("runs", file, err)
	}
	resume := func(string) (<-chan struct{}, error) {
		return nil, fmt.Errorf("%s is not running; it goes on with its runs when it starts", cfg.Name)
	}
	v, err := runsOp(ctx, &runsDoor{
		runs: workflow.NewRuns(board.Records("runs"), workflow.RunsOptions{}), turns: society.NewLog(board.Records(roomOfTurns), society.LogOptions{}),
		resume: resume, societies: folderSocieties(cfg),
	}, q)
	if bad := board.Close(); err == nil {
		err = bad
	}
	return v, err
}

// handleRuns answers runs in the robot.
func (r *robot) handleRuns(ctx context.Context, with json.RawMessage, send func(any) error) error {
	var q runsRequest
	if err := json.Unmarshal(with, &q); err != nil {
		return control.Usagef("runs: %v", err)
	}
	running, _ := r.scripts.behaviour()
	v, err := runsOp(context.WithoutCancel(ctx), &runsDoor{
		runs: running.Runs(), turns: running.Turns(), resume: running.ResumeRun,
		societies: func(context.Context) ([]*society.Society, func(), error) { return running.Societies(), func() {}, nil },
	}, q)
	if err != nil {
		return err
	}
	return send(v)
}

// runsOp does what is asked. What is resumed goes on by itself.
func runsOp(ctx context.Context, d *runsDoor, q runsRequest) (any, error) {
	runs := d.runs
	switch {
	case q.Op == "list":
		return append([]workflow.RunInfo{}, runs.List()...), nil
	case q.Op == "turns" && q.ID == "":
		return talks(d.turns), nil
	}
	id, err := d.wholeID(q.ID)
	if err != nil {
		return nil, err
	}
	switch q.Op {
	case "show":
		return d.show(id)
	case "turns":
		return d.seenBy(ctx, id, q.As)
	case "resume":
		return d.goOn(id)
	case "cancel":
		err = runs.Cancel(ctx, id)
	case "fork":
		at := q.Step
		if at != "" {
			if at, err = stepOf(runs, id, at, func(workflow.StepInfo) bool { return true }); err != nil {
				return nil, err
			}
		}
		id, err = runs.Fork(ctx, id, at)
	case "decide":
		what := workflow.Decision(q.Decision)
		if what != workflow.RunAgain && what != workflow.TakeAsDone && what != workflow.TakeAsFault {
			return nil, control.Usagef("runs decide: %q: say again, done or failed", q.Decision)
		}
		var at string
		if at, err = stepOf(runs, id, q.Step, func(s workflow.StepInfo) bool { return s.State == workflow.StateInDoubt }); err != nil {
			return nil, err
		}
		err = runs.Decide(ctx, id, at, what, agent.Result{Reply: q.Reply})
	case "forget":
		err = runs.Forget(ctx, id)
	default:
		return nil, control.Usagef("runs: unknown operation %q", q.Op)
	}
	return map[string]string{"id": id}, err
}

// soon is how long it is watched what comes of a run that is resumed: one that
// waits for a decision does so at once.
const soon = 300 * time.Millisecond

// goOn resumes a run, and says what it waits for if it does.
func (d *runsDoor) goOn(id string) (any, error) {
	ended, err := d.resume(id)
	if err != nil {
		return nil, fmt.Errorf("runs: %w", err)
	}
	t := time.NewTimer(soon)
	defer t.Stop()
	select {
	case <-ended:
	case <-t.C:
	}
	info, err := d.runs.Get(id)
	if err != nil {
		return nil, err
	}
	if text := doubts(info); text != "" {
		return nil, errors.New("runs: " + text)
	}
	if open, err := d.runs.Questions(id); err == nil && len(open) > 0 {
		info.State = workflow.StateWaiting
		info.Reason = count(len(open), "question") + ": edged answer"
	}
	return map[string]string{"id": id, "state": info.State, "reason": info.Reason}, nil
}

// doubts says that a run waits for a decision, and how it is made; empty if it
// doesn't.
func doubts(r workflow.RunInfo) string {
	var steps []string
	for _, s := range r.Steps {
		if s.State == workflow.StateInDoubt {
			steps = append(steps, fmt.Sprintf("whether %s (step %s) happened is not known\n  edged runs decide %s %s again|done|failed", s.Name, s.Path, r.ID, s.Path))
		}
	}
	if steps == nil || !r.Ended.IsZero() {
		return ""
	}
	return r.ID + " waits for a decision: " + strings.Join(steps, "\n")
}

// stepOf finds the path of a step by its path, its name or, in a graph, its
// number in the run. Of several with one name it is the first that is meant.
func stepOf(runs *workflow.Runs, id, at string, meant func(workflow.StepInfo) bool) (string, error) {
	info, err := runs.Get(id)
	if err != nil {
		return "", err
	}
	named, numbered, n := "", "", 0
	for _, s := range info.Steps {
		if s.Path == at {
			return at, nil
		}
		if named == "" && s.Name == at && meant(s) {
			named = s.Path
		}
		if strings.Contains(s.Path, "~") && !strings.ContainsAny(s.Path, "./") {
			if n++; strconv.Itoa(n) == at {
				numbered = s.Path
			}
		}
	}
	return cmp.Or(named, numbered, at), nil
}

// wholeID finds a run by a part of its id.
func (d *runsDoor) wholeID(part string) (string, error) {
	all := d.turns.Runs()
	for _, r := range d.runs.List() {
		all = append(all, r.ID)
	}
	var hits []string
	for _, id := range all {
		if id == part {
			return id, nil
		}
		if part != "" && strings.Contains(id, part) && !slices.Contains(hits, id) {
			hits = append(hits, id)
		}
	}
	switch {
	case len(hits) == 1:
		return hits[0], nil
	case len(hits) > 1:
		return "", fmt.Errorf("runs: %d runs have %q in their id: %s", len(hits), part, strings.Join(hits, ", "))
	}
	if near := value.Nearest(part, all); near != "" {
		return "", fmt.Errorf("runs: no run %q; did you mean %q?", part, near)
	}
	return "", fmt.Errorf("runs: no run %q; 'edged runs' lists them", part)
}

func showRuns(w io.Writer, op string, answer any) error {
	switch op {
	case "list":
		list, err := readAs[[]workflow.RunInfo](answer)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			fmt.Fprintln(w, "no durable runs; workflows with checkpoint = True make them")
		}
		for _, r := range list {
			fmt.Fprintf(w, "%s  %-12s %-20s %s%s\n", r.ID, r.State, r.Workflow, r.Started.Local().Format(time.DateTime), because(r.Reason))
		}
	case "turns":
		return showTalks(w, answer)
	case "show":
		r, err := readAs[runShown](answer)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s  %s  %s%s\n", r.ID, r.Workflow, r.State, because(r.Reason))
		for _, s := range r.Steps {
			what := s.State
			if s.Reply != "" {
				what += ": " + s.Reply
			}
			fmt.Fprintf(w, "  %-8s %-20s %s%s\n", s.Path, s.Name, what, because(s.Reason))
			r.Turns = showTurnsAt(w, r.Turns, s.Path)
		}
		showTurnsAt(w, r.Turns, "")
		if text := doubts(r.RunInfo); text != "" {
			fmt.Fprintln(w, text)
		} else if r.State == workflow.StateInterrupted && !strings.Contains(r.Reason, "edged runs") { // that hinders it
			by := "it goes on when the robot starts, or"
			if r.Reason == lib.RobotStopped {
				by = "go on"
			}
			fmt.Fprintf(w, "%s with: edged runs resume %s\n", by, r.ID)
		}
	default:
		done, err := readAs[map[string]string](answer)
		if err != nil {
			return err
		}
		came := ""
		if s := done["state"]; s != workflow.StateRunning && s != "" {
			came = ": " + s + because(done["reason"])
		}
		fmt.Fprintf(w, "%s %s%s\n", map[string]string{"resume": "resumed", "cancel": "cancelled", "fork": "made", "decide": "decided", "forget": "forgot"}[op], done["id"], came)
		if op == "fork" || op == "decide" {
			fmt.Fprintf(w, "go on with: edged runs resume %s\n", done["id"])
		}
	}
	return nil
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}
