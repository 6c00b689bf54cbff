package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"edged/cmd/edged/internal/control"
)

// The verb answer, and its side in the running robot: see inquiry.

type answerRequest struct {
	ID    string   `json:"id,omitempty"` // of the question that is meant, and no other
	Words []string `json:"words,omitempty"`
}

// answered is what came of an answer.
type answered struct {
	inquiry
	Answer string `json:"answer"`
}

func (r *robot) handleAnswer(ctx context.Context, with json.RawMessage, send func(any) error) error {
	var q answerRequest
	if err := json.Unmarshal(with, &q); err != nil {
		return control.Usagef("answer: %v", err)
	}
	if len(q.Words) == 0 {
		return send(r.persons.inquiries())
	}
	answer := func() (inquiry, string, error) { return r.persons.reply(control.Who(ctx), q.Words) }
	if q.ID != "" {
		answer = func() (inquiry, string, error) {
			return r.persons.replyTo(control.Who(ctx), q.ID, strings.Join(q.Words, " "))
		}
	}
	one, text, err := answer()
	if err != nil {
		return err
	}
	return send(answered{one, text})
}

func (c *cli) answerVerb() *cobra.Command {
	cmd := verb("answer [ID] TEXT", "Answer what the robot asks a person", 0, -1, func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			var open []inquiry
			if err := c.call(cmd.Context(), "answer", answerRequest{}, &open); err != nil {
				return err
			}
			return c.print(open, func(w io.Writer) {
				for _, q := range open {
					fmt.Fprintf(w, "%s  %s (%s)\n", q.ID, q, q.wait())
				}
				if len(open) == 0 {
					fmt.Fprintln(w, "nothing waits for an answer")
				}
			})
		}
		var one answered
		if err := c.call(cmd.Context(), "answer", answerRequest{Words: args}, &one); err != nil {
			return err
		}
		return c.print(one, func(w io.Writer) { fmt.Fprintf(w, "%s: %s\n", one.Answer, one.inquiry) })
	})
	cmd.Long = "Answers a question of a graph (Human) or of a society (HUMAN). Without arguments it lists what waits for an answer. The beginning of an ID, or the ID of a run with one question, is enough;\nwithout one the only open question is meant. A question waits through a restart of the robot."
	cmd.Example = "edged answer\nedged answer yes\nedged answer 3fa2 to the porch"
	return cmd
}

// reply puts a question in words to whoever sits at this terminal, and sends
// what they say.
func (c *cli) reply(ctx context.Context, q inquiry) error {
	in, ok := c.in.(*os.File)
	fmt.Fprintf(c.err, "%s ", q)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		fmt.Fprintf(c.err, "\nanswer with 'edged answer %s TEXT'\n", q.ID)
		return nil
	}
	go func() { // ends with the process: a read of a terminal can't be ended
		lines := bufio.NewReader(in)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			var one answered
			err = c.call(ctx, "answer", answerRequest{ID: q.ID, Words: []string{strings.TrimSpace(line)}}, &one)
			if err == nil {
				return
			}
			fmt.Fprintln(c.err, text(err))
		}
	}()
	return nil
}
