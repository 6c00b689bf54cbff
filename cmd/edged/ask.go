package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"edged/agent"
	"edged/agent/llm"
	"edged/background"
	"edged/bus/origin"
	"edged/cmd/edged/internal/control"
	"edged/hw"
)

// The verb ask and its side in the running robot: a person's words, for an
// agent. Words that mean stop never get that far.

// askRequest is what a person says, and to whom.
type askRequest struct {
	Text         string `json:"text"`
	Agent        string `json:"agent,omitempty"`
	Conversation string `json:"conversation,omitempty"`
	Stream       bool   `json:"stream,omitempty"` // pieces of the answer as they come
}

// askPart is one line of the answer: a piece of what is said, a question to the
// person, or, at last, the result.
type askPart struct {
	Say      string     `json:"say,omitempty"`
	Question *question  `json:"question,omitempty"`
	Inquiry  *inquiry   `json:"inquiry,omitempty"` // a question in words
	Result   *askResult `json:"result,omitempty"`
}

// askResult is how it went.
type askResult struct {
	Agent   string       `json:"agent,omitempty"`
	Status  agent.Status `json:"status"`
	Reply   string       `json:"reply,omitempty"`
	Output  any          `json:"output,omitempty"`
	Reason  string       `json:"reason,omitempty"`
	Tools   []askTool    `json:"tools,omitempty"`   // that ran, in order
	Passed  []string     `json:"passed,omitempty"`  // why each model did not answer, if none did
	Heard   bool         `json:"heard,omitempty"`   // one of these models was asked, and found no sense in it
	Stopped bool         `json:"stopped,omitempty"` // the words meant stop
	MS      float64      `json:"ms"`
}

