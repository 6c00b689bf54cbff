package main

import (
	"github.com/spf13/cobra"
)

func (c *cli) completionVerb() *cobra.Command {
	shells := []string{"bash", "zsh", "fish"}
	cmd := verb("completion bash|zsh|fish", "Print a script that completes verbs and flags in a shell", 1, 1, func(cmd *cobra.Command, args []string) error {
		switch root := cmd.Root(); args[0] {
		case "bash":
			return root.GenBashCompletionV2(c.out, true)
		case "zsh":
			return root.GenZshCompletion(c.out)
		case "fish":
			return root.GenFishCompletion(c.out, true)
		}
		return usagef("completion: unknown shell %q; there are bash, zsh and fish", args[0])
	})
	cmd.Long = "Prints a script for a shell. It asks edged itself for the verbs and flags, so it needs no update."
	cmd.Example = "edged completion bash > /etc/bash_completion.d/edged\nedged completion zsh > \"${fpath[1]}/_edged\"\nedged completion fish > ~/.config/fish/completions/edged.fish"
	cmd.ValidArgs = shells
	return cmd
}
