// Command mutation asks the tests whether they would notice. It makes small
// mistakes in a package, one at a time (a < for a <=, a call left out, an
// error returned as nil: see operators.go), and runs the tests that reach the
// mistake. A mutant that no test fails for has survived: either a test is
// missing, or the code says more than it need.
//
//	go run ./tests/mutation                         the packages of safety and trust
//	go run ./tests/mutation blackboard              one package
//	go run ./tests/mutation blackboard/request.go   one file, or one line with :120
//	go run ./tests/mutation -n 60 -seed 7 bus hw    a sample of 60 of each
//
// Its one rule: a package is compiled once. All mutants are compiled into one
// rewritten copy of it (a mutant schema), which go test gets by -overlay, and
// a variable of the environment switches one on. So a mutant costs only the
// run of the tests that reach it, and those are known from a run of each test
// by itself.
//
// It fails if fewer than nine in ten are killed by a failing test, or if a
// test hangs. Survivors that are right to survive are listed in accepted.txt,
// each with the reason.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const bar = 90 // percent that must be killed

// A room is what is mutated together: files of one package.
type room struct {
	pkg   string
	files []string // patterns; none: all
	line  int      // 0: all
	tests []string // packages whose tests are asked after its own
}

// rooms are the packages of safety and trust.
var rooms = []room{
	{pkg: "hw", tests: []string{"hw/sim"}},
	{pkg: "hw/stopword"},
	{pkg: "bus"},
	{pkg: "bus/origin"},
	{pkg: "bus/mqtt"},
	{pkg: "bus/mqtt/broker"},
	{pkg: "blackboard"},
	{pkg: "background"},
	{pkg: "workflow", tests: []string{"starlark/lib"}},
	{pkg: "workflow/graph", tests: []string{"starlark/lib"}},
	{pkg: "workflow/society", tests: []string{"starlark/lib"}},
	{pkg: "agent/llm", tests: []string{"starlark/lib"}},
	{pkg: "starlark/lib", files: []string{"grant.go", "isolated.go"}},
	{pkg: "starlark/script", files: []string{"isolated*.go", "confine*.go", "wire*.go", "host*.go"}, tests: []string{"starlark/lib"}},
	{pkg: "cmd/edged/internal/web"},
}

func main() {
	n := flag.Int("n", 0, "of each room at most so many mutants, drawn at random; 0: all")
	seed := flag.Uint64("seed", 1, "of the draw")
	jobs := flag.Int("j", runtime.NumCPU(), "test processes at a time")
	only := flag.Bool("list", false, "tell which mutants there are, and run nothing")
	verbose := flag.Bool("v", false, "tell of each mutant what came of it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	e := &examination{n: *n, seed: *seed, jobs: *jobs, list: *only, verbose: *verbose, patience: 20 * time.Second,
		tell: func(f string, args ...any) { fmt.Printf(f+"\n", args...) }}
	ok, err := e.report(ctx, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// report does the rooms one after the other and prints what came of each.
func (e *examination) report(ctx context.Context, args []string) (bool, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return false, fmt.Errorf("not in a module: %w", err)
	}
	e.root = strings.TrimSpace(string(out))
	chosen, err := choose(e.root, args)
	if err != nil {
		return false, err
	}
	e.reasons, err = readAccepted(filepath.Join(e.root, "tests/mutation/accepted.txt"))
	if err != nil {
		return false, err
	}
	good := true
	for _, r := range chosen {
		start := time.Now()
		c, err := e.room(ctx, r)
		if err != nil {
			return false, err
		}
		if e.list {
			continue
		}
		e.tell("%-24s %s  %s", r.name(), c, time.Since(start).Round(time.Second))
		good = good && c.good()
	}
	return good, nil
}

func (r room) name() string {
	if len(r.files) == 0 {
		return r.pkg
	}
	return r.pkg + "/" + strings.Join(r.files, ",")
}

// choose reads the arguments: rooms, packages, files, lines.
func choose(root string, args []string) ([]room, error) {
	if len(args) == 0 {
		return rooms, nil
	}
	var list []room
	for _, a := range args {
		a = strings.TrimPrefix(strings.TrimSuffix(a, "/"), "./")
		r := room{pkg: a}
		name, line, _ := strings.Cut(a, ":")
		if strings.HasSuffix(name, ".go") {
			r = room{pkg: filepath.Dir(name), files: []string{filepath.Base(name)}}
			r.line, _ = strconv.Atoi(line)
		}
		if st, err := os.Stat(filepath.Join(root, r.pkg)); err != nil || !st.IsDir() {
			return nil, fmt.Errorf("%s: no such package in %s", r.pkg, root)
		}
		for _, known := range rooms {
			if known.pkg == r.pkg {
				r.tests = known.tests
				if r.files == nil {
					r.files = known.files
				}
			}
		}
		list = append(list, r)
	}
	return list, nil
}

// An examination is how rooms are done.
type examination struct {
	root     string // of the module
	n        int    // how many mutants of each room; 0: all
	seed     uint64
	jobs     int
	patience time.Duration // what a test may take beyond ten times what it takes without a mutant
	list     bool          // only tell what there is
	verbose  bool
	tell     func(format string, args ...any)
	reasons  map[string]string // of accepted survivors
}

// room makes the mutants of a room and runs the tests on each.
func (e *examination) room(ctx context.Context, r room) (*count, error) {
	work, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	deps, err := list(e.root, "./"+r.pkg, "os", "strconv", "sync", "syscall") // what the switch imports
	if err != nil {
		return nil, err
	}
	var p *goPackage
	for _, d := range deps {
		if d.Dir == filepath.Join(e.root, r.pkg) {
			p = d
		}
	}
	if p == nil {
		return nil, fmt.Errorf("%s: no Go package", r.pkg)
	}
	s, err := rewrite(e.root, p, deps, r.wants)
	if err != nil {
		return nil, err
	}
	drawn := draw(s, r.line, e.n, e.seed)
	c := &count{reasons: e.reasons}
	if e.list {
		for _, m := range drawn {
			e.tell("%s  [%s]", m, m.fn)
		}
		return c, nil
	}
	l := &laboratory{root: e.root, work: work, jobs: e.jobs, patience: e.patience, tell: e.tell}
	if err := l.build(s, append([]string{r.pkg}, r.tests...)); err != nil {
		return nil, err
	}
	if err := l.measure(ctx); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	l.each(ctx, len(drawn), func(i int) {
		v, by := l.try(ctx, drawn[i].id)
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		if line := c.add(drawn[i], v); line != "" {
			e.tell("%s", line)
		} else if e.verbose {
			e.tell("killed       %s by %s", drawn[i], by)
		}
	})
	if e.n == 0 && r.line == 0 {
		for _, k := range c.stale(r) {
			e.tell("stale        accepted.txt: %s", k)
		}
	}
	return c, ctx.Err()
}

func (r room) wants(file string) bool {
	return len(r.files) == 0 || slices.ContainsFunc(r.files, func(p string) bool {
		ok, _ := filepath.Match(p, filepath.Base(file))
		return ok
	})
}

// draw takes n mutants of the schema, in their order in the source.
func draw(s *schema, line, n int, seed uint64) []mutant {
	var list []mutant
	for _, m := range s.mutants {
		if line == 0 || line == m.line {
			list = append(list, m)
		}
	}
	byID := func(a, b mutant) int { return a.id - b.id }
	slices.SortFunc(list, byID)
	if n > 0 && n < len(list) {
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		list = list[:n]
		slices.SortFunc(list, byID)
	}
	return list
}
