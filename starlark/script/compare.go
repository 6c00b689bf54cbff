package script

import (
	"strconv"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Readings are floats and people write `if e["t"] > 30:`. The interpreter
// compares a float with an int exactly, through fractions of big numbers: 11
// allocations, most of what a small handler costs. So a comparison with a whole
// number that is written out in the source and that a float holds exactly is
// rewritten, before it is compiled, into an operator of our own with the number
// inside. It gives the same answers and the same errors. Nothing in this file
// changes what a script means.

// comparison is the right operand of a rewritten comparison. It answers the
// operator |, which no value of the language has with it.
type comparison struct {
	op syntax.Token
	i  int64
	f  starlark.Float
	n  starlark.Int
}

var _ starlark.HasBinary = (*comparison)(nil)

// Binary implements starlark.HasBinary: x op number.
func (c *comparison) Binary(_ syntax.Token, x starlark.Value, _ starlark.Side) (starlark.Value, error) {
	var less, equal bool
	switch x := x.(type) {
	case starlark.Float:
		if x != x { // NaN is above every number, as the interpreter has it
			break
		}
		less, equal = x < c.f, x == c.f
	case starlark.Int:
		i, ok := x.Int64()
		if !ok {
			return c.slow(x)
		}
		less, equal = i < c.i, i == c.i
	default:
		return c.slow(x)
	}
	switch c.op {
	case syntax.EQL:
		return starlark.Bool(equal), nil
	case syntax.NEQ:
		return starlark.Bool(!equal), nil
	case syntax.LT:
		return starlark.Bool(less), nil
	case syntax.LE:
		return starlark.Bool(less || equal), nil
	case syntax.GT:
		return starlark.Bool(!less && !equal), nil
	}
	return starlark.Bool(!less), nil // GE
}

func (c *comparison) slow(x starlark.Value) (starlark.Value, error) {
	ok, err := starlark.Compare(c.op, x, c.n)
	return starlark.Bool(ok), err
}

func (c *comparison) String() string        { return c.op.String() + " " + c.n.String() }
func (c *comparison) Type() string          { return "comparison" }
func (c *comparison) Freeze()               {}
func (c *comparison) Truth() starlark.Bool  { return true }
func (c *comparison) Hash() (uint32, error) { return 0, nil }

// rewriteComparisons does so for a file that has not been resolved, and returns
// the names it added: they cannot be written in a script.
func rewriteComparisons(f *syntax.File) starlark.StringDict {
	names := starlark.StringDict{}
	syntax.Walk(f, func(n syntax.Node) bool {
		b, ok := n.(*syntax.BinaryExpr)
		if !ok {
			return true
		}
		switch b.Op {
		case syntax.EQL, syntax.NEQ, syntax.LT, syntax.LE, syntax.GT, syntax.GE:
		default:
			return true
		}
		i, ok := wholeNumber(b.Y)
		if !ok {
			return true
		}
		name := b.Op.String() + strconv.FormatInt(i, 10)
		names[name] = &comparison{op: b.Op, i: i, f: starlark.Float(i), n: starlark.MakeInt64(i)}
		b.Y = &syntax.Ident{NamePos: syntax.Start(b.Y), Name: name}
		b.Op = syntax.PIPE
		return true
	})
	return names
}

// wholeNumber reads an int literal, perhaps negative, that a float holds
// exactly.
func wholeNumber(x syntax.Expr) (int64, bool) {
	sign := int64(1)
	if u, ok := x.(*syntax.UnaryExpr); ok && u.Op == syntax.MINUS {
		sign, x = -1, u.X
	}
	lit, ok := x.(*syntax.Literal)
	if !ok {
		return 0, false
	}
	i, ok := lit.Value.(int64)
	return sign * i, ok && i <= 1<<53 && i >= -1<<53
}
