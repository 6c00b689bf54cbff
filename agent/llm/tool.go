package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"

	"edged/agent"
	"edged/agent/llm/schema"
)

const declineName = "decline"

func declineTool() Tool {
	return Tool{
		Name: declineName,
		Doc:  "Say that you can't do what was asked, and why.",
		Params: json.RawMessage(`{"type":"object","properties":{"reason":{"type":"string","maxLength":200}},` +
			`"additionalProperties":false}`),
	}
}

// An ArgsError is the error of a call whose arguments don't fit its tool.
type ArgsError struct {
	Tool   string
	Params *schema.Schema
	Err    error
}

func (e *ArgsError) Error() string { return fmt.Sprintf("wrong arguments for %s: %v", e.Tool, e.Err) }
func (e *ArgsError) Unwrap() error { return e.Err }

// job is one call on its way.
type job struct {
	call   Call
	tool   *offered // nil if there is no such tool
	result json.RawMessage
	err    error
	ready  bool // may run
	ran    bool
	intent uint64 // its line in the audit
}

// run does the calls of an answer: tools in their order, then handoffs, then a
// refusal; over says that the run has its result.
func (t *turn) run(ctx context.Context, answer Message) (r agent.Result, over bool, err error) {
	t.add(answer)
	jobs := make([]job, len(answer.Calls))
	together := t.a.o.Together != nil && len(jobs) > 1
	for i, c := range answer.Calls {
		jobs[i] = job{call: c, tool: t.find(c.Name)}
		together = together && jobs[i].tool != nil && jobs[i].tool.Parallel && jobs[i].tool.Do != nil
	}
	if together {
		err = t.runTogether(ctx, jobs)
	} else {
		err = t.runInOrder(ctx, jobs)
	}
	if err != nil {
		return agent.Result{}, true, err
	}
	handoffs, declined := t.collect(jobs)
	if len(handoffs) > 0 {
		r, err := t.handOver(ctx, handoffs)
		return r, true, err
	}
	if declined != "" {
		return agent.Result{}, true, agent.Declined(declined)
	}
	return agent.Result{}, false, nil
}

// find looks a tool up among those offered now.
func (t *turn) find(name string) *offered {
	tool := t.a.tools[name]
	if tool == nil || !slices.ContainsFunc(t.offer, func(o Tool) bool { return o.Name == name }) {
		return nil
	}
	if slices.Contains(t.unsaid, name) {
		o := *tool
		o.params = tool.bare
		return &o
	}
	return tool
}

