// Package value carries values across the border between Go and Starlark and
// holds the one argument table that stands behind every builtin a script can
// call.
//
// Its one rule: whatever crosses the border is either frozen or copied, and is
// of bounded depth and size. So a value may be handed to any number of script
// threads at once, and nothing a script builds can hang the side that reads it.
//
// A builtin is a description with a function in it. The description unpacks the
// arguments, writes the error messages ("did you mean"), feeds the checker and
// becomes the manual:
//
//	var drive = value.Func{
//		Name: "drive_to",
//		Doc:  "Drives to a place and waits until it is reached.",
//		Params: []value.Param{
//			{Name: "place", Type: value.String, Required: true, Positional: true},
//			{Name: "speed", Type: value.Number, Unit: "m/s", Default: 0.5},
//			{Name: "timeout", Type: value.Duration, Default: "30s"},
//		},
//		Do: func(c *value.Call) (starlark.Value, error) {
//			return nil, base.Drive(c.Context(), c.String("place"), c.Float("speed"), c.Duration("timeout"))
//		},
//	}
//
// Go values of ours become script values by a [Kind], which uses the same
// tables for its methods. The package knows nothing of robots.
package value

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"time"

	startime "go.starlark.net/lib/time"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
)

// Bounds of a value that crosses the border, in either direction.
const (
	MaxDepth = 100     // levels of lists and dicts inside one another
	MaxNodes = 1 << 20 // values in one tree, counted as often as they occur
	MaxBytes = 8 << 20 // text and bytes in one tree
)

// Treer is implemented by script values that have a form as a Go tree.
type Treer interface {
	// Tree returns nil, bool, int64, float64, string, []byte, []any or
	// map[string]any.
	Tree() (any, error)
}

// FromGo makes the frozen script form of a Go tree: nil, bool, integers,
// floats, string, []byte, []any, map[string]any, and also slices and maps of
// strings, time.Duration, time.Time, json.Number and values that are script
// values already (these are frozen in place). Dicts get their keys in sorted
// order, so the same tree always prints the same. It may be called
// concurrently; the result may be shared between threads.
func FromGo(v any) (starlark.Value, error) {
	// The scalars first: they need no budget.
	switch v := v.(type) {
	case nil:
		return starlark.None, nil
	case string:
		return starlark.String(v), nil
	case float64:
		return starlark.Float(v), nil
	case int64:
		return starlark.MakeInt64(v), nil
	case bool:
		return starlark.Bool(v), nil
	case starlark.Value:
		v.Freeze()
		return v, nil
	}
	w := walk{nodes: MaxNodes, bytes: MaxBytes}
	r, err := w.fromGo(v, 0)
	if err != nil {
		return nil, fmt.Errorf("value: %s%w", w.at(), err)
	}
	r.Freeze()
	return r, nil
}

// ToGo makes the Go tree of a script value: None is nil; integers must fit 64
// bits; tuples, lists and sets become []any; dicts must have string keys;
// structs become maps; durations become seconds and times RFC 3339 text. What
// has no such form (a function, an agent, NaN, a list that contains itself) is
// an error that says where in the value it was found.
func ToGo(v starlark.Value) (any, error) {
	w := walk{nodes: MaxNodes, bytes: MaxBytes}
	r, err := w.toGo(v, 0)
	if err != nil {
		return nil, fmt.Errorf("value: %s%w", w.at(), err)
	}
	return r, nil
}

// walk is one passage across the border with what is left of its budget.
type walk struct {
	nodes, bytes int
	path         []string         // where an error was found, innermost first
	open         []starlark.Value // lists and dicts being copied, to find cycles
}

func (w *walk) at() string {
	if len(w.path) == 0 {
		return ""
	}
	s := "at "
	for _, p := range slices.Backward(w.path) {
		s += p
		if len(s) > 200 {
			s += "…"
			break
		}
	}
	return s + ": "
}

func (w *walk) in(step string) { w.path = append(w.path, step) }

func (w *walk) spend(depth, size int) error {
	if depth > MaxDepth {
		return fmt.Errorf("more than %d levels deep", MaxDepth)
	}
	if w.nodes--; w.nodes < 0 {
		return fmt.Errorf("more than %d values", MaxNodes)
	}
	if w.bytes -= size; w.bytes < 0 {
		return fmt.Errorf("more than %d bytes of text", MaxBytes)
	}
	return nil
}

