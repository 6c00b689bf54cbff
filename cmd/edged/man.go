package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The man page, from the table of verbs: 'edged help --man'.

// writeMan writes the manual of all verbs as man(7) wants it.
func writeMan(w io.Writer, root *cobra.Command) error {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH EDGED 1 \"\" %q \"User Commands\"\n", "edged "+version)
	fmt.Fprintf(&b, ".SH NAME\nedged \\- %s\n", roff(strings.ToLower(root.Short[:1])+root.Short[1:]))
	b.WriteString(".SH SYNOPSIS\n.B edged\n.I VERB\n[\\fIARGUMENTS\\fR] [\\fIFLAGS\\fR]\n")
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s\n", roff(root.Long))
	for _, g := range root.Groups() {
		fmt.Fprintf(&b, ".SH %s\n", strings.ToUpper(strings.TrimSuffix(g.Title, ":")))
		for _, v := range root.Commands() {
			if v.GroupID == g.ID && !v.Hidden {
				manVerb(&b, v)
			}
		}
	}
	b.WriteString(".SH FLAGS OF EVERY VERB\n")
	manFlags(&b, root.PersistentFlags())
	b.WriteString(".SH EXIT STATUS\n0, 1 when a problem was found, 2 when the command line is wrong.\n")
	b.WriteString(".SH SEE ALSO\n\\fBedged config\\fR lists the settings, \\fBedged doc\\fR what scripts can say.\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func manVerb(b *strings.Builder, v *cobra.Command) {
	fmt.Fprintf(b, ".SS edged %s\n%s.\n", roff(path(v)), roff(v.Short))
	if v.Long != "" {
		fmt.Fprintf(b, ".PP\n%s\n", roff(v.Long))
	}
	manFlags(b, v.LocalNonPersistentFlags())
	if v.Example != "" {
		fmt.Fprintf(b, ".PP\n.nf\n%s\n.fi\n", roff(v.Example))
	}
	for _, sub := range v.Commands() {
		if !sub.Hidden {
			manVerb(b, sub)
		}
	}
}

func manFlags(b *strings.Builder, flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name, usage := pflag.UnquoteUsage(f)
		short := ""
		if f.Shorthand != "" {
			short = "\\-" + f.Shorthand + ", "
		}
		fmt.Fprintf(b, ".TP\n\\fB%s\\-\\-%s\\fR %s\n%s\n", short, roff(f.Name), roff(name), roff(usage))
	})
}

// dotted are lines that man would take for its own.
var dotted = regexp.MustCompile(`(?m)^([.'])`)

// roff is text as man(7) shows it unchanged; a line stays a paragraph.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	return strings.ReplaceAll(dotted.ReplaceAllString(s, `\&$1`), "\n", "\n.br\n")
}