func (t *turn) runInOrder(ctx context.Context, jobs []job) error {
	for i := range jobs {
		j := &jobs[i]
		if err := t.prepare(ctx, j); err != nil {
			return err
		}
		if j.ready {
			if j.tool.Effect == Write && t.find(j.call.Name) == nil { // others' words came in between
				j.err, j.ready = fmt.Errorf("%s is not available after data from outside", j.call.Name), false
			} else {
				t.execute(ctx, j)
			}
		}
		if err := t.finish(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

// runTogether runs calls side by side; hooks still see them one by one.
func (t *turn) runTogether(ctx context.Context, jobs []job) error {
	var fs []func()
	for i := range jobs {
		j := &jobs[i]
		if err := t.prepare(ctx, j); err != nil {
			return err
		}
		if j.ready {
			fs = append(fs, func() { t.execute(ctx, j) })
		}
	}
	if len(fs) > 0 {
		t.a.o.Together(fs)
	}
	var first error
	for i := range jobs { // every call that ran gets its receipt
		if err := t.finish(ctx, &jobs[i]); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// prepare checks a call and asks the hooks.
func (t *turn) prepare(ctx context.Context, j *job) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if j.tool == nil {
		j.err = fmt.Errorf("there is no tool %q now; there are %s", clip(j.call.Name, 60), t.names())
		return nil
	}
	if j.err = j.check(); j.err != nil {
		return nil
	}
	if j.tool.Do == nil { // handoff or refusal
		return nil
	}
	s := Step{Tool: j.tool.Tool, Call: j.call}
	before := string(j.call.Args)
	if err := t.fire(ctx, BeforeTool, &s); err != nil {
		return err
	}
	j.call.Args = s.Call.Args
	if string(j.call.Args) != before {
		if j.err = j.check(); j.err != nil {
			return nil
		}
	}
	if s.Result != nil || s.Err != nil {
		j.result, j.err = s.Result, s.Err
		return nil
	}
	j.ready = true
	return nil
}

func (j *job) check() error {
	args := j.call.Args
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	_, text, err := j.tool.params.Accept(args)
	if err != nil {
		return &ArgsError{j.call.Name, j.tool.params, err}
	}
	j.call.Args = text
	return nil
}

func (t *turn) names() string {
	names := make([]string, 0, len(t.offer))
	for _, o := range t.offer {
		names = append(names, o.Name)
	}
	return strings.Join(names, ", ")
}

// execute runs a tool: question, gate, intent, deed. It touches nothing but its job,
// so that it may run beside others.
func (t *turn) execute(ctx context.Context, j *job) {
	defer func() {
		if v := recover(); v != nil {
			j.err = &agent.Panic{Value: v, Stack: debug.Stack()}
		}
		if j.err != nil {
			j.result = nil
		} else if j.result == nil {
			j.result = json.RawMessage("null")
		}
	}()
	if j.tool.Confirm != nil {
		if err := j.tool.Confirm(ctx, j.call); err != nil {
			j.err = fmt.Errorf("not confirmed: %w", err)
			return
		}
	}
	if j.tool.Effect == Write && t.a.o.Gate != nil {
		if err := t.a.o.Gate(ctx, j.tool.Tool, j.call); err != nil {
			j.err = &refusal{err}
			return
		}
	}
	if j.err = ctx.Err(); j.err != nil {
		return
	}
	if j.intent, j.err = t.a.o.Audit.intent(&t.Turn, j.tool.Tool, j.call); j.err != nil {
		j.err = &refusal{fmt.Errorf("%w: it can't be written down: %w", agent.ErrBlocked, j.err)}
		return
	}
	if j.tool.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, j.tool.Timeout)
		defer cancel()
	}
	j.ran = true
	j.result, j.err = j.tool.Do(t.delegate(ctx), j.call.Args)
	if j.err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		j.err = fmt.Errorf("took longer than %v: %w", j.tool.Timeout, j.err)
	}
}

// refusal is the gate's error.
type refusal struct{ err error }

func (r *refusal) Error() string { return "refused: " + r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// finish writes the receipt, asks the hooks and gives the result to the model.
// What was done is written down also if the run is over by now.
func (t *turn) finish(ctx context.Context, j *job) error {
	var h *Handoff
	isHandoff := errors.As(j.err, &h)
	over := ctx.Err()
	if j.ran {
		rec := agent.Receipt{Tool: j.call.Name, Args: j.call.Args, Result: j.result, Err: j.err}
		if isHandoff {
			rec.Err = nil
		}
		t.Receipts = append(t.Receipts, rec)
		ctx = context.WithoutCancel(ctx)
	} else if over != nil {
		return over
	}
	if j.tool != nil && j.tool.Do == nil && j.err == nil {
		return nil // collect does these
	}
	s := Step{Call: j.call, Result: j.result, Err: j.err, Ran: j.ran}
	if j.tool != nil {
		s.Tool = j.tool.Tool
	}
	if isHandoff {
		s.Result, s.Err = json.RawMessage(`"handed over"`), nil
	}
	err := t.a.o.Audit.outcome(&t.Turn, &s, j.intent)
	if err != nil {
		err = fmt.Errorf("%w: tool %s: its call can't be written down: %w", agent.ErrBlocked, j.call.Name, err)
	} else {
		err = t.fire(ctx, AfterTool, &s)
	}
	if !isHandoff {
		t.answer(j, &s)
	}
	var no *refusal
	switch {
	case over != nil:
		return over
	case err != nil:
		return err
	case errors.As(j.err, &no) && (errors.Is(no, agent.ErrCancelled) || errors.Is(no, agent.ErrBlocked)):
		return no.err
	}
	return nil
}

// answer gives a result to the model. What is others' words is quoted, and from
// then on no tool that acts is offered.
func (t *turn) answer(j *job, s *Step) {
	text := resultText(s.Result, s.Err)
	if j.tool != nil && j.tool.Origin != "" && j.ran {
		t.heard = true
		t.scope.Raise(j.tool.Origin)
	}
	switch {
	case t.Tainted() && j.ran:
		text = Quote(j.call.Name, text)
	default:
		if text = strings.TrimSpace(text); strings.ContainsAny(text, "\n\r") {
			text = Data(text)
		}
	}
	if t.barred() {
		t.choose()
	}
	t.add(Message{Role: ToolRole, Text: text, CallID: j.call.ID, Name: j.call.Name})
}

// resultText is what the model reads: text as it is, an error in one line.
func resultText(result json.RawMessage, err error) string {
	if err != nil {
		line, _, _ := strings.Cut(err.Error(), "\n")
		return "error: " + clip(line, 400)
	}
	if string(result) == "null" {
		return "ok"
	}
	if len(result) > 0 && result[0] == '"' {
		var text string
		if json.Unmarshal(result, &text) == nil {
			return text
		}
	}
	return string(result)
}

// collect finds who is to go on, and a refusal.
func (t *turn) collect(jobs []job) (handoffs []Handoff, declined string) {
	for i := range jobs {
		j := &jobs[i]
		var h *Handoff
		switch {
		case errors.As(j.err, &h):
			handoffs = append(handoffs, *h)
		case j.err != nil || j.tool == nil:
		case j.tool.handoff != nil:
			handoffs = append(handoffs, Handoff{Target: j.tool.handoff})
		case j.tool.decline:
			var args struct{ Reason string }
			_ = json.Unmarshal(j.call.Args, &args)
			declined = strings.Join(strings.Fields(args.Reason), " ")
			if declined == "" {
				declined = "no reason given"
			}
		}
	}
	return handoffs, declined
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
