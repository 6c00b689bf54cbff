package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"time"

	"edged/bus/trace"
	"edged/cmd/edged/internal/config"
	"edged/starlark/lib"
	"edged/workflow"
	"edged/workflow/society"
)

// What the verb runs tells of turns: who was asked what on which edge of a
// society, and what came of it.

const (
	roomOfTurns = "turns"                // of the blackboard, where they are kept
	turnTopic   = "edged/society/+/turn" // that tells of one
)

// runShown is a run with the turns of its interactions. One that is not durable
// has nothing but turns.
type runShown struct {
	workflow.RunInfo
	Turns []society.Turn `json:"turns,omitempty"`
}

// talked is an interaction whose turns are kept.
type talked struct {
	ID      string    `json:"id"`   // of the run
	Path    string    `json:"path"` // in it
	Society string    `json:"society"`
	Edge    string    `json:"edge"`
	Turns   int       `json:"turns"`
	Calls   int       `json:"calls"`  // of models
	Tokens  int       `json:"tokens"` // read and written
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	Last    string    `json:"last"` // what came of the last turn
}

// talks lists the interactions of a log, the oldest first.
func talks(log *society.Log) []talked {
	list := []talked{}
	for _, id := range log.Runs() {
		for _, t := range log.Turns(id) {
			i := slices.IndexFunc(list, func(x talked) bool { return x.ID == t.Run && x.Path == t.Path && x.Edge == t.Edge })
			if i < 0 {
				i = len(list)
				list = append(list, talked{ID: t.Run, Path: t.Path, Society: t.Society, Edge: t.Edge, Started: t.Started})
			}
			x := &list[i]
			x.Turns++
			x.Calls += t.Usage.Calls
			x.Tokens += t.Usage.PromptTokens + t.Usage.OutputTokens
			x.Ended, x.Last = t.Started.Add(t.Elapsed), fmt.Sprintf("%s %s: %s", t.Speaker, t.Kind, outcomeOfTurn(t))
		}
	}
	return list
}

// show gives a run, durable or not.
func (d *runsDoor) show(id string) (any, error) {
	turns := d.turns.Turns(id)
	info, err := d.runs.Get(id)
	if err != nil && len(turns) > 0 {
		first, last := turns[0], turns[len(turns)-1]
		info, err = workflow.RunInfo{ID: id, Workflow: first.Edge, State: "not durable", Started: first.Started, Ended: last.Started.Add(last.Elapsed)}, nil
	}
	return runShown{info, turns}, err
}

// seenBy gives the turns of a run as one of the agents may read them.
func (d *runsDoor) seenBy(ctx context.Context, id, viewer string) ([]society.Turn, error) {
	turns := d.turns.Turns(id)
	if viewer == "" {
		return append([]society.Turn{}, turns...), nil
	}
	societies, done, err := d.societies(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	seen := []society.Turn{}
	known := false
	var names []string
	for _, s := range societies {
		for _, a := range s.Agents() {
			names = append(names, a.Name)
			known = known || a.Name == viewer
		}
		for _, i := range s.AllEdges() {
			seen = append(seen, i.View(viewer, turns)...)
		}
	}
	if !known {
		return nil, fmt.Errorf("runs: no agent of a society is called %q%s", viewer, perhaps(viewer, names))
	}
	sort.SliceStable(seen, func(i, j int) bool { return seen[i].Started.Before(seen[j].Started) })
	return seen, nil
}

// folderSocieties loads a folder in memory for its societies.
func folderSocieties(cfg *config.Config) func(ctx context.Context) ([]*society.Society, func(), error) {
	return func(ctx context.Context) ([]*society.Society, func(), error) {
		m, err := openModel(cfg)
		if err != nil {
			return nil, nil, err
		}
		b, err := lib.Load(ctx, m.host, m.root.FS(), loadOptions(cfg))
		if err != nil {
			m.close()
			return nil, nil, err
		}
		return b.Societies(), func() {
			_ = b.Stop(ctx) // nothing of it runs
			m.close()
		}, nil
	}
}

// showTalks lists interactions.
func showTalks(w io.Writer, answer any) error {
	list, err := readAs[[]talked](answer)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		fmt.Fprintln(w, "no turns; interactions of societies have them")
	}
	for _, t := range list {
		fmt.Fprintf(w, "%s  %s  %-28s %s, %s, last %s\n", t.ID, t.Started.Local().Format(time.DateTime), t.Edge,
			count(t.Turns, "turn"), count(t.Calls, "model call"), t.Last)
	}
	return nil
}

