package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// The verb record and its side in the running robot: what models are asked and
// say, for "replay:FILE".

// handleRecord sends the lines until the client leaves.
func (r *robot) handleRecord(ctx context.Context, _ json.RawMessage, send func(any) error) error {
	lines := make(chan json.RawMessage, 256)
	ended := make(chan struct{})
	end := r.traffic.add(lineWriter{func(b []byte) error {
		select {
		case lines <- append(json.RawMessage(nil), b...):
			return nil
		default:
			return errEnded // the client doesn't keep up: better no recording than one with holes
		}
	}}, func(error) { close(ended) })
	defer end()
	if err := send(map[string]bool{"recording": true}); err != nil {
		return nil
	}
	for {
		select {
		case l := <-lines:
			if err := send(l); err != nil {
				return nil
			}
		case <-ended:
			return fmt.Errorf("record: the recording has a hole: its file was written too slowly")
		case <-ctx.Done():
			return nil
		}
	}
}

func (c *cli) recordVerb() *cobra.Command {
	cmd := verb("record FILE", "Write down what models are asked and say", 1, 1, func(cmd *cobra.Command, args []string) error {
		cl, err := c.dial()
		if err != nil {
			return err
		}
		defer cl.Close()
		f, err := os.OpenFile(args[0], os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("record: %w", err)
		}
		w := bufio.NewWriter(f)
		answers, begun := 0, false
		err = cl.Stream(cmd.Context(), "record", nil, func(b json.RawMessage) error {
			if !begun { // the first says that everything from here on is in the file
				begun = true
				fmt.Fprintf(c.err, "recording to %s; Ctrl-C ends it\n", args[0])
				return nil
			}
			var l struct{ Request json.RawMessage }
			if json.Unmarshal(b, &l) == nil && l.Request != nil {
				answers++
			}
			if _, err := w.Write(append(b, '\n')); err != nil {
				return err
			}
			return w.Flush()
		})
		if e := f.Close(); err == nil {
			err = e
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(c.out, "recorded %s in %s; model = \"replay:%s\" answers from it\n", count(answers, "answer"), args[0], args[0])
		return nil
	})
	cmd.Long = "Writes what the running robot's models are asked and say to a file, until Ctrl-C. An agent with model = \"replay:FILE\"\nanswers from it, exactly, and says which prompt differed. Prompts are private: so is the file."
	return cmd
}
