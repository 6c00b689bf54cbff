package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"edged/background"
	"edged/cmd/edged/internal/config"
	"edged/cmd/edged/internal/control"
	"edged/starlark/lib"
	"edged/starlark/script"
)

// The verb repl, and its side in the running robot.

// evaluator runs a line and gives its value as text, empty for None.
type evaluator func(ctx context.Context, line string) (string, error)

func (c *cli) replVerb() *cobra.Command {
	var attach bool
	cmd := verb("repl [DIR]", "Try out script lines", 0, 1, func(cmd *cobra.Command, args []string) error {
		if attach {
			if len(args) > 0 {
				return usagef("repl: --attach goes to the running robot; name it with --socket, not with %s", args[0])
			}
			eval := func(ctx context.Context, line string) (string, error) {
				var value string
				err := c.call(ctx, "eval", evalRequest{line}, &value)
				return value, err
			}
			if _, err := eval(cmd.Context(), "None"); err != nil {
				return err
			}
			return c.prompt(cmd.Context(), c.newPrompt(), eval)
		}
		return c.replModel(cmd.Context(), arg(args, "."))
	})
	cmd.Long = "Reads lines of a script and runs them, on a simulated robot with the names of DIR's main.star, or with --attach on the running one, where you may do everything. What you define stays for the next line."
	cmd.Flags().BoolVar(&attach, "attach", false, "talk to the running robot")
	return cmd
}

// replModel is a prompt on a robot in memory, in real time.
func (c *cli) replModel(ctx context.Context, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "main.star")); err != nil {
		if dir != "." {
			if _, err := robots("repl", dir); err != nil {
				return err
			}
			return fmt.Errorf("repl: %s has no main.star", dir)
		}
		if dir, err = os.MkdirTemp("", "edged-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if err := os.WriteFile(filepath.Join(dir, "main.star"), nil, 0o600); err != nil {
			return err
		}
	}
	cfg, err := config.Load(dir, environ(), nil)
	if err != nil {
		return err
	}
	m, err := openModel(cfg)
	if err != nil {
		return err
	}
	defer m.close()
	words, err := cfg.Stop.Heard()
	if err != nil {
		return err
	}
	if err := m.rig.Hear(words.Stops); err != nil {
		return err
	}
	p := c.newPrompt()
	m.host.Print, m.host.Log = p, slog.New(slog.NewTextHandler(p, nil))
	b, err := lib.Load(ctx, m.host, m.root.FS(), loadOptions(cfg))
	if err != nil {
		return err
	}
	tree := background.NewSupervisor("robot", background.Options{Bus: m.bus}, m.children()...)
	if err := tree.Start(ctx); err != nil {
		return err
	}
	ends := context.WithoutCancel(ctx)
	defer func() { _ = tree.Stop(ends) }() // a robot of air
	if err := b.Start(ctx); err != nil {
		return err
	}
	defer func() {
		quick, cancel := context.WithCancel(ends)
		cancel()
		_ = b.Stop(quick)
	}()
	return c.prompt(ctx, p, b.NewSession().Eval)
}

// prompt reads chunks and runs them until the input or ctx ends. Without a
// terminal the first error ends it.
func (c *cli) prompt(ctx context.Context, p *promptReader, eval evaluator) error {
	var chunk strings.Builder
	for {
		line, err := p.read(ctx, chunk.Len() > 0)
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			if chunk.Len() == 0 {
				return nil
			}
		} else if err != nil {
			return fmt.Errorf("repl: %w", err)
		}
		chunk.WriteString(line + "\n")
		text := chunk.String()
		if err == nil && script.NeedsMore(text) {
			continue
		}
		chunk.Reset()
		if strings.TrimSpace(text) == "" {
			continue
		}
		switch value, err := eval(ctx, strings.TrimSuffix(text, "\n")); {
		case err != nil && p.terminal == nil:
			return err
		case err != nil:
			fmt.Fprintln(p, errText(err))
		case value != "":
			fmt.Fprintln(p, value)
		}
	}
}