// showTurns prints a run's turns; full is with all that was asked and said.
func showTurns(w io.Writer, answer any, full bool) error {
	list, err := readAs[[]society.Turn](answer)
	if err != nil {
		return err
	}
	var last society.Turn
	for i, t := range list {
		if i == 0 || t.Edge != last.Edge || t.Path != last.Path || t.Cause != last.Cause {
			head := t.Edge
			if t.Path != "" {
				head += ", step " + t.Path
			}
			if t.Cause > 0 {
				head += fmt.Sprintf(", because of event %d", t.Cause)
			}
			fmt.Fprintln(w, head)
		}
		last = t
		fmt.Fprintf(w, "  %s\n", turnLine(t))
		if full {
			fullTurn(w, t)
		}
	}
	return nil
}

// showTurnsAt prints the turns that were taken at a step of a run, or in it, or
// all with "", and gives the others.
func showTurnsAt(w io.Writer, list []society.Turn, step string) (rest []society.Turn) {
	for _, t := range list {
		at, below := strings.CutPrefix(t.Path, step)
		if step != "" && (!below || at != "" && !strings.ContainsRune("./~", rune(at[0]))) {
			rest = append(rest, t)
			continue
		}
		fmt.Fprintf(w, "    %s\n", turnLine(t))
	}
	return rest
}

// turnLine is a turn in a line.
func turnLine(t society.Turn) string {
	took := t.Elapsed.Round(time.Millisecond)
	if took == 0 {
		took = t.Elapsed.Round(time.Microsecond)
	}
	more := []string{took.String()}
	if n := t.Usage.PromptTokens + t.Usage.OutputTokens; n > 0 {
		more = append(more, fmt.Sprintf("%d+%d tokens", t.Usage.PromptTokens, t.Usage.OutputTokens))
	}
	if t.Asked > 1 {
		more = append(more, fmt.Sprintf("asked %s", count(t.Asked, "time")))
	}
	if t.Tainted {
		more = append(more, "words of others in it")
	}
	who := t.Speaker
	if who == "" {
		who = "(not for its eyes)"
	}
	return fmt.Sprintf("%-3d round %d  %-12s %-8s %s  (%s)", t.N, t.Round, who, t.Kind, outcomeOfTurn(t), strings.Join(more, ", "))
}

// outcomeOfTurn is what came of a turn: the answer, or why there is none.
func outcomeOfTurn(t society.Turn) string {
	s := string(t.State)
	switch {
	case t.State != society.OK:
		if t.Why != "" {
			s += ": " + t.Why
		}
	case t.Verdict != "":
		s = t.Verdict
		if because := reasonIn(t.Answer); because != "" {
			s += ": " + because
		}
	case len(t.Answer) > 0:
		s = string(t.Answer)
	}
	return cut(s, 160)
}

// reasonIn is why somebody decided so.
func reasonIn(answer json.RawMessage) string {
	var said struct{ Because, Comments string }
	if json.Unmarshal(answer, &said) != nil {
		return ""
	}
	return said.Because + said.Comments
}

// cut keeps a line one: of so many characters at most.
func cut(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}

func fullTurn(w io.Writer, t society.Turn) {
	for _, x := range []struct{ word, text string }{
		{"system", t.System}, {"prompt", t.Prompt}, {"schema", string(t.Schema)}, {"answer", string(t.Answer)}, {"raw", string(t.Raw)}, {"said", t.Said},
	} {
		if x.text != "" {
			block(w, "      ", x.word, x.text)
		}
	}
	for _, r := range t.Tools {
		came := string(r.Result)
		if r.Err != nil {
			came = "failed: " + r.Err.Error()
		}
		block(w, "      ", "tool", fmt.Sprintf("%s %s → %s", r.Tool, r.Args, came))
	}
}

// turnTold is what the record has of a turn.
type turnTold struct {
	Speaker, Kind, Verdict, State, Why, Edge, Run string
	N, Round                                      int
	Elapsed                                       float64
}

// turns says what came of the turns of the latest run that match.
func (e *evidence) turns(a *answer, match func(turnTold) bool) {
	type event struct {
		*trace.Node
		turnTold
	}
	var list []event
	for _, n := range e.tree.Match(turnTopic) {
		var t turnTold
		if json.Unmarshal(n.Payload, &t) != nil || !match(t) {
			continue
		}
		if len(list) > 0 && list[0].Run != t.Run {
			list = nil
		}
		list = append(list, event{n, t})
	}
	if over := len(list) - lastTurns; over > 0 {
		list = list[over:]
	}
	for _, t := range list {
		came := t.Verdict
		if came == "" || t.State != string(society.OK) {
			came = t.State
		}
		if t.Why != "" {
			came += ": " + t.Why
		}
		a.because(t.Node, "turn", "%s, turn %d, round %d: %s was to %s: %s after %.3f s", t.Edge, t.N, t.Round, t.Speaker, t.Kind, came, t.Elapsed)
	}
	if len(list) > 0 {
		a.add("state", "all of it: edged runs turns %s --full", list[0].Run)
	}
}

// lastTurns bounds how many turns why tells of.
const lastTurns = 8
