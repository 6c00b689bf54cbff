package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"edged/background"
	"edged/cmd/edged/internal/config"
	"edged/hw"
	"edged/hw/sim"
	"edged/starlark/lib"
	"edged/starlark/script"
)

// testFlags are how 'edged test' was called.
type testFlags struct {
	run                    string
	verbose, cover, update bool
	junit                  string
	timeout                time.Duration // of real time, for each test

	match *regexp.Regexp
	file  string // the only file to run, if not empty
}

// testGrace is how long a test that takes too long may take to end.
const testGrace = 10 * time.Second

// folderResult is what came of the tests of one folder.
type folderResult struct {
	Folder   string       `json:"folder"`
	Seconds  float64      `json:"seconds"`
	Coverage *float64     `json:"coverage,omitempty"` // percent
	Tests    []testResult `json:"tests"`

	begun time.Time
	cover []script.FileCover
	files int
	idle  int   // tests that were not run: their file does not load
	err   error // no test could run
}

type testResult struct {
	File    string  `json:"file"`
	Name    string  `json:"name"`
	OK      bool    `json:"ok"`
	Seconds float64 `json:"seconds"`
	Error   string  `json:"error,omitempty"`
	Output  string  `json:"output,omitempty"`
}

func (f folderResult) failed() (n int) {
	for _, t := range f.Tests {
		if !t.OK {
			n++
		}
	}
	return n
}

func (f folderResult) ok() bool { return f.err == nil && f.failed() == 0 }

func (c *cli) testVerb() *cobra.Command {
	var o testFlags
	cmd := verb("test [PATH]", "Run the tests of a folder in virtual time", 0, 1, func(cmd *cobra.Command, args []string) error {
		var err error
		if o.match, err = regexp.Compile(o.run); err != nil {
			return usagef("test: --run: %v", err)
		}
		if o.timeout <= 0 {
			return usagef("test: --timeout %v: want more than none", o.timeout)
		}
		dirs, err := o.folders(arg(args, "."))
		if err != nil {
			return err
		}
		defer context.AfterFunc(cmd.Context(), func() { os.Exit(exitProblem) })() // all is in memory
		virtual(func(bubble bubble) int { return c.test(dirs, o, bubble) })
		return nil
	})
	cmd.Long = "Runs the functions test_… of the files *_test.star, each with a robot of its own in memory, simulated devices and a clock that jumps to whatever is next. PATH is a folder, one with folders of robots below, or a single file."
	cmd.Example = "edged test guard\nedged test -v -run alarm guard/main_test.star"
	f := cmd.Flags()
	f.StringVar(&o.run, "run", "", "only tests whose name matches this regular expression")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "tell of every test, with what it printed")
	f.BoolVar(&o.cover, "cover", false, "count the lines that ran")
	f.BoolVar(&o.update, "update", false, "write golden traces anew")
	f.DurationVar(&o.timeout, "timeout", time.Minute, "how long one test may take in real time; in its own time it is 1000 days")
	f.StringVar(&o.junit, "junit", "", "write the results to this file, as JUnit XML")
	return cmd
}

// folders are those to test: the robot's that a single file belongs to, or
// those at a path. One without main.star can have tests, too.
func (o *testFlags) folders(at string) ([]string, error) {
	if st, err := os.Stat(at); err == nil && !st.IsDir() {
		if !strings.HasSuffix(at, "_test.star") {
			return nil, usagef("test: %s is no test; tests are in *_test.star", at)
		}
		dir := robotOf(at)
		rel, err := filepath.Rel(dir, at)
		o.file = filepath.ToSlash(rel)
		return []string{dir}, err
	}
	dirs, err := robots("test", at)
	if err != nil {
		if m, _ := filepath.Glob(filepath.Join(at, "*_test.star")); len(m) > 0 {
			return []string{at}, nil
		}
	}
	return dirs, err
}

// robotOf is the nearest folder above a file that has a main.star.
func robotOf(file string) string {
	for dir := filepath.Dir(file); ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "main.star")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return filepath.Dir(file)
		}
	}
}

// test runs the tests of all folders and gives the exit status.
func (c *cli) test(dirs []string, o testFlags, b bubble) int {
	code := exitOK
	var results []folderResult
	for _, dir := range dirs {
		r := c.testFolder(dir, o, b)
		results = append(results, r)
		if !r.ok() {
			code = exitProblem
		}
		if !c.json {
			r.show(c.out, o)
		}
	}
	if c.json {
		if err := c.print(results, nil); err != nil {
			code = exitProblem
		}
	}
	if o.junit != "" {
		if err := writeJUnit(o.junit, results); err != nil {
			fmt.Fprintln(c.err, "edged: test:", err)
			code = exitProblem
		}
	}
	return code
}

