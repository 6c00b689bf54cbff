package society

import (
	"context"
	"fmt"

	"edged/agent"
	"edged/workflow/society/protocol"
)

// reviewed is a delegation or an oversight: one works, one decides.
type reviewed struct {
	worker, decider string
	sh              *Shared
	delegation      bool
	silent          bool // nobody decides
	work, verdict   *Form
}

func (d *Delegation) source(r *run) string { return r.i.members[0] }

func (d *Delegation) bind(_ *Society, m []string) (inner, error) {
	e := &reviewed{worker: m[1], decider: m[0], sh: &d.Shared, delegation: true, silent: d.NoReview}
	return e, e.forms("accept", "reject")
}

func (d *Oversight) bind(_ *Society, m []string) (inner, error) {
	e := &reviewed{worker: m[0], decider: m[1], sh: &d.Shared}
	return e, e.forms("approve", "reject", "revise")
}

func (e *reviewed) forms(decisions ...string) error {
	if e.sh.Protocol != nil {
		return fmt.Errorf("a protocol has nothing to say here: one works, then the other decides")
	}
	if e.sh.ends() {
		return fmt.Errorf("until has nothing to say here: the reviewer decides when it is over")
	}
	draft, err := e.sh.product()
	if err != nil {
		return err
	}
	fields := []field{draft}
	if e.delegation {
		fields = append(fields, field{name: "progress", schema: textOf(80), optional: true})
	}
	if e.work, err = makeForm(fields...); err != nil {
		return err
	}
	e.verdict, err = makeForm(field{name: "comments", schema: textOf(wordsLength)}, field{name: "verdict", schema: oneOf(decisions...)})
	return err
}

// Members are source and target.
func (e *reviewed) Members() []string {
	if e.delegation {
		return []string{e.decider, e.worker}
	}
	return []string{e.worker, e.decider}
}

// Sees is the table of the two types.
func (e *reviewed) Sees(viewer, author, topic string) View {
	switch {
	case viewer == author:
		return Full
	case author != "" && author != e.worker && author != e.decider:
		return Nothing
	}
	switch viewer {
	case e.worker:
		switch {
		case topic == TopicTask, topic == TopicComments && author == e.decider:
			return Full
		case e.delegation && (topic == TopicNote || author == ""):
			return Full
		}
		return Nothing
	case e.decider:
		if e.delegation && author == e.worker {
			return Summary
		}
		if e.delegation && author == "" && topic != TopicTask {
			return Nothing
		}
		return Full
	}
	return Nothing
}

func (e *reviewed) order() protocol.Spec {
	return protocol.Sequential{Order: []string{e.worker, e.decider}}
}

func (e *reviewed) draftTopic() string { return TopicDraft }
func (e *reviewed) enough(r *run) bool {
	return len(r.work) > 0 && (r.work[0].State != OK || e.silent)
}

func (e *reviewed) ask(r *run, who string) (question, bool) {
	if who == e.worker {
		q := question{kind: ToWork, ask: "Do the task.", form: e.work, tools: ReadTools}
		if r.round > 1 {
			q.ask = "Do the task again with regard to the comments."
		}
		if e.delegation {
			q.tools = AllTools
		}
		return q, true
	}
	q := question{kind: ToReview, ask: "Review the draft: approve it, ask for a revision, or reject it for good.", form: e.verdict}
	if e.delegation {
		q.kind, q.ask = ToAccept, "Accept the work, or reject it and say what is to change."
	}
	return q, true
}

func (e *reviewed) read(_ *run, who string, v map[string]any) (Work, error) {
	if who == e.worker {
		p, _ := v["progress"].(string)
		return Work{Draft: v["draft"], Progress: p}, nil
	}
	c, _ := v["comments"].(string)
	d, _ := v["verdict"].(string)
	return Work{Comments: c, Decision: d}, nil
}

// Settle reads the decision. Without one nothing is approved.
func (e *reviewed) Settle(ctx context.Context, round []Work) (Verdict, error) {
	w := round[0]
	if w.State == Returned {
		return Verdict{}, nil
	}
	if w.State == Refused && e.sh.watches("no_taker") {
		return Verdict{Cause: CauseNoTaker, Reason: w.Why}, nil
	}
	if w.State != OK {
		return Verdict{Settled: true, Status: agent.Failed, Reason: fmt.Sprintf("%s: %s: %s", w.Author, w.State, w.Why)}, nil
	}
	if e.silent {
		return Verdict{Settled: true, Output: w.Draft, By: w.Author}, nil
	}
	d := round[1]
	switch {
	case d.State == Invalid:
		return Verdict{}, nil // not approved
	case d.State != OK:
		return Verdict{Settled: true, Status: agent.Failed, Reason: fmt.Sprintf("%s: %s: %s", d.Author, d.State, d.Why), Output: w.Draft}, nil
	}
	switch d.Decision {
	case "approve", "accept":
		return Verdict{Settled: true, Output: w.Draft, By: e.worker, Reason: d.Comments}, nil
	case "reject":
		if !e.delegation {
			return Verdict{Settled: true, Status: agent.Rejected, Output: w.Draft, By: d.Author, Reason: d.Comments}, nil
		}
	}
	return Verdict{}, nil
}

func (e *reviewed) rounds() int {
	if e.silent && !e.sh.sendsBack() {
		return 1
	}
	return e.sh.rounds()
}
