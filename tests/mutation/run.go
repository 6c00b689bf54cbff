package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A verdict is what came of a mutant.
type verdict int

const (
	survived   verdict = iota // every test passed
	killed                    // a test failed
	hung                      // a test had to be ended, or took all memory: nothing was asserted
	notCovered                // no test reaches it
)

// A binary is a compiled test package in which the mutants are.
type binary struct {
	path, dir string
	quick     []string // flags that keep a failing property test from searching for minutes
	tests     []test
}

// A test is one top-level test, with what it takes and which mutants it reaches.
type test struct {
	name    string
	took    time.Duration
	reached map[int]bool
}

// A laboratory holds what a schema was compiled to, and runs it.
type laboratory struct {
	root, work string
	jobs       int
	patience   time.Duration
	tell       func(format string, args ...any)
	binaries   []*binary
}

// build compiles the test packages with the schema in place of its source.
func (l *laboratory) build(s *schema, packages []string) error {
	replace := map[string]string{}
	for name, text := range s.overlay {
		to := filepath.Join(l.work, fmt.Sprintf("%d.go", len(replace)))
		if err := os.WriteFile(to, []byte(text), 0o666); err != nil {
			return err
		}
		replace[name] = to
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	file := filepath.Join(l.work, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o666); err != nil {
		return err
	}
	for i, p := range packages {
		b := &binary{path: filepath.Join(l.work, fmt.Sprintf("%d.test", i)), dir: filepath.Join(l.root, p)}
		cmd := exec.Command("go", "test", "-c", "-vet=off", "-overlay", file, "-o", b.path, "./"+p)
		cmd.Dir = l.root
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", p, err, out)
		}
		help, _ := exec.Command(b.path, "-help").CombinedOutput() // its status is 2, or 0
		if bytes.Contains(help, []byte("-rapid.nofailfile")) {
			b.quick = []string{"-rapid.nofailfile", "-rapid.shrinktime=1s"}
		}
		l.binaries = append(l.binaries, b)
	}
	return nil
}

// measure runs each test by itself without a mutant: how long it takes, and
// which mutants it reaches. A test that fails now is left out, and named.
func (l *laboratory) measure(ctx context.Context) error {
	for _, b := range l.binaries {
		cmd := exec.CommandContext(ctx, b.path, "-test.list", "^(Test|Example|Fuzz)")
		cmd.Dir = b.dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", b.dir, err, out)
		}
		var names []string
		for _, name := range strings.Fields(string(out)) {
			if strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Example") || strings.HasPrefix(name, "Fuzz") {
				names = append(names, name)
			}
		}
		found := make([]*test, len(names))
		l.each(ctx, len(names), func(i int) {
			for range 2 { // a busy machine may be the reason
				reach := filepath.Join(l.work, fmt.Sprintf("reached-%d", i))
				os.Remove(reach)
				start := time.Now()
				v, out := l.run(ctx, b, []string{names[i]}, 5*time.Minute, reachVariable+"="+reach)
				if v == survived {
					found[i] = &test{names[i], time.Since(start), numbers(reach)}
					return
				}
				l.tell("%s fails without a mutant:\n%s", names[i], tail(out))
			}
		})
		for _, t := range found {
			if t != nil {
				b.tests = append(b.tests, *t)
			}
		}
		slices.SortStableFunc(b.tests, func(x, y test) int { return int(x.took - y.took) })
	}
	return ctx.Err()
}

func numbers(file string) map[int]bool {
	text, _ := os.ReadFile(file) // none: nothing was reached
	m := map[int]bool{}
	for _, s := range strings.Fields(string(text)) {
		n, _ := strconv.Atoi(s)
		m[n] = true
	}
	return m
}

// each does n things, some at a time.
func (l *laboratory) each(ctx context.Context, n int, do func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range l.jobs {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	wg.Wait()
}

// try runs the tests that reach a mutant, the quick ones first, until one fails.
func (l *laboratory) try(ctx context.Context, id int) (v verdict, by string) {
	v = notCovered
	for _, b := range l.binaries {
		var names []string
		var took time.Duration
		flush := func() bool {
			if len(names) > 0 {
				var out string
				v, out = l.run(ctx, b, names, l.patience+10*took, fmt.Sprintf("%s=%d", switchVariable, id))
				by = blame(out)
			}
			names, took = nil, 0
			return v == survived || v == notCovered
		}
		for _, t := range b.tests {
			if !t.reached[id] {
				continue
			}
			if took+t.took > 3*time.Second && !flush() {
				return v, by
			}
			names, took = append(names, t.name), took+t.took
		}
		if !flush() {
			return v, by
		}
	}
	return v, by
}

// run runs some tests of a binary, in a process group and with a temporary
// folder of its own, so that nothing stays behind.
func (l *laboratory) run(ctx context.Context, b *binary, names []string, limit time.Duration, env string) (verdict, string) {
	tmp, err := os.MkdirTemp(l.work, "tmp")
	if err != nil {
		return survived, err.Error()
	}
	defer os.RemoveAll(tmp)
	ctx, cancel := context.WithTimeout(ctx, limit+10*time.Second)
	defer cancel()
	// 3 GB of data at most: a mutant may collect things for ever.
	args := append([]string{"-c", `ulimit -d 3000000; exec "$0" "$@"`, b.path, "-test.failfast", "-test.timeout", limit.String(), "-test.run", "^(" + strings.Join(names, "|") + ")$"}, b.quick...)
	cmd := exec.CommandContext(ctx, "sh", args...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), env, "TMPDIR="+tmp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	if cmd.Process != nil {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // children that were left
	}
	text := out.String()
	switch {
	case ctx.Err() != nil, strings.Contains(text, "panic: test timed out after"), strings.Contains(text, "cannot allocate memory"), strings.Contains(text, "fatal error: runtime: out of memory"):
		return hung, text
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		return survived, text
	}
	return killed, text
}

// blame finds the test that failed.
func blame(out string) string {
	for line := range strings.Lines(out) {
		if s, ok := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: "); ok {
			name, _, _ := strings.Cut(s, " ")
			return name
		}
	}
	return ""
}

func tail(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
