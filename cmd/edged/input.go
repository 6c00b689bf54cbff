package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"edged/agent"
	"edged/agent/llm"
	agentreplay "edged/agent/llm/replay"
	"edged/background"
	"edged/blackboard"
	"edged/bus"
	"edged/bus/origin"
	"edged/bus/trace"
	"edged/hw"
	"edged/hw/replay"
	"edged/starlark/lib"
)

// What came in from outside in a record, and doing it again.

// input is one thing that came in.
type input struct {
	at time.Time
	do func(ctx context.Context, a *again) error
}

// inputsOf finds what came in before the end.
func inputsOf(lines []trace.Line, ends time.Time) (list []input) {
	topics := make(map[uint64]string, len(lines))
	for _, l := range lines {
		topics[l.Seq] = l.Topic
	}
	for _, l := range lines {
		if l.Time.After(ends) {
			break
		}
		if do := inputOf(l, topics[l.Cause]); do != nil {
			list = append(list, input{l.Time, do})
		}
	}
	// Events are numbered in their order; their times may be a moment off.
	sort.SliceStable(list, func(i, j int) bool { return list[i].at.Before(list[j].at) })
	return list
}

// inputOf is what brings an event about again, nil for one that others bring
// about.
func inputOf(l trace.Line, cause string) func(context.Context, *again) error {
	if name, rd, ok := replay.Reading(l); ok {
		return func(ctx context.Context, a *again) error { return a.past.Sensor(name).Read(ctx, rd) }
	}
	kind, _, _ := strings.Cut(l.Source, ":")
	room, rest, _ := strings.Cut(l.Topic, "/")
	switch {
	case l.Topic == hw.StopTopic && !trace.Acts(l.Source):
		if cause == hw.StopTopic {
			return nil // the rig tells of what the event before it did
		}
		return func(ctx context.Context, a *again) error {
			var p struct{ Reason string }
			_ = json.Unmarshal(l.Payload, &p) // a stop needs no reason
			return a.rig.Stop(ctx, l.Source, p.Reason)
		}
	case l.Cause != 0:
		return nil
	case room == "edged" && strings.HasPrefix(rest, "agent/") && strings.HasSuffix(rest, "/start"):
		return askAgain(l, strings.TrimSuffix(strings.TrimPrefix(rest, "agent/"), "/start"))
	case trace.Acts(l.Source) || kind == "hw":
		return nil
	case l.Topic == hw.ResumeTopic:
		return func(ctx context.Context, a *again) error { return a.rig.Resume(ctx, l.Source) }
	case room == "board":
		return writeAgain(l, rest)
	case room == "request":
		return func(ctx context.Context, a *again) error {
			var p struct{ Task json.RawMessage }
			if err := json.Unmarshal(l.Payload, &p); err != nil || p.Task == nil {
				return nil
			}
			task, err := bus.DecodeJSON(p.Task)
			if err == nil {
				_, err = a.board.Post(ctx, l.Source, rest, task, blackboard.PostOptions{})
			}
			return err
		}
	case room == "edged":
		return nil // what the runtime tells of itself
	}
	return func(ctx context.Context, a *again) error {
		say := a.bus.Publish
		switch {
		case l.Copy:
			say = a.bus.Replay
		case l.Keep:
			say = a.bus.Retain
		}
		if l.Old != nil {
			o := *l.Old
			o.Topic = "" // it is about this event
			ctx = bus.WithOld(ctx, o)
		}
		_, err := say(ctx, l.Source, l.Topic, payloadOf(l))
		return err
	}
}

func payloadOf(l trace.Line) any {
	if l.Payload == nil {
		return nil
	}
	return bus.RawJSON(l.Payload)
}

// writeAgain is a write on the blackboard from outside.
func writeAgain(l trace.Line, key string) func(context.Context, *again) error {
	var c struct{ New json.RawMessage }
	if json.Unmarshal(l.Payload, &c) != nil {
		return nil
	}
	return func(ctx context.Context, a *again) error {
		if len(c.New) == 0 || string(c.New) == "null" {
			_, err := a.board.Delete(ctx, l.Source, key)
			return err
		}
		v, err := bus.DecodeJSON(c.New)
		if err == nil {
			_, err = a.board.Set(ctx, l.Source, key, v, blackboard.SetOptions{})
		}
		return err
	}
}

