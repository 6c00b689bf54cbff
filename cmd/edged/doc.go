package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"edged/starlark/lib"
	"edged/starlark/value"
)

func (c *cli) docVerb() *cobra.Command {
	var markdown bool
	cmd := verb("doc [NAME]", "Explain what scripts can say", 0, 1, func(cmd *cobra.Command, args []string) error {
		if markdown {
			if len(args) > 0 {
				return usagef("doc: --markdown is the whole manual; leave out %s", args[0])
			}
			_, err := io.WriteString(c.out, lib.Markdown())
			return err
		}
		all := documented()
		if len(args) == 0 {
			return c.print(all, func(w io.Writer) { listEntries(w, all) })
		}
		about, err := entriesOf(all, args[0])
		if err != nil {
			return err
		}
		return c.print(about, func(w io.Writer) { showEntries(w, about) })
	})
	cmd.Long = "Explains a builtin, a module or a type of value, with an example; without a name it lists them all."
	cmd.Example = "edged doc bb.set\nedged doc future"
	cmd.Flags().BoolVar(&markdown, "markdown", false, "print the whole manual")
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
		for _, e := range documented() {
			names = append(names, e.Name+"\t"+e.Summary())
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

// entriesOf are the entry of a name and its members. The last part of a name
// is enough where only one thing has it.
func entriesOf(all []value.Entry, name string) ([]value.Entry, error) {
	var about, last []value.Entry
	var names []string
	for _, e := range all {
		names = append(names, e.Name)
		switch {
		case e.Name == name, strings.HasPrefix(e.Name, name+"."):
			about = append(about, e)
		case strings.HasSuffix(e.Name, "."+name):
			last = append(last, e)
		}
	}
	if len(about) > 0 {
		return about, nil
	}
	if len(last) == 1 {
		return last, nil
	}
	if len(last) > 1 {
		names = nil
		for _, e := range last {
			names = append(names, e.Name)
		}
		return nil, usagef("doc: %q is many things: %s", name, strings.Join(names, ", "))
	}
	if n := value.Nearest(name, names); n != "" {
		return nil, usagef("doc: nothing is called %q; did you mean %q?", name, n)
	}
	return nil, usagef("doc: nothing is called %q; 'edged doc' lists all names", name)
}

// showEntries shows the first in full and the others as a list.
func showEntries(w io.Writer, about []value.Entry) {
	e := about[0]
	if e.Signature != "" {
		fmt.Fprintln(w, e.Signature)
	} else {
		fmt.Fprintf(w, "%s (%s)\n", e.Name, e.Kind)
	}
	if e.Doc != "" {
		fmt.Fprintf(w, "\n%s\n", fill(e.Doc, 80))
	}
	for i, p := range e.Params {
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "  %-12s %s\n", p.Name, paramText(p))
	}
	if e.Returns != "" {
		fmt.Fprintf(w, "\nReturns %s.\n", e.Returns)
	}
	if e.Blocks {
		fmt.Fprintln(w, "It waits; the time does not count against the script's limit.")
	}
	if e.Example != "" {
		fmt.Fprintf(w, "\n    %s\n", strings.ReplaceAll(e.Example, "\n", "\n    "))
	}
	if len(about) > 1 {
		fmt.Fprintln(w)
		listEntries(w, about[1:])
	}
}

// paramText is a row of the argument table after its name.
func paramText(p value.ParamDoc) string {
	what := p.Type
	if p.Unit != "" {
		what += " in " + p.Unit
	}
	switch {
	case p.Required:
		what += ", required"
	case p.Default != "":
		what += ", default " + p.Default
	}
	if p.Doc == "" {
		return what
	}
	return what + ". " + p.Doc
}

func listEntries(w io.Writer, list []value.Entry) {
	for _, e := range list {
		fmt.Fprintf(w, "%-28s %s\n", e.Name, e.Summary())
	}
}
