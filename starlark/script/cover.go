package script

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Cover counts which statements run. The interpreter has no hook for lines, so
// a file that is loaded with a Cover gets a counting expression in front of
// every statement before it is compiled; without one nothing is added and
// nothing is paid. One Cover may take part in any number of loads, also of the
// same file, and its methods may be called while scripts run.
type Cover struct {
	mu    sync.Mutex // guards files
	files map[string]*counters
}

// FileCover is what ran of one file.
type FileCover struct {
	File       string
	Statements int
	Run        int
	Missed     []int // lines with a statement that did not run
}

// Percent is the share of statements that ran.
func (f FileCover) Percent() float64 {
	if f.Statements == 0 {
		return 100
	}
	return 100 * float64(f.Run) / float64(f.Statements)
}

// MissedText is the missed lines as people write them: "3, 7-9".
func (f FileCover) MissedText() string {
	var parts []string
	for i := 0; i < len(f.Missed); {
		j := i
		for j+1 < len(f.Missed) && f.Missed[j+1] == f.Missed[j]+1 {
			j++
		}
		if i == j {
			parts = append(parts, fmt.Sprint(f.Missed[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", f.Missed[i], f.Missed[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ", ")
}

// Files returns the state of all files, by name.
func (c *Cover) Files() []FileCover {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []FileCover
	for name, k := range c.files {
		f := FileCover{File: name, Statements: len(k.lines)}
		for i, line := range k.lines {
			if k.counts[i].Load() > 0 {
				f.Run++
			} else if !slices.Contains(f.Missed, line) {
				f.Missed = append(f.Missed, line)
			}
		}
		slices.Sort(f.Missed)
		out = append(out, f)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].File < out[j].File })
	return out
}

// Percent is the share of statements of all files that ran.
func (c *Cover) Percent() float64 {
	var all FileCover
	for _, f := range c.Files() {
		all.Statements += f.Statements
		all.Run += f.Run
	}
	return all.Percent()
}

// counters are those of one file. As a script value it is a list in which
// looking up an element counts it.
type counters struct {
	lines  []int
	counts []atomic.Uint32
}

var _ starlark.Indexable = (*counters)(nil)

// Index implements starlark.Indexable.
func (k *counters) Index(i int) starlark.Value {
	k.counts[i].Add(1)
	return starlark.None
}

func (k *counters) Len() int              { return len(k.counts) }
func (k *counters) String() string        { return "cover" }
func (k *counters) Type() string          { return "cover" }
func (k *counters) Freeze()               {}
func (k *counters) Truth() starlark.Bool  { return true }
func (k *counters) Hash() (uint32, error) { return 0, nil }

// counterName cannot be written in a script.
const counterName = "cover[]"

// rewrite puts the counting into a file that has not been resolved.
func (c *Cover) rewrite(f *syntax.File, file string) starlark.StringDict {
	k := &counters{}
	f.Stmts = k.block(f.Stmts)
	k.counts = make([]atomic.Uint32, len(k.lines))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files == nil {
		c.files = make(map[string]*counters)
	}
	if old := c.files[file]; old != nil && slices.Equal(old.lines, k.lines) {
		k = old // loaded again: count on
	}
	c.files[file] = k
	return starlark.StringDict{counterName: k}
}

func (k *counters) block(stmts []syntax.Stmt) []syntax.Stmt {
	if len(stmts) == 0 { // an if without else has none, and must keep none
		return nil
	}
	out := make([]syntax.Stmt, 0, 2*len(stmts))
	for i, s := range stmts {
		switch s := s.(type) {
		case *syntax.LoadStmt:
			out = append(out, s)
			continue
		case *syntax.ExprStmt:
			if lit, ok := s.X.(*syntax.Literal); ok && i == 0 && lit.Token == syntax.STRING {
				out = append(out, s) // a doc string stays in front
				continue
			}
		case *syntax.DefStmt:
			s.Body = k.block(s.Body)
		case *syntax.IfStmt:
			s.True = k.block(s.True)
			s.False = k.block(s.False)
		case *syntax.ForStmt:
			s.Body = k.block(s.Body)
		case *syntax.WhileStmt:
			s.Body = k.block(s.Body)
		}
		at := syntax.Start(s)
		n := int64(len(k.lines))
		k.lines = append(k.lines, int(at.Line))
		out = append(out, &syntax.ExprStmt{X: &syntax.IndexExpr{
			X:      &syntax.Ident{NamePos: at, Name: counterName},
			Lbrack: at,
			Y:      &syntax.Literal{Token: syntax.INT, TokenPos: at, Raw: fmt.Sprint(n), Value: n},
			Rbrack: at,
		}}, s)
	}
	return out
}
