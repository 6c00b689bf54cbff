package society

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"edged/bus/origin"

	"edged/workflow/society/protocol"
)

// The law of this file: what stands in a prompt has been asked of the edge
// first, by viewer, author and topic. There is no other way into one, but that
// its author gets back what a guardrail sent back.

// logTokens bounds a work log in a prompt.
const logTokens = 400

// compile puts together what a member is told in its turn.
func (r *run) compile(who string, q question) Prompt {
	p := Prompt{Kind: q.kind, To: who, Round: r.round, Task: r.task, Ask: q.ask, Form: q.form, Tools: q.tools}
	if a := r.s.agent(who); a != nil {
		p.Role = a.Role
	}
	p.Sections = append(r.known(who), r.said(who)...)
	p.Origin = r.whose()
	return p
}

// whose is whose words are in the interaction by now.
func (r *run) whose() origin.Label {
	if r.scope == nil {
		return r.task.Origin
	}
	return r.scope.Label()
}

// sees asks the interaction's edge.
func (r *run) sees(viewer, author, topic string) View { return r.i.e.Sees(viewer, author, topic) }

// known is what a viewer knows besides what was said on the edge.
func (r *run) known(who string) (list []Section) {
	if r.sees(who, "", TopicTask) != Nothing {
		list = append(list, r.taskSection())
	}
	switch rel := r.rel.(type) {
	case *Delegation:
		if rel.Instructions != "" && r.sees(who, rel.source(r), TopicNote) == Full {
			list = append(list, plainSection(TopicNote, "Instructions", rel.Instructions))
		}
	case *Oversight:
		if len(rel.Criteria) > 0 && r.sees(who, "", TopicCriteria) == Full {
			list = append(list, plainSection(TopicCriteria, "Criteria", strings.Join(rel.Criteria, "; ")))
		}
	case *Coopetition:
		if v := r.coop.Output; v != nil && r.sees(who, "", TopicDraft) == Full {
			list = append(list, Section{"Agreed", render(v), TopicAgreed, "", v})
		}
	}
	for _, name := range r.topics() {
		if x, ok := r.shelf[name]; ok && r.sees(who, "", name) == Full {
			if r.scope != nil {
				r.scope.Raise(x.whose)
			}
			list = append(list, Section{name, render(x.v), TopicArtifact, name, x.v})
		}
	}
	return list
}

func (r *run) taskSection() Section {
	text := r.task.Text()
	if r.foreign {
		return plainSection(TopicTask, "Task, in words from "+clip(string(r.task.Origin.Untrusted(r.s.trusted())), 60), render(text))
	}
	return plainSection(TopicTask, "Task", text)
}