// askTool is a tool that ran.
type askTool struct {
	Tool   string          `json:"tool"`
	Args   json.RawMessage `json:"args,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// handleAsk answers ask in the robot.
func (r *robot) handleAsk(ctx context.Context, with json.RawMessage, send func(any) error) error {
	began := time.Now()
	var q askRequest
	if err := json.Unmarshal(with, &q); err != nil {
		return control.Usagef("ask: %v", err)
	}
	if r.words.Stops(q.Text) {
		return send(askPart{Result: r.stopByWord(ctx, control.Who(ctx), q.Text, began)})
	}
	if err := r.awaitReady(ctx); err != nil {
		return err
	}
	b := r.scripts.live.Load()
	a, err := chooseAgent(b.Agents(), q.Agent, r.cfg.Models.Agent)
	if err != nil {
		return err
	}
	ctx = llm.WithPriority(ctx, llm.Person)
	ctx, over := r.persons.here(ctx, terminal{
		confirm: func(p question) error { return send(askPart{Question: &p}) },
		words:   func(p inquiry) error { return send(askPart{Inquiry: &p}) },
	})
	defer over()
	if q.Stream {
		ctx = agent.WithSay(ctx, func(text string) { _ = send(askPart{Say: text}) }) // a person who left has ended ctx
	}
	ran := &witness{Agent: a}
	res, err := background.Perform(ctx, r.bus, ran, agent.Task{Input: q.Text, Origin: origin.Of(control.Who(ctx)), Conversation: orElse(q.Conversation, control.Who(ctx))})
	out := resultOf(res, began)
	var none *llm.NoneLeft
	if errors.As(ran.err, &none) {
		out.Passed, out.Heard = passedOver(none), errors.Is(ran.err, llm.ErrNoMatch)
		out.Reason = "declined: nobody here understands that: " + strings.Join(out.Passed, "; ")
	}
	if out.Reason == "" && err != nil && !errors.Is(err, agent.ErrExit) {
		out.Reason = err.Error()
	}
	return send(askPart{Result: out})
}

// witness keeps the error of a run.
type witness struct {
	agent.Agent
	err error
}

func (w *witness) Run(ctx context.Context, t agent.Task) (r agent.Result, err error) {
	r, w.err = w.Agent.Run(ctx, t)
	return r, w.err
}

// passedOver says for each model of a list, in a few words, why it did not
// answer.
func passedOver(n *llm.NoneLeft) (words []string) {
	for _, s := range n.Skips {
		why := short(s.Err)
		if errors.Is(s.Err, llm.ErrNoMatch) {
			var t *llm.Trouble
			if errors.As(s.Err, &t) {
				why = t.Err.Error()
			}
			if _, after, ok := strings.Cut(why, llm.ErrNoMatch.Error()+": "); ok {
				why = after
			}
		}
		words = append(words, s.Model+": "+why)
	}
	return words
}

// stopByWord goes straight to the rig.
func (r *robot) stopByWord(ctx context.Context, source, text string, began time.Time) *askResult {
	err := r.rig.Stop(context.WithoutCancel(ctx), source, hw.Said(text))
	took := ms(time.Since(began))
	out := &askResult{Status: agent.Done, Stopped: true, MS: took, Reply: fmt.Sprintf("stopped in %.1f ms; 'edged resume' goes on", took)}
	if err != nil {
		out.Status, out.Reason = agent.Failed, "stopped, but: "+err.Error()
	}
	return out
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func resultOf(r agent.Result, began time.Time) *askResult {
	out := &askResult{Agent: r.By, Status: r.Status, Reply: r.Reply, Output: r.Output, Reason: r.Reason, MS: ms(time.Since(began))}
	var walk func(r agent.Result)
	walk = func(r agent.Result) {
		for _, c := range r.Receipts {
			t := askTool{Tool: c.Tool, Args: c.Args, Result: c.Result}
			if c.Err != nil {
				t.Error, t.Result = c.Err.Error(), nil
			}
			out.Tools = append(out.Tools, t)
		}
		if len(r.Receipts) > 0 {
			return // they hold those of whom it was handed over to
		}
		for _, child := range r.Children {
			walk(child)
		}
	}
	walk(r)
	return out
}

// chooseAgent finds who is asked: the one named, the one of the settings, the
// one that can "ask", or the only one that thinks with a model.
func chooseAgent(all []agent.Agent, name, usual string) (agent.Agent, error) {
	var names, thinking []string
	var minds []agent.Agent
	for _, a := range all {
		names = append(names, a.Name())
		if m, ok := a.(interface{ Models() []string }); ok && len(m.Models()) > 0 {
			minds, thinking = append(minds, a), append(thinking, a.Name())
		}
	}
	for _, want := range []string{name, usual} {
		if want == "" {
			continue
		}
		if i := slices.Index(names, want); i >= 0 {
			return all[i], nil
		}
		e := control.Usagef("ask: no agent %q%s", want, perhaps(want, names))
		if name == "" {
			e = fmt.Errorf("ask: the setting models.agent names %q, and there is no such agent%s", want, perhaps(want, names))
		}
		return nil, e
	}
	for _, a := range all {
		if c, ok := a.(interface{ Capabilities() []string }); ok && slices.Contains(c.Capabilities(), "ask") {
			return a, nil
		}
	}
	switch {
	case len(minds) == 1:
		return minds[0], nil
	case len(minds) > 1:
		return nil, control.Usagef("ask: several agents think: %s; name one with --agent, or set models.agent in edged.toml", strings.Join(thinking, ", "))
	case len(all) > 0:
		return nil, control.Usagef("ask: no agent of this robot thinks with a model; name one of %s with --agent", strings.Join(names, ", "))
	}
	return nil, errors.New("ask: this robot has no agents; Agent(…, model = \"builtin\") in main.star makes one")
}

func orElse(s, or string) string {
	if s == "" {
		return or
	}
	return s
}

func (c *cli) askVerb() *cobra.Command {
	var dir string
	var q askRequest
	var wait time.Duration
	cmd := verb("ask TEXT", "Say something to the robot, as a person would", 1, -1, func(cmd *cobra.Command, args []string) error {
		q.Text = strings.TrimSpace(strings.Join(args, " "))
		if q.Text == "-" {
			b, err := io.ReadAll(io.LimitReader(c.in, 64<<10))
			if err != nil {
				return fmt.Errorf("ask: %w", err)
			}
			q.Text = strings.TrimSpace(string(b))
		}
		if q.Text == "" {
			return usagef("ask: nothing was said; usage: edged ask TEXT")
		}
		cl, cfg, err := c.meant("ask", dir)
		if err != nil {
			return err
		}
		if cl == nil {
			return fmt.Errorf("ask: the robot in %s is not running; start it with 'edged run %s'", cfg.Dir(), cfg.Dir())
		}
		defer cl.Close()
		if cfg != nil && c.socket == "" {
			c.socket = filepath.Join(dataDir(cfg), socketName) // for answers to questions
		}
		ctx := cmd.Context()
		if wait > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, wait)
			defer cancel()
		}
		q.Stream = !c.json
		return c.listen(ctx, cl, q)
	})
	cmd.Long = "Gives a person's words to an agent of the running robot and prints its answer, how it ended, and which tools ran.\nWords that mean stop (\"stop\", \"halt\", not \"don't stop\") stop the robot at once, before any agent or model."
	cmd.Example = "edged ask turn left ninety degrees\nedged ask --agent butler 'what is the battery'\nedged ask stop"
	cmd.Flags().StringVar(&dir, "dir", "", "folder of the robot; the one here, or else the one running")
	cmd.Flags().StringVar(&q.Agent, "agent", "", "whom to ask; the only one with a model if empty")
	cmd.Flags().StringVar(&q.Conversation, "conversation", "", "questions with the same name share what was said before; 'cli' if empty")
	cmd.Flags().DurationVar(&wait, "wait", 0, "give up, and cancel what it does, after so long")
	return cmd
}

// listen prints the answer as it comes.
func (c *cli) listen(ctx context.Context, cl *control.Client, q askRequest) error {
	var res *askResult
	var heard strings.Builder
	err := cl.Stream(ctx, "ask", q, func(b json.RawMessage) error {
		var p askPart
		if err := json.Unmarshal(b, &p); err != nil {
			return err
		}
		switch {
		case p.Result != nil:
			res = p.Result
		case p.Question != nil:
			return c.answer(ctx, *p.Question)
		case p.Inquiry != nil:
			return c.reply(ctx, *p.Inquiry)
		case !c.json:
			heard.WriteString(p.Say)
			fmt.Fprint(c.out, p.Say)
		}
		return nil
	})
	if heard.Len() > 0 && !strings.HasSuffix(heard.String(), "\n") {
		fmt.Fprintln(c.out)
	}
	switch {
	case err != nil:
		return err
	case res == nil:
		return fmt.Errorf("ask: %w: no answer in time; what it did was cancelled", agent.ErrTimeout)
	}
	err = c.print(res, func(w io.Writer) { res.tell(w, heard.String()) })
	if err == nil && res.Status != agent.Done {
		return errShown
	}
	return err
}

// tell says how it went: first what a person wants to know, below it why.
// heard is the part of the answer that is on the screen already.
func (res *askResult) tell(w io.Writer, heard string) {
	if res.Reply != "" && strings.TrimSpace(heard) != strings.TrimSpace(res.Reply) {
		fmt.Fprintln(w, res.Reply)
	}
	switch {
	case res.Status == agent.Done:
	case len(res.Passed) > 0 && res.Heard:
		fmt.Fprintln(w, "I don't understand that.")
	case len(res.Passed) > 0:
		fmt.Fprintln(w, "No model answers.")
	default:
		fmt.Fprintf(w, "%s: %s\n", res.Status, plainly(res.Reason))
	}
	for _, t := range res.Tools {
		if t.Error != "" && strings.Contains(res.Reason, t.Error) && len(res.Passed) == 0 {
			t.Error = "-" // said above
		}
		fmt.Fprintln(w, t)
	}
	for _, why := range res.Passed {
		fmt.Fprintln(w, "  "+why)
	}
}

// plainly is an error without the names of what it went through on its way:
// those of builtins ("device.drive_to"), and of the gate with its device and
// action ("hw: base: drive_to").
func plainly(why string) string {
	gate := 0 // names that follow
	for {
		name, rest, ok := strings.Cut(why, ": ")
		if !ok || strings.ContainsFunc(name, func(r rune) bool { return r != '_' && r != '.' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			return why
		}
		switch {
		case name == "hw":
			gate = 2
		case gate > 0:
			gate--
		case name != "fail" && !strings.Contains(name, "."):
			return why
		}
		why = rest
	}
}

// String is a tool that ran, in one line.
func (t askTool) String() string {
	line := "  " + t.Tool
	if len(t.Args) > 0 && string(t.Args) != "{}" {
		line += " " + string(t.Args)
	}
	switch {
	case t.Error == "-":
		return line + " failed"
	case t.Error != "":
		return line + " failed: " + plainly(t.Error)
	case len(t.Result) > 0 && string(t.Result) != "null":
		return line + " → " + string(t.Result)
	}
	return line
}
