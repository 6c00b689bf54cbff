package lib

import (
	"errors"
	"fmt"

	"go.starlark.net/starlark"

	"edged/agent"
	"edged/starlark/value"
)

// outcome is a result as scripts see it.
type outcome struct {
	agent.Result
	err  error
	wrap func(agent.Result) starlark.Value // of children
}

// performed makes a script's result of a run, and of a crash a failed one.
func performed(r agent.Result, err error) starlark.Value {
	if err != nil && !errors.Is(err, agent.ErrExit) {
		if r.Status == "" || r.Status == agent.Done {
			r.Status = agent.StatusOf(err)
		}
		if r.Reason == "" {
			r.Reason = err.Error()
		}
	}
	return wrapResult(r)
}

func wrapResult(r agent.Result) starlark.Value {
	o := &outcome{Result: r, wrap: wrapResult}
	if r.Status != agent.Done && r.Status != "" {
		o.err = fmt.Errorf("%w: %s", sentinelOf(r.Status), r.Reason)
	}
	return resultKind.Wrap(o)
}

func sentinelOf(s agent.Status) error {
	for _, err := range []error{agent.ErrTimeout, agent.ErrCancelled, agent.ErrBlocked, agent.ErrRejected, agent.ErrDeadlock, agent.ErrEscalated} {
		if agent.StatusOf(err) == s {
			return err
		}
	}
	return agent.ErrFailed
}

// proceedings are how an interaction went; of anything else, nothing.
func (r *outcome) proceedings() agent.Proceedings {
	if r.Proceedings == nil {
		return agent.Proceedings{}
	}
	return *r.Proceedings
}

func (r *outcome) turns() []any {
	list := []any{}
	for _, t := range r.proceedings().Turns {
		m := map[string]any{"n": int64(t.N), "round": int64(t.Round), "speaker": t.Speaker, "kind": t.Kind, "state": t.State, "asked": int64(t.Asked)}
		if t.Verdict != "" {
			m["verdict"] = t.Verdict
		}
		if t.Why != "" {
			m["why"] = t.Why
		}
		list = append(list, m)
	}
	return list
}

var resultKind = &value.Kind[*outcome]{
	Name: "result", Fixed: true,
	Doc: "What a run gave. It is true if the run is done.",
	Attrs: []value.Attr[*outcome]{
		{Name: "status", Doc: "done, failed, timeout, cancelled, blocked, rejected, deadlock or escalated.", Type: value.String, Get: func(r *outcome) (any, error) { return string(r.Status), nil }},
		{Name: "ok", Doc: "Whether the status is done.", Type: value.Bool, Get: func(r *outcome) (any, error) { return r.OK(), nil }},
		{Name: "reply", Doc: "Words, for people and for the next agent.", Type: value.String, Get: func(r *outcome) (any, error) { return r.Reply, nil }},
		{Name: "output", Doc: "What it gave that is not text, else None.", Get: func(r *outcome) (any, error) { return r.Output, nil }},
		{Name: "reason", Doc: "Why it is not done.", Type: value.String, Get: func(r *outcome) (any, error) { return r.Reason, nil }},
		{Name: "winner", Doc: "Who was picked, where somebody was.", Type: value.String, Get: func(r *outcome) (any, error) { return r.Winner, nil }},
		{Name: "verdict", Doc: "Of an interaction of a society: what was decided last, \"approve\", \"reject\", or who was picked.", Type: value.String, Get: func(r *outcome) (any, error) { return r.proceedings().Verdict, nil }},
		{Name: "ranking", Doc: "Of a competition: who was picked, and who is next if that one fails.", Get: func(r *outcome) (any, error) { return r.proceedings().Ranking, nil }},
		{Name: "rounds", Doc: "Of an interaction: how many rounds it took.", Type: value.Int, Get: func(r *outcome) (any, error) { return int64(r.proceedings().Rounds), nil }},
		{Name: "turns", Doc: "Of an interaction: its turns in order, dicts of n, round, speaker, kind, state, asked, and verdict and why where there is one.", Get: func(r *outcome) (any, error) { return r.turns(), nil }},
		{Name: "degraded", Doc: "Whether it is done with less than it was to have: of an interaction somebody was missing, or somebody above decided; of a question to a person, and its graph, the default was taken for an answer.", Type: value.Bool, Get: func(r *outcome) (any, error) { return r.proceedings().Degraded, nil }},
		{Name: "by", Doc: "The agent that did it.", Type: value.String, Get: func(r *outcome) (any, error) { return r.By, nil }},
		{Name: "elapsed", Doc: "How long it took.", Type: value.Duration, Get: func(r *outcome) (any, error) { return r.Elapsed, nil }},
		{Name: "usage", Doc: "What it spent on models: calls, prompt_tokens, output_tokens.", Get: func(r *outcome) (any, error) {
			return map[string]any{"calls": int64(r.Usage.Calls), "prompt_tokens": int64(r.Usage.PromptTokens), "output_tokens": int64(r.Usage.OutputTokens)}, nil
		}},
		{Name: "receipts", Doc: "The tools that really ran, in order: dicts of tool, args, and result or error. What a reply claims beyond them did not happen.", Get: func(r *outcome) (any, error) { return receipts(r.Receipts), nil }},
		{Name: "run_id", Doc: "The run's id in the trace.", Type: value.String, Get: func(r *outcome) (any, error) { return r.RunID, nil }},
		{Name: "children", Doc: "The results of the parts, in order.", Get: func(r *outcome) (any, error) {
			list := make([]starlark.Value, len(r.Children))
			for i, c := range r.Children {
				list[i] = r.wrap(c)
			}
			return starlark.NewList(list), nil
		}},
	},
	Truth: func(r *outcome) bool { return r.OK() },
	String: func(r *outcome) string {
		if r.OK() {
			return fmt.Sprintf("result(%s, reply = %q)", r.Status, r.Reply)
		}
		return fmt.Sprintf("result(%s, reason = %q)", r.Status, r.Reason)
	},
	Tree: func(r *outcome) (any, error) {
		return map[string]any{"status": string(r.Status), "reply": r.Reply, "output": r.Output, "reason": r.Reason, "by": r.By, "elapsed": r.Elapsed.Seconds()}, nil
	},
}
