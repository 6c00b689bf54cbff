package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"edged/bus"
	"edged/cmd/edged/internal/control"
)

// What a person must allow. A tool with confirm = True asks everybody who may
// be there: whoever asked for it at a terminal, the verb confirm, and MQTT. The
// first answer counts, for exactly the arguments that were shown, within 30 s.
// No script, agent or message between agents can give it.

// Topics of questions and of their answers over MQTT. An answer is
// {"id": …, "yes": true}, and counts only if it came in by MQTT just now.
const (
	questionTopic = "edged/confirm/ask"
	answerTopic   = "edged/confirm/answer"
	saidTopic     = "edged/confirm/said" // what the robot took as the answer

	unconfirmedTopic = "edged/confirm/refused" // an answer that was none
)

// question is a call that waits for a person.
type question struct {
	ID     string          `json:"id"`
	Agent  string          `json:"agent"`
	Tool   string          `json:"tool"`
	Args   json.RawMessage `json:"args,omitempty"`
	Text   string          `json:"text,omitempty"`   // what the tool does
	Origin string          `json:"origin,omitempty"` // whose words led to it
	Until  time.Time       `json:"until"`
}

// String is the question in words.
func (q question) String() string {
	words := orElse(q.Agent, "somebody") + " wants " + q.Tool
	if len(q.Args) > 0 && string(q.Args) != "{}" {
		words += " " + string(q.Args)
	}
	if q.Text != "" {
		words += " (" + strings.TrimSuffix(q.Text, ".") + ")"
	}
	return words
}

// persons are those who can be asked.
type persons struct {
	bus *bus.Bus

	mu        sync.Mutex // guards the rest
	open      map[string]*pending
	tell      func(question) // whoever sits at the robot's terminal; nil = nobody
	words     []*awaited     // questions in words, the oldest first
	tellWords func(inquiry)
}

// atTerminal has the robot's own terminal told of questions.
func (p *persons) atTerminal(tell func(question), words func(inquiry)) {
	p.mu.Lock()
	p.tell, p.tellWords = tell, words
	p.mu.Unlock()
}

// pending is an open question.
type pending struct {
	question
	said chan verdict // one answer
}

// verdict is what a person said, and which way it came.
type verdict struct {
	err  error  // nil is yes
	from string // "cli", "page", "keyboard", "mqtt"
}

var errRefused = errors.New("a person said no")

func newPersons(b *bus.Bus) *persons { return &persons{bus: b, open: map[string]*pending{}} }

type hereKey struct{}

// terminal is where somebody sits who has asked for something.
type terminal struct {
	confirm func(question) error
	words   func(inquiry) error
}

// here returns a context whose questions are also put to whoever sits at a
// terminal.
func (p *persons) here(ctx context.Context, at terminal) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	return context.WithValue(ctx, hereKey{}, at), cancel
}

// confirmTime is how long an answer is waited for.
const confirmTime = 30 * time.Second

// confirm asks and waits; nil is yes.
func (p *persons) confirm(ctx context.Context, q question) error {
	ctx, cancel := context.WithTimeout(ctx, confirmTime)
	defer cancel()
	q.ID = rand.Text()
	q.Until, _ = ctx.Deadline()
	one := &pending{q, make(chan verdict, 1)}
	p.mu.Lock()
	p.open[q.ID] = one
	tell := p.tell
	p.mu.Unlock()
	if tell != nil {
		tell(q)
	}
	defer func() {
		p.mu.Lock()
		delete(p.open, q.ID)
		p.mu.Unlock()
	}()
	if at, ok := ctx.Value(hereKey{}).(terminal); ok {
		_ = at.confirm(q) // who asks at a terminal that is gone is asked nothing
	}
	payload := map[string]any{"id": q.ID, "agent": q.Agent, "tool": q.Tool, "args": bus.RawJSON(q.Args), "text": q.String(), "until": q.Until.UTC().Format(time.RFC3339)}
	if args, err := bus.DecodeJSON(q.Args); err == nil {
		payload["args"] = args
	} else {
		delete(payload, "args")
	}
	if _, err := p.bus.Publish(ctx, "confirm", questionTopic, payload); err != nil {
		return err
	}
	select {
	case v := <-one.said:
		said := map[string]any{"id": q.ID, "agent": q.Agent, "tool": q.Tool, "args": payload["args"], "yes": v.err == nil, "from": v.from}
		_, _ = p.bus.Publish(ctx, "confirm", saidTopic, said) // for the record
		return v.err
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return errors.New("nobody confirmed it in time")
		}
		return ctx.Err()
	}
}