func (w *walk) fromGo(v any, depth int) (starlark.Value, error) {
	if err := w.spend(depth, 0); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case nil:
		return starlark.None, nil
	case bool:
		return starlark.Bool(v), nil
	case string:
		return starlark.String(v), w.spend(depth, len(v))
	case []byte:
		return starlark.Bytes(v), w.spend(depth, len(v))
	case float64:
		return starlark.Float(v), nil
	case int64:
		return starlark.MakeInt64(v), nil
	case int:
		return starlark.MakeInt(v), nil
	case []any:
		elems := make([]starlark.Value, len(v))
		for i, e := range v {
			x, err := w.fromGo(e, depth+1)
			if err != nil {
				w.in("[" + strconv.Itoa(i) + "]")
				return nil, err
			}
			elems[i] = x
		}
		return starlark.NewList(elems), nil
	case map[string]any:
		d := starlark.NewDict(len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			x, err := w.fromGo(v[k], depth+1)
			if err == nil {
				err = w.spend(depth, len(k))
			}
			if err == nil {
				err = d.SetKey(starlark.String(k), x)
			}
			if err != nil {
				w.in("[" + strconv.Quote(k) + "]")
				return nil, err
			}
		}
		return d, nil
	case starlark.Value:
		return v, nil
	}
	return w.fromOther(v, depth)
}

// fromOther makes the script form of the Go types that are not part of the
// tree proper but that callers have at hand.
func (w *walk) fromOther(v any, depth int) (starlark.Value, error) {
	switch v := v.(type) {
	case int8:
		return starlark.MakeInt64(int64(v)), nil
	case int16:
		return starlark.MakeInt64(int64(v)), nil
	case int32:
		return starlark.MakeInt64(int64(v)), nil
	case uint:
		return starlark.MakeUint64(uint64(v)), nil
	case uint8:
		return starlark.MakeUint64(uint64(v)), nil
	case uint16:
		return starlark.MakeUint64(uint64(v)), nil
	case uint32:
		return starlark.MakeUint64(uint64(v)), nil
	case uint64:
		return starlark.MakeUint64(v), nil
	case float32:
		return starlark.Float(v), nil
	case json.Number:
		return fromNumber(string(v))
	case time.Duration:
		return startime.Duration(v), nil
	case time.Time:
		return startime.Time(v), nil
	case []string:
		elems := make([]any, len(v))
		for i, s := range v {
			elems[i] = s
		}
		return w.fromGo(elems, depth)
	case []float64:
		elems := make([]any, len(v))
		for i, f := range v {
			elems[i] = f
		}
		return w.fromGo(elems, depth)
	case []map[string]any:
		elems := make([]any, len(v))
		for i, m := range v {
			elems[i] = m
		}
		return w.fromGo(elems, depth)
	case map[string]string:
		m := make(map[string]any, len(v))
		for k, s := range v {
			m[k] = s
		}
		return w.fromGo(m, depth)
	case error:
		return starlark.String(v.Error()), nil
	}
	return nil, fmt.Errorf("a Go %T has no script form", v)
}

func fromNumber(s string) (starlark.Value, error) {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return starlark.MakeInt64(i), nil
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		return starlark.Float(f), nil
	}
	return nil, fmt.Errorf("%.40q is not a number", s)
}

func (w *walk) toGo(v starlark.Value, depth int) (any, error) {
	if err := w.spend(depth, 0); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case nil, starlark.NoneType:
		return nil, nil
	case starlark.Bool:
		return bool(v), nil
	case starlark.String:
		return string(v), w.spend(depth, len(v))
	case starlark.Bytes:
		return []byte(v), w.spend(depth, len(v))
	case starlark.Int:
		if i, ok := v.Int64(); ok {
			return i, nil
		}
		return nil, fmt.Errorf("an integer of %d bits does not fit 64", bits(v))
	case starlark.Float:
		if f := float64(v); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f, nil
		}
		return nil, fmt.Errorf("%v is not a number that JSON knows", v)
	case Treer:
		return v.Tree()
	case startime.Duration:
		return time.Duration(v).Seconds(), nil
	case startime.Time:
		return time.Time(v).Format(time.RFC3339Nano), nil
	case *starlarkstruct.Struct:
		m := make(map[string]any)
		for _, name := range v.AttrNames() {
			x, err := v.Attr(name)
			if err == nil {
				m[name], err = w.toGo(x, depth+1)
			}
			if err != nil {
				w.in("." + name)
				return nil, err
			}
		}
		return m, nil
	case starlark.IterableMapping:
		return w.toMap(v, depth)
	case starlark.Sequence:
		return w.toList(v, depth)
	}
	return nil, fmt.Errorf("a %s has no form as data", v.Type())
}

