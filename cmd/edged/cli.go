package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"edged/cmd/edged/internal/config"
	"edged/cmd/edged/internal/control"
	"edged/starlark/value"
)

// Exit statuses.
const (
	exitOK      = 0
	exitProblem = 1
	exitUsage   = 2
)

// cli is one run of the command line: its streams and the flags that every
// verb has.
type cli struct {
	in       io.Reader
	out, err io.Writer
	json     bool
	socket   string
}

// usageError is a mistake in the command line itself.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// errShown ends a verb that has told its problem already.
var errShown = errors.New("problem found")

// main runs the verb that args name and returns the exit status.
func (c *cli) main(ctx context.Context, args []string) int {
	root := c.root()
	root.SetArgs(longFlags(args))
	err := root.ExecuteContext(ctx)
	var usage *usageError
	var asked *control.Error
	var setting *config.Error
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errShown):
		return exitProblem
	case errors.As(err, &usage), errors.As(err, &asked) && asked.Usage:
		fmt.Fprintln(c.err, "edged:", err)
		return exitUsage
	case errors.As(err, &setting) && (strings.HasPrefix(setting.Where, "--") || setting.Where == "config"):
		fmt.Fprintln(c.err, "edged:", err)
		return exitUsage
	}
	fmt.Fprintln(c.err, text(err))
	return exitProblem
}

// root is the table of verbs.
func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "edged",
		Short:         "Run robot behaviours written in Starlark",
		Long:          "edged runs robot behaviours written in Starlark on the robot itself.\nStart with: edged demo",
		SilenceErrors: true, SilenceUsage: true,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknownVerb(cmd, args[0])
		},
	}
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(helpVerb(root))
	root.SetFlagErrorFunc(flagError)
	root.PersistentFlags().StringVar(&c.socket, "socket", os.Getenv("EDGED_SOCKET"), "socket of the running robot to talk to")
	root.PersistentFlags().BoolVar(&c.json, "json", false, "print JSON")
	root.AddGroup(&cobra.Group{ID: "robot", Title: "Run:"}, &cobra.Group{ID: "folder", Title: "Write:"},
		&cobra.Group{ID: "talk", Title: "Talk to a running robot:"}, &cobra.Group{ID: "know", Title: "Know:"})
	add := func(group string, verbs ...*cobra.Command) {
		for _, v := range verbs {
			v.GroupID = group
			root.AddCommand(v)
		}
	}
	add("robot", c.runVerb(), c.demoVerb(), c.stopVerb(), c.resumeVerb(), c.reloadVerb(), c.confirmVerb(), c.answerVerb(), c.pageVerb())
	add("folder", c.newVerb(), c.checkVerb(), c.testVerb(), c.replayVerb(), c.trainVerb(), c.fmtVerb(), c.replVerb(), c.docVerb())
	add("talk", c.askVerb(), c.pubVerb(), c.subVerb(), c.bbVerb(), c.statusVerb(), c.inspectVerb(), c.traceVerb(), c.whyVerb(), c.graphVerb(), c.runsVerb(), c.recordVerb(), c.mcpVerb())
	add("know", c.doctorVerb(), c.modelVerb(), c.configVerb(), c.backupVerb(), c.restoreVerb(), c.completionVerb(), c.versionVerb())
	return root
}

// helpVerb is --help for those who type help.
func helpVerb(root *cobra.Command) *cobra.Command {
	var man bool
	cmd := verb("help [VERB]", "Explain a verb", 0, -1, func(_ *cobra.Command, args []string) error {
		if man {
			return writeMan(root.OutOrStdout(), root)
		}
		about, rest, err := root.Find(args)
		if err != nil || len(rest) > 0 {
			return unknownVerb(about, rest[0])
		}
		return about.Help()
	})
	cmd.GroupID = "know"
	cmd.Flags().BoolVar(&man, "man", false, "print the manual of all verbs as a man page")
	return cmd
}

// verb makes a command whose arguments are counted and named in one way.
func verb(use, short string, min, max int, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, RunE: run, DisableFlagsInUseLine: true}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < min:
			return usagef("%s: too few arguments; usage: edged %s", cmd.CommandPath()[len("edged "):], path(cmd))
		case max >= 0 && len(args) > max:
			return usagef("%s: unexpected argument %q; usage: edged %s", cmd.CommandPath()[len("edged "):], args[max], path(cmd))
		}
		return nil
	}
	return cmd
}

// path is the usage of a command with the verbs above it.
func path(cmd *cobra.Command) string {
	if p := cmd.Parent(); p != nil && p.HasParent() {
		return p.Name() + " " + cmd.Use
	}
	return cmd.Use
}

func unknownVerb(cmd *cobra.Command, name string) error {
	var names []string
	for _, v := range cmd.Commands() {
		if !v.Hidden {
			names = append(names, v.Name())
		}
	}
	n := value.Nearest(name, names)
	switch {
	case n != "" && cmd.HasParent():
		return usagef("%s: unknown verb %q; did you mean %q?", cmd.Name(), name, n)
	case n != "":
		return usagef("unknown verb %q; did you mean %q?", name, n)
	case cmd.HasParent():
		return usagef("%s: unknown verb %q; there are %s", cmd.Name(), name, strings.Join(names, ", "))
	}
	return usagef("unknown verb %q; 'edged --help' lists them", name)
}

// flagError says which flag was meant.
func flagError(cmd *cobra.Command, err error) error {
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) {
		msg := err.Error()
		if strings.HasPrefix(msg, "flag needs an argument") {
			return usagef("%s: %s", cmd.Name(), msg)
		}
		return usagef("%s: %s", cmd.Name(), strings.TrimPrefix(msg, "invalid argument "))
	}
	name := missing.GetSpecifiedName()
	if number.MatchString("-" + name) {
		return usagef("%s: %q looks like a flag; write -- in front of negative numbers", cmd.Name(), "-"+name)
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if n := value.Nearest(name, names); n != "" {
		return usagef("%s: unknown flag --%s; did you mean --%s?", cmd.Name(), name, n)
	}
	return usagef("%s: unknown flag --%s; 'edged %s --help' lists them", cmd.Name(), name, cmd.Name())
}

var (
	number = regexp.MustCompile(`^-[0-9.]`)
	single = regexp.MustCompile(`^-[a-z][a-z-]+(=.*)?$`)
)

// longFlags lets flags be written with one dash, as the go command's: no verb
// has flags that are joined.
func longFlags(args []string) []string {
	out := make([]string, 0, len(args))
	for i, a := range args {
		if a == "--" {
			return append(out, args[i:]...)
		}
		if single.MatchString(a) {
			a = "-" + a
		}
		out = append(out, a)
	}
	return out
}

// arg is the first argument, or what holds without one.
func arg(args []string, or string) string {
	if len(args) > 0 {
		return args[0]
	}
	return or
}
