package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"edged/cmd/edged/internal/config"
	"edged/starlark/lib"
	"edged/starlark/script"
)

// finding is one thing that check has to say.
type finding struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	Col  int    `json:"col,omitempty"`
	Rule string `json:"rule,omitempty"` // of a warning
	Msg  string `json:"msg"`
	Hint string `json:"hint,omitempty"`
	text string // as people read it
}

// checked is what came of the check of one folder.
type checked struct {
	Folder   string       `json:"folder"`
	Errors   []finding    `json:"errors"`
	Warnings []finding    `json:"warnings"`
	Summary  *lib.Summary `json:"summary,omitempty"` // if there are no errors
}

func (c *cli) checkVerb() *cobra.Command {
	var perCall time.Duration
	cmd := verb("check [DIR]", "Load a folder and say what is wrong with it", 0, 1, func(cmd *cobra.Command, args []string) error {
		dirs, err := robots("check", arg(args, "."))
		if err != nil {
			return err
		}
		var list []checked
		for _, dir := range dirs {
			list = append(list, checkFolder(cmd.Context(), dir, perCall))
		}
		wrong := 0
		err = c.print(list, func(w io.Writer) {
			for _, f := range list {
				f.show(w)
			}
		})
		for _, f := range list {
			wrong += len(f.Errors)
		}
		if err == nil && wrong > 0 {
			return errShown
		}
		return err
	})
	cmd.Long = "Loads a robot's folder, or all that are below, with simulated devices and nothing else: no device, no broker, nothing moves.\nErrors come first, then warnings with the name of their rule; \"# lint: allow RULE\" at the end of a line silences one. Only errors count for the exit status.\nGraphs that don't lead to an end and societies that name nobody are errors; ways around a guardrail, votes that tie and rounds too short for their models are warnings."
	cmd.Flags().DurationVar(&perCall, "call", 0, "how long a model takes for an answer, for the warnings; as measured if missing")
	return cmd
}

// checkFolder loads the scripts and the tests of a folder.
func checkFolder(ctx context.Context, dir string, perCall time.Duration) checked {
	f := checked{Folder: dir, Errors: []finding{}, Warnings: []finding{}}
	cfg, err := config.Load(dir, environ(), nil)
	if err != nil {
		f.Errors = findings(err)
		return f
	}
	m, err := openModel(cfg)
	if err != nil {
		f.Errors = findings(err)
		return f
	}
	defer m.close()
	b, err := lib.Load(ctx, m.host, m.root.FS(), loadOptions(cfg))
	if err != nil {
		f.Errors = findings(err)
		return f
	}
	defer func() { _ = b.Stop(ctx) }() // nothing of it runs
	if perCall == 0 && len(b.Societies()) > 0 {
		perCall = callTime(cfg)
	}
	own := b.CheckTimed(perCall)
	tests, err := lib.Tests(m.root.FS())
	var others []lib.Problem
	for _, t := range tests {
		if cfg.Script.Isolated {
			break // tests run inside this process
		}
		o := testOptions(cfg, m.root.FS())
		o.File, o.Data = t.Path, m.host.Data
		list, e := lib.CheckTest(ctx, o)
		own = slices.DeleteFunc(own, func(p lib.Problem) bool { // a test uses it
			return p.Rule == script.UnusedFunction && e == nil && !slices.Contains(list, p)
		})
		others = append(others, slices.DeleteFunc(list, func(p lib.Problem) bool { return p.Rule == script.UnusedFunction })...)
		err = errors.Join(err, e)
	}
	f.warn(append(own, others...))
	if f.Errors = append(f.Errors, findings(err)...); len(f.Errors) == 0 {
		s := b.Summary()
		f.Summary = &s
	}
	return f
}

// warn adds warnings that are not there yet: each test file brings those of
// main.star again.
func (f *checked) warn(list []lib.Problem) {
	for _, p := range list {
		text := p.String()
		if !slices.ContainsFunc(f.Warnings, func(x finding) bool { return x.text == text }) {
			f.Warnings = append(f.Warnings, warning(p))
		}
	}
}

func warning(p lib.Problem) finding {
	return finding{p.At.File, p.At.Line, p.At.Col, p.Rule, p.Msg, p.Hint, p.String()}
}

// String is the finding as people read it, also when it came over the socket.
func (f finding) String() string {
	if f.text != "" {
		return f.text
	}
	return lib.Problem{At: script.Position{File: f.File, Line: f.Line, Col: f.Col}, Rule: f.Rule, Msg: f.Msg, Hint: f.Hint}.String()
}

// findings takes an error apart.
func findings(err error) []finding {
	if err == nil {
		return nil
	}
	switch e := err.(type) {
	case *script.Error:
		return []finding{{e.File, e.Line, e.Col, e.Rule, e.Msg, e.Hint, e.Text()}}
	case *config.Error:
		return []finding{{File: e.Where, Msg: e.Msg, Hint: e.Hint, text: e.Error()}}
	case interface{ Unwrap() []error }:
		var list []finding
		for _, one := range e.Unwrap() {
			list = append(list, findings(one)...)
		}
		return list
	}
	return []finding{{Msg: err.Error(), text: err.Error()}}
}

func (f checked) show(w io.Writer) {
	for _, list := range [][]finding{f.Errors, f.Warnings} {
		for _, x := range list {
			fmt.Fprintln(w, x.text)
		}
	}
	name := filepath.Base(f.Folder)
	if abs, err := filepath.Abs(f.Folder); err == nil {
		name = filepath.Base(abs)
	}
	if len(f.Errors) > 0 {
		fmt.Fprintf(w, "%s: %s\n", name, count(len(f.Errors), "error"))
		return
	}
	fmt.Fprintf(w, "%s: ok, %s, %s, %s", name, count(len(f.Summary.Files), "file"),
		count(len(f.Summary.Handlers), "handler"), count(len(f.Summary.Agents), "agent"))
	if n := len(f.Warnings); n > 0 {
		fmt.Fprintf(w, ", %s", count(n, "warning"))
	}
	fmt.Fprintln(w)
}