// enter notes that v is being copied and refuses it if it already is.
func (w *walk) enter(v starlark.Value) error {
	switch v.(type) {
	case *starlark.List, *starlark.Dict, *starlark.Set: // comparable by identity
		for _, o := range w.open {
			if o == v {
				return fmt.Errorf("a %s that contains itself", v.Type())
			}
		}
		w.open = append(w.open, v)
	default:
		w.open = append(w.open, starlark.None)
	}
	return nil
}

func (w *walk) leave() { w.open = w.open[:len(w.open)-1] }

func (w *walk) toMap(v starlark.IterableMapping, depth int) (any, error) {
	if err := w.enter(v); err != nil {
		return nil, err
	}
	defer w.leave()
	items := v.Items()
	m := make(map[string]any, len(items))
	for _, it := range items {
		k, ok := it[0].(starlark.String)
		if !ok {
			return nil, fmt.Errorf("a %s as key of a dict: want string", it[0].Type())
		}
		x, err := w.toGo(it[1], depth+1)
		if err == nil {
			err = w.spend(depth, len(k))
		}
		if err != nil {
			w.in("[" + strconv.Quote(string(k)) + "]")
			return nil, err
		}
		m[string(k)] = x
	}
	return m, nil
}

func (w *walk) toList(v starlark.Sequence, depth int) (any, error) {
	if err := w.enter(v); err != nil {
		return nil, err
	}
	defer w.leave()
	n := v.Len()
	if n > w.nodes {
		return nil, fmt.Errorf("more than %d values", MaxNodes)
	}
	list := make([]any, 0, n)
	it := v.Iterate()
	defer it.Done()
	var e starlark.Value
	for i := 0; it.Next(&e); i++ {
		x, err := w.toGo(e, depth+1)
		if err != nil {
			w.in("[" + strconv.Itoa(i) + "]")
			return nil, err
		}
		list = append(list, x)
	}
	return list, nil
}

func bits(v starlark.Int) int {
	var b *big.Int = v.BigInt()
	return b.BitLen()
}

// Measure reports whether v, printed or encoded, stays within the given number
// of values and bytes of text. It counts shared parts as often as they occur,
// as a printer would, and stops at the bound: it is the check to make before
// any operation whose work grows with the written-out size of a value.
func Measure(v starlark.Value, nodes, bytes int) error {
	w := walk{nodes: nodes, bytes: bytes}
	if !w.measure(v, 0) {
		return fmt.Errorf("value too large to write out (limit %d values, %d bytes)", nodes, bytes)
	}
	return nil
}

func (w *walk) measure(v starlark.Value, depth int) bool {
	if w.nodes--; w.nodes < 0 || depth > 10*MaxDepth {
		return false
	}
	switch v := v.(type) {
	case starlark.String:
		w.bytes -= len(v)
	case starlark.Bytes:
		w.bytes -= len(v)
	case starlark.Int:
		w.bytes -= bits(v) / 3
		if bits(v) > 64_000 { // decimal conversion is quadratic
			return false
		}
	case *starlarkstruct.Struct:
		for _, name := range v.AttrNames() {
			if x, err := v.Attr(name); err == nil && !w.measure(x, depth+1) {
				return false
			}
		}
	case *starlark.Dict:
		if w.enter(v) != nil {
			return true // printers write … for a cycle
		}
		defer w.leave()
		if v.Len() > w.nodes {
			return false
		}
		for k, x := range v.Entries() {
			if !w.measure(k, depth+1) || !w.measure(x, depth+1) {
				return false
			}
		}
	case *starlark.List, starlark.Tuple, *starlark.Set:
		if w.enter(v) != nil {
			return true
		}
		defer w.leave()
		if starlark.Len(v) > w.nodes {
			return false
		}
		for x := range starlark.Elements(v.(starlark.Iterable)) {
			if !w.measure(x, depth+1) {
				return false
			}
		}
	}
	return w.bytes >= 0
}