func (c *cli) testFolder(dir string, o testFlags, b bubble) (r folderResult) {
	r = folderResult{Folder: filepath.Base(dir), Tests: []testResult{}, begun: time.Now()}
	defer func() { r.Seconds = time.Since(r.begun).Seconds() }()
	cfg, err := config.Load(dir, environ(), nil)
	if err != nil {
		r.err = err
		return r
	}
	r.Folder = cfg.Name
	if cfg.Script.Isolated {
		r.err = errors.New("test: these scripts are isolated (script.isolated in edged.toml), and tests run inside this process; if you trust them: EDGED_SCRIPT_ISOLATED=false edged test")
		return r
	}
	folder, done, err := openFolder(dir)
	if err != nil {
		r.err = err
		return r
	}
	defer done()
	files, err := lib.Tests(folder)
	if err != nil {
		r.err = err
		return r
	}
	r.files = len(files)
	counted := &script.Cover{}
	for _, f := range files {
		if o.file != "" && f.Path != o.file {
			continue
		}
		list := f.Funcs
		if len(list) == 0 {
			list = []string{""} // loading it tells why there are none
		}
		wanted := slices.DeleteFunc(slices.Clone(f.Funcs), func(fn string) bool { return !o.match.MatchString(testName(f.Path, fn, len(files))) })
		if len(wanted) > 0 && !c.loads(&r, f.Path, testOptions(cfg, folder), o, b) {
			r.idle += len(wanted)
			continue
		}
		for _, fn := range list {
			name := testName(f.Path, fn, len(files))
			if !o.match.MatchString(name) && fn != "" {
				continue
			}
			t := testOptions(cfg, folder)
			t.File, t.Func = f.Path, fn
			if o.cover {
				t.Cover = counted
			}
			goldenFiles(&t, dir, o.update)
			res := c.testOne(name, t, o, b)
			if fn != "" || !res.OK {
				r.Tests = append(r.Tests, res)
			}
		}
	}
	if o.cover {
		r.count(counted)
	}
	return r
}

// loads reports whether a file of tests loads, and main.star before it. What is
// wrong is said once, however many tests and files it keeps from running.
func (c *cli) loads(r *folderResult, file string, t lib.TestOptions, o testFlags, b bubble) bool {
	quiet := *c
	quiet.json = true
	t.File = file
	res := quiet.testOne(file, t, o, b)
	if res.OK {
		return true
	}
	if slices.ContainsFunc(r.Tests, func(x testResult) bool { return x.Error == res.Error }) {
		return false
	}
	r.Tests = append(r.Tests, res)
	if !c.json {
		res.show(c.out)
	}
	return false
}

// testName is what a test is called in what is printed and for -run: the
// function, with its file where there are several.
func testName(file, fn string, files int) string {
	switch {
	case fn == "":
		return file
	case files == 1:
		return fn
	}
	return strings.TrimSuffix(file, "_test.star") + "/" + fn
}

// testOptions is a robot for a test, as far as the settings say what it is.
func testOptions(cfg *config.Config, folder fs.FS) lib.TestOptions {
	o := lib.TestOptions{
		Folder: folder, Name: folderOf(cfg), Grants: grantsOf(cfg), Env: lookup(cfg.Env), Secret: noSecrets(cfg), Limits: limitsOf(cfg),
		Isolated: cfg.Script.Isolated,
	}
	o.Words, _ = cfg.Stop.Heard() // settings with wrong words are not loaded
	if len(cfg.Devices) == 0 {
		return o // the apartment
	}
	o.Devices = func(rig *hw.Rig) (*sim.World, []background.Child, error) {
		d, err := openDevices(rig, cfg, true)
		var children []background.Child
		for _, s := range d.services {
			children = append(children, background.Child{Name: s.name, Service: s.service})
		}
		return d.world, children, err
	}
	return o
}