// askAgain is a person's words for an agent.
func askAgain(l trace.Line, name string) func(context.Context, *again) error {
	var p struct {
		Task   json.RawMessage
		Origin string
	}
	if json.Unmarshal(l.Payload, &p) != nil || !person(p.Origin) {
		return nil
	}
	return func(ctx context.Context, a *again) error {
		task, err := bus.DecodeJSON(p.Task)
		if err != nil {
			return err
		}
		for _, one := range a.scripts.Agents() {
			if one.Name() == name {
				a.lives.Go(func() {
					ctx := llm.WithPriority(ctx, llm.Person)
					_, _ = background.Perform(ctx, a.bus, one, agent.Task{Input: task, Origin: origin.Parse(p.Origin), Conversation: p.Origin}) // its events say it
				})
				return nil
			}
		}
		return fmt.Errorf("somebody asked the agent %q, and the scripts have none of that name", name)
	}
}

// readTraffic reads what models were asked and said, by their names. There need
// not be any.
func readTraffic(file string) (map[string][]byte, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	models := map[string][]byte{}
	for l := range bytes.Lines(text) {
		var head struct{ Model string }
		if json.Unmarshal(l, &head) == nil && head.Model != "" {
			models[head.Model] = append(append(models[head.Model], bytes.TrimSpace(l)...), '\n')
		}
	}
	return models, nil
}

// recorded gives the models of a record.
func recorded(models map[string][]byte) func(name, key string) (llm.Model, error) {
	return func(name, _ string) (llm.Model, error) {
		text := models[name]
		if text == nil {
			return nil, &llm.Trouble{
				Err: fmt.Errorf("%w: it was not asked in the record", llm.ErrDiffers), Model: name,
				Remedy: "record anew with 'edged run --record FILE'",
			}
		}
		m, err := agentreplay.Read(bytes.NewReader(text), name)
		if err != nil {
			return nil, err
		}
		m.Pace = true
		return m, nil
	}
}

// confirm gives the answers that persons gave, each after the time they took
// for it.
func (p *past) confirm() func(ctx context.Context, q lib.Question) error {
	type answer struct {
		tool, args string
		yes        bool
		after      time.Duration
	}
	var answers []answer
	asked := map[string]time.Time{}
	for _, l := range p.lines {
		var q struct {
			ID, Tool string
			Args     json.RawMessage
			Yes      bool
		}
		if l.Source != "confirm" || json.Unmarshal(l.Payload, &q) != nil {
			continue
		}
		switch l.Topic {
		case questionTopic:
			asked[q.ID] = l.Time
		case saidTopic:
			answers = append(answers, answer{q.Tool, oneForm(q.Args), q.Yes, l.Time.Sub(asked[q.ID])})
		}
	}
	var mu sync.Mutex // guards answers
	return func(ctx context.Context, q lib.Question) error {
		mu.Lock()
		i := slices.IndexFunc(answers, func(a answer) bool { return a.tool == q.Tool && a.args == oneForm(q.Args) })
		if i < 0 {
			mu.Unlock()
			return errors.New("nobody was asked this in the record")
		}
		a := answers[i]
		answers = slices.Delete(answers, i, i+1)
		mu.Unlock()
		wait := time.NewTimer(a.after)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if !a.yes {
			return errRefused
		}
		return nil
	}
}

// ask gives the answers in words that persons gave, each after the time they
// took for it. What nobody answered in the record nobody answers again.
func (p *past) ask() func(ctx context.Context, q lib.Ask) (string, error) {
	type answer struct {
		prompt, text string
		over         bool
		after        time.Duration
	}
	var answers []*answer
	open := map[string]*answer{}
	asked := map[string]time.Time{}
	for _, l := range p.lines {
		var q struct{ ID, Prompt, Answer string }
		if l.Source != "question" || json.Unmarshal(l.Payload, &q) != nil {
			continue
		}
		switch l.Topic {
		case inquiryTopic:
			open[q.ID], asked[q.ID] = &answer{prompt: q.Prompt}, l.Time
			answers = append(answers, open[q.ID])
		case heardTopic:
			if a := open[q.ID]; a != nil {
				a.text, a.over, a.after = q.Answer, true, l.Time.Sub(asked[q.ID])
			}
		}
	}
	var mu sync.Mutex // guards answers
	return func(ctx context.Context, q lib.Ask) (string, error) {
		mu.Lock()
		i := slices.IndexFunc(answers, func(a *answer) bool { return a.prompt == q.Prompt })
		if i < 0 {
			mu.Unlock()
			return "", errors.New("nobody was asked this in the record")
		}
		a := answers[i]
		answers = slices.Delete(answers, i, i+1)
		mu.Unlock()
		if !a.over {
			<-ctx.Done()
			return "", ctx.Err()
		}
		wait := time.NewTimer(a.after)
		defer wait.Stop()
		select {
		case <-wait.C:
			return a.text, nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// oneForm is JSON with its keys in order.
func oneForm(b json.RawMessage) string {
	v, err := bus.DecodeJSON(b)
	if err != nil {
		return string(b)
	}
	return compact(v)
}
