package workflow

import (
	"encoding/json"
	"math"
	"time"

	"edged/agent"
	"edged/bus"
	"edged/bus/origin"
)

// encodedTree is JSON text in which 3.0 stays apart from 3.
type encodedTree = json.RawMessage

func encode(v any) ([]byte, error) { return json.Marshal(v) }

func decodeInto(text []byte, v any) error { return json.Unmarshal(text, v) }

// tree makes a JSON tree something that keeps its floats when it is written.
func tree(v any) any {
	switch v := v.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1e15 {
			b, _ := json.Marshal(v)
			return json.RawMessage(append(b, '.', '0'))
		}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = tree(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = tree(v[k])
		}
		return out
	}
	return v
}

// treeText writes a tree. What has no JSON form is left out: a run must not
// fail over an output that only this process could use.
func treeText(v any) encodedTree {
	if v == nil {
		return nil
	}
	b, err := json.Marshal(tree(v))
	if err != nil {
		return nil
	}
	return b
}

func treeOf(text encodedTree) any {
	if len(text) == 0 {
		return nil
	}
	v, err := bus.DecodeJSON(text)
	if err != nil {
		return nil
	}
	return v
}

type taskRecord struct {
	Input        encodedTree  `json:"input,omitempty"`
	Origin       origin.Label `json:"origin,omitempty"`
	Conversation string       `json:"conversation,omitempty"`
}

func taskOf(t agent.Task) *taskRecord {
	return &taskRecord{treeText(t.Input), t.Origin, t.Conversation}
}

func (t *taskRecord) task() agent.Task {
	return agent.Task{Input: treeOf(t.Input), Origin: t.Origin, Conversation: t.Conversation}
}

type resultRecord struct {
	Status   agent.Status    `json:"status"`
	Reply    string          `json:"reply,omitempty"`
	Output   encodedTree     `json:"output,omitempty"`
	Reason   string          `json:"reason,omitempty"`
	Winner   string          `json:"winner,omitempty"`
	By       string          `json:"by,omitempty"`
	Elapsed  time.Duration   `json:"elapsed"` // ns
	Usage    agent.Usage     `json:"usage,omitzero"`
	RunID    string          `json:"run,omitempty"`
	Children []*resultRecord `json:"children,omitempty"`
	Receipts []agent.Receipt `json:"receipts,omitempty"`
	Origin   origin.Label    `json:"origin,omitempty"`
	Tainted  bool            `json:"tainted,omitempty"` // of records that have no origin

	Proceedings *agent.Proceedings `json:"proceedings,omitempty"`
}

func resultOf(r agent.Result) *resultRecord {
	out := &resultRecord{r.Status, r.Reply, treeText(r.Output), r.Reason, r.Winner, r.By, r.Elapsed, r.Usage, r.RunID, nil, r.Receipts, r.Origin, false, r.Proceedings}
	for _, c := range r.Children {
		out.Children = append(out.Children, resultOf(c))
	}
	return out
}

func (r *resultRecord) result() agent.Result {
	out := agent.Result{Status: r.Status, Reply: r.Reply, Output: treeOf(r.Output), Reason: r.Reason, Winner: r.Winner,
		By: r.By, Elapsed: r.Elapsed, Usage: r.Usage, RunID: r.RunID, Receipts: r.Receipts, Origin: r.Origin, Proceedings: r.Proceedings}
	if r.Tainted {
		out.Origin = origin.Merge(out.Origin, origin.Of("agent:"+r.By))
	}
	for _, c := range r.Children {
		out.Children = append(out.Children, c.result())
	}
	return out
}
