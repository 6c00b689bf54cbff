package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSample does a package of which it is known what each mutant comes to.
func TestSample(t *testing.T) {
	root, err := filepath.Abs("testdata/sample")
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	e := &examination{root: root, jobs: 2, patience: 8 * time.Second, verbose: true,
		tell:    func(f string, args ...any) { told = append(told, fmt.Sprintf(f, args...)) },
		reasons: map[string]string{"lift/lift.go: Floors: `n < 40` → `<=`": "there is no floor 40", "lift/lift.go: Floors: gone": "as of old"}}
	c, err := e.room(context.Background(), room{pkg: "lift"})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(told)
	got := strings.Join(told, "\n")
	want := []string{
		"killed       lift/lift.go:17: `kg > l.limit` → `>=` by TestLoad",
		"killed       lift/lift.go:17: `kg > l.limit` → `<=` by TestLoad",
		"killed       lift/lift.go:18: `return errors.New(\"too heavy\")` → zero by TestLoad",
		"killed       lift/lift.go:24: `n >= 0 && n < 40` → `||` by TestFloors",
		"killed       lift/lift.go:24: `n >= 0` → `<` by TestFloors",
		"survived     lift/lift.go:24: `n >= 0` → `>`  [Floors]",
		"accepted     lift/lift.go:24: `n < 40` → `<=` (there is no floor 40)",
		"killed       lift/lift.go:27: `time.Duration(people) * time.Second` → `/` by TestWait",
		"hung         lift/lift.go:32: without `l.at++`  [Lift.To]",
		"not covered  lift/lift.go:37: without `ring()`  [Alarm]",
		"stale        accepted.txt: lift/lift.go: Floors: gone",
	}
	for _, w := range want {
		if !slices.Contains(told, w) {
			t.Errorf("missing %q in\n%s", w, got)
		}
	}
	if c.total != c.killed+c.survived+c.accepted+c.hung+c.notCovered || c.hung != 1 || c.accepted != 1 {
		t.Errorf("counted %+v", c)
	}
	if c.good() {
		t.Error("a room with a hang and survivors is good")
	}
	if strings.Contains(got, "lift.go:39:") || strings.Contains(got, "lift.go:44:") {
		t.Errorf("a constant was made a variable:\n%s", got)
	}
}

// TestDraw: a sample is the same for the same seed, and another for another.
func TestDraw(t *testing.T) {
	s := &schema{mutants: map[int]mutant{}}
	for i := range 100 {
		s.mutants[i+1] = mutant{id: i + 1, line: i / 10}
	}
	a, b, c := draw(s, 0, 20, 1), draw(s, 0, 20, 1), draw(s, 0, 20, 2)
	if len(a) != 20 || !slices.Equal(a, b) || slices.Equal(a, c) {
		t.Errorf("drawn %v, %v, %v", a, b, c)
	}
	if l := draw(s, 3, 0, 1); len(l) != 10 || l[0].id != 31 {
		t.Errorf("line 3 has %v", l)
	}
}

// TestAccepted: whoever accepts a survivor says why.
func TestAccepted(t *testing.T) {
	m, err := readAccepted("accepted.txt")
	if err != nil {
		t.Fatal(err)
	}
	for k, reason := range m {
		if len(reason) < 10 {
			t.Errorf("%s: no reason: %q", k, reason)
		}
	}
}
