// Command bench measures edged against its peers and against hand-written
// limits, every pair in the same run, and prints ratios: only those carry over
// from one machine to another.
//
//	go run .                      everything, a table on standard output
//	go run . bus script           some groups
//	go run . -o ../../doc/benchmarks.md
//
// It is a module of its own, so that peers are no dependencies of edged.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// A row is one figure: what was measured, against what, and whether it holds.
type row struct {
	group, what string
	value       string // the measured figure, with unit
	against     string // the limit's or peer's figure, with unit
	ratio       float64
	goal        string
	ok          bool
}

// groups in the order they are run.
var groups = []struct {
	name string
	run  func(b *bench) error
}{
	{"bus", micro("bus")}, {"board", micro("board")}, {"script", micro("script")}, {"hw", micro("hw")},
	{"models", micro("models")}, {"workflow", micro("workflow")}, {"society", micro("society")},
	{"size", size}, {"start", start}, {"idle", idle}, {"agents", agents}, {"stop", stops}, {"mqtt", mqttFigures},
}

type bench struct {
	rounds int
	rows   []row
	bin    string // the folder with the built programs
}

func (b *bench) add(r row) {
	b.rows = append(b.rows, r)
	fmt.Fprintln(os.Stderr, r.markdown())
}

func (r row) markdown() string {
	mark := "yes"
	switch {
	case r.goal == "":
		mark = ""
	case !r.ok:
		mark = "**no**"
	}
	ratio := ""
	if r.ratio > 0 {
		ratio = fmt.Sprintf("%.2f", r.ratio)
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s |", r.what, r.value, r.against, ratio, r.goal, mark)
}

func main() {
	out := flag.String("o", "", "write the table to this file too, between its markers")
	rounds := flag.Int("rounds", 5, "interleaved rounds; the median counts")
	flag.Parse()
	dir, err := os.MkdirTemp("", "edged-bench")
	check(err)
	defer os.RemoveAll(dir)
	b := &bench{rounds: *rounds, bin: dir}
	check(b.build())
	for _, g := range groups {
		if flag.NArg() > 0 && !slices.Contains(flag.Args(), g.name) {
			continue
		}
		if err := g.run(b); err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", g.name, err)
			b.rows = append(b.rows, row{group: g.name, what: g.name + ": not measured: " + err.Error()})
		}
	}
	table := b.table()
	fmt.Print(table)
	if *out != "" {
		check(replace(*out, table))
	}
	for _, r := range b.rows {
		if !r.ok {
			os.Exit(1)
		}
	}
}

func (b *bench) table() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s, %s, %d cores, %s, %s\n\n", time.Now().UTC().Format("2006-01-02"), cpu(), runtime.NumCPU(), kernel(), runtime.Version())
	s.WriteString("| what | edged | limit or peer | ratio | to reach | holds |\n|---|---|---|---|---|---|\n")
	for _, r := range b.rows {
		s.WriteString(r.markdown() + "\n")
	}
	return s.String()
}

// build makes the programs that are timed as processes; edged as it is shipped.
func (b *bench) build() error {
	dist := exec.Command("make", "-s", "dist", "OUT="+b.bin)
	dist.Dir = "../.."
	if out, err := dist.CombinedOutput(); err != nil {
		return fmt.Errorf("build edged: %v\n%s", err, out)
	}
	if err := os.Symlink("edged-linux-"+runtime.GOARCH, b.bin+"/edged"); err != nil {
		return err
	}
	for _, name := range []string{"probe", "rule"} {
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", b.bin+"/"+name, "./"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %v\n%s", name, err, out)
		}
	}
	return nil
}

const (
	begin = "<!-- table: make bench -->"
	end   = "<!-- end -->"
)

func replace(file, table string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(old), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no place for the table (%s … %s)", file, begin, end)
	}
	return os.WriteFile(file, []byte(head+begin+"\n"+table+end+tail), 0o644)
}

func cpu() string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
			return strings.TrimSpace(v)
		}
	}
	return runtime.GOARCH
}

func kernel() string {
	b, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return "Linux " + strings.TrimSpace(string(b))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
}

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	if len(v) == 0 {
		return 0
	}
	return v[len(v)/2]
}