// goldenFiles puts the golden traces into testdata beside the test.
func goldenFiles(o *lib.TestOptions, dir string, update bool) {
	at := filepath.Join(dir, filepath.Dir(filepath.FromSlash(o.File)), "testdata")
	o.Golden = func(name string) (string, bool) {
		if !filepath.IsLocal(name) {
			return "", false
		}
		b, err := os.ReadFile(filepath.Join(at, name))
		return string(b), err == nil
	}
	if !update {
		return
	}
	o.Update = func(name, text string) error {
		if !filepath.IsLocal(name) {
			return fmt.Errorf("%q is not inside testdata", name)
		}
		file := filepath.Join(at, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		return os.WriteFile(file, []byte(text), 0o644)
	}
}

func (c *cli) testOne(name string, t lib.TestOptions, o testFlags, b bubble) testResult {
	show := !c.json && t.Func != ""
	if o.verbose && show {
		fmt.Fprintf(c.out, "=== RUN   %s\n", name)
	}
	var out bytes.Buffer
	t.Out, t.Settle = &out, synctest.Wait
	began := time.Now()
	var late atomic.Bool
	most := cmp.Or(o.timeout, time.Minute)
	limit := time.AfterFunc(most, func() { late.Store(true) })
	dead := time.AfterFunc(most+testGrace, func() { // not even that ends it
		fmt.Fprintf(c.out, "--- FAIL: %s (%.2fs)\n    %s: the test takes too long, and can't be ended: it does not let time pass\nFAIL\n", name, time.Since(began).Seconds(), t.File)
		os.Exit(exitProblem)
	})
	t.Late = late.Load
	defer limit.Stop()
	defer dead.Stop()
	err := withData(&t, func() error {
		return b(func(ctx context.Context) error { return lib.Test(ctx, t) })
	})
	r := testResult{File: t.File, Name: name, OK: err == nil, Seconds: time.Since(began).Seconds(), Output: out.String()}
	if err != nil {
		r.Error = strings.Join(texts(err), "\n")
	}
	if !show && err == nil || c.json || err == nil && !o.verbose {
		return r
	}
	r.show(c.out)
	return r
}

// show prints a test as the go command does.
func (r testResult) show(w io.Writer) {
	verdict := "PASS"
	if !r.OK {
		verdict = "FAIL"
	}
	fmt.Fprintf(w, "--- %s: %s (%.2fs)\n", verdict, r.Name, r.Seconds)
	for _, text := range []string{r.Output, r.Error} {
		for line := range strings.Lines(text) {
			fmt.Fprintf(w, "    %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
}

// withData runs a test that has a data folder of its own.
func withData(t *lib.TestOptions, run func() error) error {
	dir, err := os.MkdirTemp("", "edged-test-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if t.Data, err = os.OpenRoot(dir); err != nil {
		return err
	}
	return errors.Join(run(), t.Data.Close())
}

// texts are the errors that one is made of, as people read them.
func texts(err error) (list []string) {
	for _, f := range findings(err) {
		list = append(list, f.text)
	}
	return list
}

// count takes over the coverage of the scripts, the tests' own left out.
func (f *folderResult) count(c *script.Cover) {
	all, run := 0, 0
	for _, one := range c.Files() {
		if !strings.HasSuffix(one.File, "_test.star") {
			f.cover = append(f.cover, one)
			all, run = all+one.Statements, run+one.Run
		}
	}
	percent := 100.0
	if all > 0 {
		percent = 100 * float64(run) / float64(all)
	}
	f.Coverage = &percent
}

// show ends a folder the way the go command does.
func (f folderResult) show(w io.Writer, o testFlags) {
	switch {
	case f.err != nil:
		fmt.Fprintf(w, "%s\nFAIL\t%s [setup failed]\n", strings.Join(texts(f.err), "\n"), f.Folder)
		return
	case f.files == 0:
		fmt.Fprintf(w, "?   \t%s\t[no test files]\n", f.Folder)
		return
	case !f.ok():
		if f.idle > 0 {
			fmt.Fprintf(w, "%s not run\n", count(f.idle, "test"))
		}
		fmt.Fprintf(w, "FAIL\nFAIL\t%s\t%.3fs\n", f.Folder, f.Seconds)
		return
	case o.verbose:
		fmt.Fprintln(w, "PASS")
	}
	fmt.Fprintf(w, "ok  \t%s\t%.3fs", f.Folder, f.Seconds)
	if f.Coverage != nil {
		fmt.Fprintf(w, "\tcoverage: %.1f%% of statements", *f.Coverage)
	}
	if len(f.Tests) == 0 {
		fmt.Fprint(w, " [no tests to run]")
	}
	fmt.Fprintln(w)
	for _, one := range f.cover {
		if one.Run < one.Statements {
			fmt.Fprintf(w, "    \t%s\t%.1f%%, lines that did not run: %s\n", one.File, one.Percent(), one.MissedText())
		}
	}
}