// topics names what may lie on the shelf for this edge.
func (r *run) topics() (list []string) {
	for _, a := range r.rel.shared().Artifacts {
		list = append(list, a.Name)
	}
	switch rel := r.rel.(type) {
	case *Cooperation:
		list = append(list, rel.SharedTopics...)
	case *Coopetition:
		list = append(append(list, rel.CooperateOn...), rel.CompeteOn...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// said is what a viewer gets of what was said on the edge.
func (r *run) said(who string) (list []Section) {
	var own, newest *item
	others := map[string]*item{}
	var comments []*item
	one, _ := r.edge.(interface{ oneVersion() bool })
	whole := one != nil && one.oneVersion()
	for k := range r.items {
		it := &r.items[k]
		if it.only != "" && it.only != who || it.only == "" && !r.may(who, it.author, it.topic, it.turn) {
			continue
		}
		if it.topic != TopicComments && it.only == "" { // what was sent back before is mended, or there is another version
			if it.author == who || whole {
				own = nil
			}
			comments = slices.DeleteFunc(comments, func(c *item) bool { return c.only != "" && it.author == who })
		}
		switch {
		case it.only != "" && it.topic != TopicComments:
			own = it
		case it.topic == TopicDraft && r.coop.Output != nil: // it is agreed, or gone
		case it.topic == TopicComments:
			if it.author != who {
				comments = append(comments[:0], it)
			}
		case whole:
			newest = it
		case it.author == who:
			own = it
		default:
			others[it.author] = it
		}
	}
	if newest != nil {
		title := "Version by " + newest.author
		if newest.author == who {
			title = "Your version"
		}
		list = append(list, Section{title, newest.text, TopicDraft, newest.author, newest.value})
	}
	if own != nil {
		list = append(list, Section{"Your last draft", own.text, TopicDraft, own.author, own.value})
	}
	spoken := r.spoken()
	for _, name := range spoken {
		if it := others[name]; it != nil {
			list = append(list, Section{"Draft of " + name, it.text, TopicDraft, name, it.value})
		}
	}
	for _, it := range comments {
		list = append(list, Section{"Comments", render(it.text), TopicComments, it.author, it.text})
	}
	for _, name := range spoken {
		if name == who {
			continue
		}
		if log := r.worklog(who, name); log != "" {
			list = append(list, Section{"Work log of " + name + ", newest first", log, TopicLog, name, nil})
		}
		if r.sees(who, name, TopicDraft) == Summary {
			list = append(list, Section{"Progress of " + name, r.progress(name), sectionProgress, name, nil})
		}
	}
	if r.reasons != "" && r.sees(who, "", TopicComments) == Full {
		why := r.reasonsFor(who)
		list = append(list, Section{"Reasons why nothing was picked", render(why), TopicComments, "", why})
	}
	if c, ok := r.edge.(*competition); ok && c.market != nil {
		list = append(list, c.standing(r, who)...)
	}
	return list
}

// spoken names the members that have had a turn, in their order.
func (r *run) spoken() (list []string) {
	r.mu.Lock()
	had := map[string]bool{}
	for i := range r.turns {
		had[r.turns[i].Speaker] = true
	}
	r.mu.Unlock()
	if len(had) == 0 {
		return nil
	}
	for _, name := range r.edge.Members() {
		if had[name] {
			list = append(list, name)
		}
	}
	return list
}

// may says whether a viewer gets all of what an author said in a turn: the edge
// lets it see the topic, and the protocol let it listen.
func (r *run) may(viewer, author, topic string, turn int) bool {
	if viewer == author {
		return true
	}
	if r.sees(viewer, author, topic) != Full {
		return false
	}
	if !slices.Contains(r.edge.Members(), viewer) || !slices.Contains(r.edge.Members(), author) {
		return true
	}
	return r.floor == nil || r.floor.Heard(viewer, turn)
}

// worklog is an agent's own turn records as another one may read them.
func (r *run) worklog(viewer, author string) string {
	var b strings.Builder
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range slices.Backward(r.turns) {
		topic := TopicLog
		if t.Sealed {
			topic = TopicSealed
		}
		switch {
		case t.Speaker != author, t.Kind == toEvent && t.State != OK,
			r.sees(viewer, author, TopicLog) != Full, !r.may(viewer, author, topic, t.N):
			continue
		}
		line := fmt.Sprintf("%s: %s", t.Kind, t.Answer)
		if t.Verdict == string(Returned) {
			line = fmt.Sprintf("%s: sent back by a guardrail: %s", t.Kind, render(t.Why))
		} else if t.State != OK {
			line = fmt.Sprintf("%s: %s: %s", t.Kind, t.State, render(t.Why))
		} else if t.Kind == toEvent {
			line = fmt.Sprintf("event %s: %s", t.Verdict, t.Answer)
		}
		for _, c := range slices.Backward(t.Tools) {
			if c.Err != nil {
				line += fmt.Sprintf("; called %s(%s): error %s", c.Tool, c.Args, render(c.Err.Error()))
			} else {
				line += fmt.Sprintf("; called %s(%s): %s", c.Tool, c.Args, c.Result)
			}
		}
		left := 4*logTokens - b.Len()
		if left <= 8 {
			break
		}
		if b.Len() > 0 {
			b.WriteString(" | ")
		}
		b.WriteString(clip(line, left))
	}
	return b.String()
}

// progress is the summary of an agent's work, made by code.
func (r *run) progress(author string) string {
	most := r.edge.rounds()
	line := fmt.Sprintf("round %d of %d", r.round, most)
	w := r.last[author]
	if w.Progress != "" {
		line += ", last " + render(w.Progress)
	}
	var tools []string
	r.mu.Lock()
	for _, t := range r.turns {
		if t.Speaker == author {
			for _, c := range t.Tools {
				tools = append(tools, c.Tool)
			}
		}
	}
	r.mu.Unlock()
	if len(tools) > 0 {
		line += ", tools called: " + clip(strings.Join(tools, " "), 200)
	}
	return line + fmt.Sprintf(", after %v", time.Since(r.start).Round(time.Second))
}

// View gives the turns of an interaction as one of its agents may read them:
// its own as they were, of others what it saw in its prompts anyway, without
// their prompts.
func (i *Interaction) View(viewer string, turns []Turn) (list []Turn) {
	for _, t := range turns {
		if t.Edge != i.name {
			continue
		}
		if t.Speaker == viewer {
			list = append(list, t)
			continue
		}
		topic := TopicLog
		if t.Sealed {
			topic = TopicSealed
		}
		if i.e.Sees(viewer, t.Speaker, topic) != Full || !i.hears(viewer) {
			t = Turn{Run: t.Run, Path: t.Path, Society: t.Society, N: t.N, Round: t.Round, Kind: t.Kind, State: t.State, Started: t.Started, Elapsed: t.Elapsed}
			if i.e.Sees(viewer, t.Speaker, topic) == Nothing {
				continue
			}
			list = append(list, t)
			continue
		}
		t.System, t.Prompt, t.Schema, t.Said, t.Raw = "", "", nil, "", nil
		if i.e.Sees(viewer, t.Speaker, TopicLog) != Full { // an open bid, not how it came to be
			t.Tools, t.Why = nil, ""
		}
		if t.Verdict == string(Returned) || t.Verdict == blockedVerdict {
			t.Answer = nil
		}
		list = append(list, t)
	}
	return list
}

// hears reports whether a viewer hears everybody, so that what others said is
// no secret of those who listened. Of a protocol of one's own that is not known:
// other ones may listen in every round.
func (i *Interaction) hears(viewer string) bool {
	p := i.e.order()
	if p == nil || !slices.Contains(i.members, viewer) {
		return true
	}
	if _, steady := p.(protocol.Steady); !steady {
		return false
	}
	open, err := p.Open(i.members)
	if err != nil {
		return false
	}
	for _, m := range i.members {
		if m != viewer && !slices.Contains(open.Listeners(m), viewer) {
			return false
		}
	}
	return true
}