// errText is an error at the prompt, without the program's name in front.
func errText(err error) string { return strings.TrimPrefix(text(err), "edged: ") }

// promptReader reads lines, from a terminal with editing and history. What is
// written to it appears above the line that is being typed.
type promptReader struct {
	mu       sync.Mutex // guards writes to out
	out      io.Writer
	terminal *term.Terminal // nil if there is none
	fd       int
	lines    *bufio.Scanner
}

func (c *cli) newPrompt() *promptReader {
	p := &promptReader{out: c.out}
	f, ok := c.in.(*os.File)
	if ok && term.IsTerminal(int(f.Fd())) {
		p.fd = int(f.Fd())
		p.terminal = term.NewTerminal(struct {
			io.Reader
			io.Writer
		}{f, c.out}, "")
		p.terminal.AutoCompleteCallback = completer()
		return p
	}
	p.lines = bufio.NewScanner(c.in)
	p.lines.Buffer(nil, script.MaxSource)
	return p
}

// Write implements io.Writer; it may be called while a line is read.
func (p *promptReader) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal != nil {
		return p.terminal.Write(b)
	}
	return p.out.Write(b)
}

// read gives the next line, io.EOF at the end, or when ctx ends its error.
func (p *promptReader) read(ctx context.Context, more bool) (string, error) {
	if p.terminal == nil {
		if !p.lines.Scan() {
			return "", errors.Join(io.EOF, p.lines.Err())
		}
		return p.lines.Text(), nil
	}
	p.terminal.SetPrompt(">>> ")
	if more {
		p.terminal.SetPrompt("... ")
	}
	old, err := term.MakeRaw(p.fd)
	if err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(p.fd, old) }()
	if w, h, err := term.GetSize(p.fd); err == nil && w > 0 {
		_ = p.terminal.SetSize(w, h)
	}
	type result struct {
		line string
		err  error
	}
	done := make(chan result, 1)
	go func() { // at the end of ctx it stays until the process ends: reads of a terminal can't be ended
		line, err := p.terminal.ReadLine()
		done <- result{line, err}
	}()
	select {
	case r := <-done:
		return r.line, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// completer finishes the name before the cursor when tab is pressed.
func completer() func(line string, pos int, key rune) (string, int, bool) {
	var names []string
	for _, e := range lib.Catalogue() {
		names = append(names, e.Name)
	}
	slices.Sort(names)
	return func(line string, pos int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		from := pos
		for from > 0 && partOfName(line[from-1]) {
			from--
		}
		word := line[from:pos]
		if word == "" {
			return line[:pos] + "    " + line[pos:], pos + 4, true
		}
		common := ""
		for _, n := range names {
			if !strings.HasPrefix(n, word) {
				continue
			}
			if common == "" {
				common = n
			}
			for !strings.HasPrefix(n, common) {
				common = common[:len(common)-1]
			}
		}
		if len(common) <= len(word) {
			return line, pos, true
		}
		return line[:from] + common + line[pos:], from + len(common), true
	}
}

func partOfName(c byte) bool {
	return c == '.' || c == '_' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// evalRequest is a line for the running robot.
type evalRequest struct {
	Line string `json:"line"`
}

// evalHandler answers eval in the robot: there is one session, which begins
// anew when another behaviour is current.
func evalHandler(current func() *lib.Behaviour) control.Handler {
	var mu sync.Mutex // guards the rest
	var of *lib.Behaviour
	var session *lib.Session
	return func(ctx context.Context, with json.RawMessage, send func(any) error) error {
		var q evalRequest
		if err := json.Unmarshal(with, &q); err != nil {
			return control.Usagef("eval: %v", err)
		}
		mu.Lock()
		if b := current(); b != of {
			of, session = b, b.NewSession()
		}
		s := session
		mu.Unlock()
		value, err := s.Eval(ctx, q.Line)
		if err != nil {
			return err
		}
		return send(value)
	}
}
