package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"edged/cmd/edged/internal/control"
)

// The verbs stop, resume and reload.

func (c *cli) stopVerb() *cobra.Command {
	var reason string
	cmd := verb("stop", "Stop the robot: everything that moves goes to rest", 0, 0, func(cmd *cobra.Command, args []string) error {
		var done struct {
			MS    float64 `json:"ms"`
			Error string  `json:"error,omitempty"`
		}
		if err := c.call(cmd.Context(), control.Stop, stopRequest{reason}, &done); err != nil {
			return err
		}
		err := c.print(done, func(w io.Writer) { fmt.Fprintf(w, "stopped in %.1f ms; 'edged resume' goes on\n", done.MS) })
		if done.Error != "" {
			return fmt.Errorf("stopped, but: %s", done.Error)
		}
		return err
	})
	cmd.Long = "Stops the running robot: goals are cancelled, every actuator goes to its safe state, and nothing moves before 'edged resume'.\nThe space bar in the robot's terminal, SIGUSR1 and the MQTT topic edged/safety/stop do the same."
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the record")
	return cmd
}

func (c *cli) resumeVerb() *cobra.Command {
	return verb("resume", "Let a stopped robot move again", 0, 0, func(cmd *cobra.Command, args []string) error {
		var was struct {
			Was    bool   `json:"was_stopped"`
			By     string `json:"by,omitempty"`
			Reason string `json:"reason,omitempty"`
		}
		if err := c.call(cmd.Context(), control.Resume, nil, &was); err != nil {
			return err
		}
		return c.print(was, func(w io.Writer) {
			if !was.Was {
				fmt.Fprintln(w, "it was not stopped")
				return
			}
			fmt.Fprintf(w, "resumed (it was stopped by %s: %s); what was cancelled stays cancelled\n", was.By, was.Reason)
		})
	})
}

func (c *cli) reloadVerb() *cobra.Command {
	return verb("reload", "Load the running robot's scripts anew", 0, 0, func(cmd *cobra.Command, args []string) error {
		var done struct {
			Hash      string `json:"hash"`
			Unchanged bool   `json:"unchanged,omitempty"`
		}
		if err := c.call(cmd.Context(), "reload", nil, &done); err != nil {
			return err
		}
		return c.print(done, func(w io.Writer) {
			if done.Unchanged {
				fmt.Fprintf(w, "nothing has changed; %.8s goes on\n", done.Hash)
				return
			}
			fmt.Fprintf(w, "reloaded: %.8s\n", done.Hash)
		})
	})
}
