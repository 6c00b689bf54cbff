package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"edged/blackboard"
	"edged/bus"
	"edged/cmd/edged/internal/config"
	"edged/hw"
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
	cmd := verb("check [DIR]", "Load a folder and say what is wrong with it", 0, 1, func(cmd *cobra.Command, args []string) error {
		dirs, err := robots("check", arg(args, "."))
		if err != nil {
			return err
		}
		var list []checked
		for _, dir := range dirs {
			list = append(list, checkFolder(cmd.Context(), dir))
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
	cmd.Long = "Loads a robot's folder, or all that are below, with simulated devices and nothing else: no device, no broker, nothing moves.\nErrors come first, then warnings with the name of their rule; \"# lint: allow RULE\" at the end of a line silences one. Only errors count for the exit status."
	return cmd
}

// arg is the first argument, or what holds without one.
func arg(args []string, or string) string {
	if len(args) > 0 {
		return args[0]
	}
	return or
}

// robots are the folders of robots at path: itself, or those below.
func robots(verb, path string) ([]string, error) {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: no folder %s%s", verb, path, nearby(path))
	case err != nil:
		return nil, fmt.Errorf("%s: %w", verb, err)
	case !st.IsDir():
		return nil, usagef("%s: %s is a file; give the folder it is in", verb, path)
	}
	var dirs []string
	err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !d.IsDir():
			return nil
		case p != path && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		}
		if _, err := os.Stat(filepath.Join(p, "main.star")); err == nil {
			dirs = append(dirs, p)
			return fs.SkipDir
		}
		return nil
	})
	if err == nil && len(dirs) == 0 {
		err = fmt.Errorf("%s has no main.star; 'edged new NAME' makes a folder that runs", path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", verb, err)
	}
	return dirs, nil
}

// checkFolder loads the scripts and the tests of a folder.
func checkFolder(ctx context.Context, dir string) checked {
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
	f.warn(b.Check())
	tests, err := lib.Tests(m.root.FS())
	for _, t := range tests {
		if cfg.Script.Isolated {
			break // tests run inside this process
		}
		o := testOptions(cfg, m.root.FS())
		o.File, o.Data = t.Path, m.host.Data
		list, e := lib.CheckTest(ctx, o)
		f.warn(list)
		err = errors.Join(err, e)
	}
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
			f.Warnings = append(f.Warnings, finding{p.At.File, p.At.Line, p.At.Col, p.Rule, p.Msg, p.Hint, text})
		}
	}
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

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// model is a robot that exists in memory only, for verbs that look at a folder.
// Its files are in a folder that goes with it, and secrets are not read.
type model struct {
	bus     *bus.Bus
	board   *blackboard.Board
	rig     *hw.Rig
	devices devices
	host    *lib.Host
	root    *os.Root // the folder of the scripts
	temp    string
}

func openModel(cfg *config.Config) (m *model, err error) {
	m = &model{bus: bus.New(bus.Options{}), host: &lib.Host{Name: cfg.Name, Env: lookup(cfg.Env), Limits: limitsOf(cfg)}}
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	if m.root, err = os.OpenRoot(cfg.Dir()); err != nil {
		return m, err
	}
	if m.board, err = blackboard.Open(m.bus, blackboard.Options{}); err != nil {
		return m, err
	}
	if m.rig, err = hw.NewRig(m.bus, hw.Options{}); err != nil {
		return m, err
	}
	if m.devices, err = openDevices(m.rig, cfg, true); err != nil {
		return m, err
	}
	if m.temp, err = os.MkdirTemp("", "edged-"); err != nil {
		return m, err
	}
	if m.host.Data, err = os.OpenRoot(m.temp); err != nil {
		return m, err
	}
	m.host.Bus, m.host.Board, m.host.Rig, m.host.World = m.bus, m.board, m.rig, m.devices.world
	m.host.Print = io.Discard
	m.host.Secret = noSecrets(cfg)
	return m, nil
}

// noSecrets knows the names of the secrets and reads none.
func noSecrets(cfg *config.Config) func(string) (string, error) {
	return func(name string) (string, error) {
		if _, ok := cfg.Secrets[name]; !ok {
			return "", lib.ErrNoSecret
		}
		return "not read", nil
	}
}

// close takes everything away; nothing of it is worth an error.
func (m *model) close() {
	if m.rig != nil {
		m.rig.Close()
	}
	if m.board != nil {
		_ = m.board.Close()
	}
	_ = m.bus.Close(context.Background())
	if m.root != nil {
		_ = m.root.Close()
	}
	if m.host.Data != nil {
		_ = m.host.Data.Close()
	}
	if m.temp != "" {
		_ = os.RemoveAll(m.temp)
	}
}