// answer gives a person's answer; the empty id is the only open question.
func (p *persons) answer(from, id string, yes bool) (question, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.open[id]
	if id == "" && len(p.open) == 1 {
		for _, one = range p.open {
		}
	}
	switch {
	case one == nil && len(p.open) == 0:
		return question{}, errors.New("confirm: nothing waits for an answer")
	case one == nil && id == "":
		return question{}, fmt.Errorf("confirm: %s wait for an answer; name one by its id", count(len(p.open), "question"))
	case one == nil:
		return question{}, fmt.Errorf("confirm: no question %s waits for an answer", id)
	}
	delete(p.open, one.ID)
	v := verdict{from: from}
	if !yes {
		v.err = errRefused
	}
	one.said <- v
	return one.question, nil
}

// list gives the open questions.
func (p *persons) list() []question {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := []question{}
	for _, one := range p.open {
		out = append(out, one.question)
	}
	return out
}

// hear takes answers that come over MQTT. What was kept there answers nothing.
func (p *persons) hear() error {
	_, err := p.bus.Tap(answerTopic, func(e bus.Event) {
		m, _ := e.Payload().(map[string]any)
		id, _ := m["id"].(string)
		yes, given := m["yes"].(bool)
		if !given || id == "" || e.Old() != nil || e.Source != "mqtt" && !strings.HasPrefix(e.Source, "mqtt:") {
			return
		}
		if _, why := p.answer("mqtt", id, yes); why != nil { // too late, or twice
			_, _ = p.bus.Publish(bus.WithCause(context.Background(), e), "confirm", unconfirmedTopic, map[string]any{"id": id, "yes": yes, "reason": why.Error()})
		}
	})
	return err
}

type confirmRequest struct {
	ID   string `json:"id,omitempty"`
	Yes  bool   `json:"yes,omitempty"`
	List bool   `json:"list,omitempty"`
}

func (r *robot) handleConfirm(ctx context.Context, with json.RawMessage, send func(any) error) error {
	var q confirmRequest
	if err := json.Unmarshal(with, &q); err != nil {
		return control.Usagef("confirm: %v", err)
	}
	if q.List {
		return send(r.persons.list())
	}
	one, err := r.persons.answer(control.Who(ctx), q.ID, q.Yes)
	if err != nil {
		return err
	}
	return send(one)
}

func (c *cli) confirmVerb() *cobra.Command {
	cmd := verb("confirm [yes|no] [ID]", "Allow what an agent may not do unasked", 0, 2, func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			var open []question
			if err := c.call(cmd.Context(), "confirm", confirmRequest{List: true}, &open); err != nil {
				return err
			}
			return c.print(open, func(w io.Writer) {
				for _, q := range open {
					fmt.Fprintf(w, "%s  %s (%v left)\n", q.ID, q, time.Until(q.Until).Round(time.Second))
				}
				if len(open) == 0 {
					fmt.Fprintln(w, "nothing waits for an answer")
				}
			})
		}
		if args[0] != "yes" && args[0] != "no" {
			return usagef("confirm: answer yes or no, not %q", args[0])
		}
		r := confirmRequest{Yes: args[0] == "yes"}
		if len(args) == 2 {
			r.ID = args[1]
		}
		var one question
		if err := c.call(cmd.Context(), "confirm", r, &one); err != nil {
			return err
		}
		return c.print(one, func(w io.Writer) { fmt.Fprintf(w, "%s: %s\n", args[0], one) })
	})
	cmd.Long = "Answers a tool that asks a person before it acts. Without arguments it lists what waits for an answer."
	return cmd
}

// answer puts a question to whoever sits at this terminal, and sends what they
// say. Without a terminal nobody is there, and others may answer.
func (c *cli) answer(ctx context.Context, q question) error {
	in, ok := c.in.(*os.File)
	fmt.Fprintf(c.err, "%s. Allow it? [y/N] ", q)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		fmt.Fprintf(c.err, "\nanswer with 'edged confirm yes %s'\n", q.ID)
		return nil
	}
	go func() { // ends with the process: a read of a terminal can't be ended
		line, err := bufio.NewReader(in).ReadString('\n')
		if err != nil {
			return
		}
		word := strings.ToLower(strings.TrimSpace(line))
		var one question
		if err := c.call(ctx, "confirm", confirmRequest{ID: q.ID, Yes: word == "y" || word == "yes"}, &one); err != nil {
			fmt.Fprintln(c.err, text(err))
		}
	}()
	return nil
}
