package background

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"

	"edged/bus"
)

// ThresholdOptions say which crossings fire. At least one limit is needed.
type ThresholdOptions struct {
	Above, Below *float64
	// Hysteresis is how far a value must come back over its limit before the
	// next crossing fires.
	Hysteresis float64
	Key        KeyFunc // nil: each topic on its own
	MaxKeys    int     // keys remembered; 4,096. A forgotten one starts over
}

// Threshold fires when the number at path (see [At]) crosses a limit: once
// when it gets beyond, again after it has come back by the hysteresis. A first
// value that is beyond fires. Events without a number there are ignored.
//
// The task is {"topic", "value", "limit", "crossed"}; crossed is "above" or
// "below".
func Threshold(path string, o ThresholdOptions) (Trigger, error) {
	switch {
	case o.Above == nil && o.Below == nil:
		return nil, errors.New("background: threshold: it needs above, below or both")
	case o.Hysteresis < 0 || math.IsNaN(o.Hysteresis):
		return nil, fmt.Errorf("background: threshold: hysteresis is %v, it must not be negative", o.Hysteresis)
	case o.Above != nil && o.Below != nil && *o.Below >= *o.Above:
		return nil, fmt.Errorf("background: threshold: below (%v) must be less than above (%v)", *o.Below, *o.Above)
	}
	return &threshold{path, o}, nil
}

type threshold struct {
	path string
	o    ThresholdOptions
}

// beyond is what is known of one key.
type beyond struct{ above, below bool }

func (t *threshold) Open(o Outlet) (func(context.Context, bus.Event), func()) {
	var mu sync.Mutex
	keys := newKeyed[beyond](t.o.MaxKeys)
	return func(_ context.Context, e bus.Event) {
		v, ok := number(e.Payload(), t.path)
		if !ok {
			return
		}
		key, err := keyOf(t.o.Key, e)
		if err != nil {
			o.Fail(err)
			return
		}
		mu.Lock()
		b := keys.get(key)
		if b == nil {
			b, _ = keys.add(key, beyond{})
		}
		crossed, limit := t.cross(b, v)
		mu.Unlock()
		if crossed != "" {
			o.Emit(e, map[string]any{"topic": e.Topic, "value": v, "limit": limit, "crossed": crossed})
		}
	}, func() {}
}

func (t *threshold) cross(b *beyond, v float64) (crossed string, limit float64) {
	if l := t.o.Above; l != nil {
		switch {
		case v > *l && !b.above:
			b.above = true
			crossed, limit = "above", *l
		case v <= *l-t.o.Hysteresis:
			b.above = false
		}
	}
	if l := t.o.Below; l != nil {
		switch {
		case v < *l && !b.below:
			b.below = true
			crossed, limit = "below", *l
		case v >= *l+t.o.Hysteresis:
			b.below = false
		}
	}
	return crossed, limit
}

// ChangedOptions of [Changed]; the zero value looks at each topic on its own.
type ChangedOptions struct {
	Key     KeyFunc // nil: each topic on its own
	MaxKeys int     // keys remembered; 4,096. A forgotten one starts over
}

// Changed fires when the value at path (see [At]) is another than in the event
// before; the first one counts as changed. Events without that path are
// ignored. The task is {"topic", "value", "old"}.
func Changed(path string, o ChangedOptions) Trigger { return &changed{path, o} }

type changed struct {
	path string
	o    ChangedOptions
}

func (c *changed) Open(o Outlet) (func(context.Context, bus.Event), func()) {
	var mu sync.Mutex
	keys := newKeyed[any](c.o.MaxKeys)
	return func(_ context.Context, e bus.Event) {
		v, ok := At(e.Payload(), c.path)
		if !ok {
			return
		}
		key, err := keyOf(c.o.Key, e)
		if err != nil {
			o.Fail(err)
			return
		}
		var old any
		mu.Lock()
		last := keys.get(key)
		if last == nil {
			keys.add(key, v)
		} else if old = *last; equal(old, v) {
			mu.Unlock()
			return
		} else {
			*last = v
		}
		mu.Unlock()
		o.Emit(e, map[string]any{"topic": e.Topic, "value": v, "old": old})
	}, func() {}
}

func keyOf(f KeyFunc, e bus.Event) (string, error) {
	if f == nil {
		return e.Topic, nil
	}
	key, err := f(e)
	if err != nil {
		return "", fmt.Errorf("background: key of a trigger: %w", err)
	}
	return key, nil
}

// At finds a value inside a JSON tree: names and list positions between dots,
// "pose.x", "ranges.0". An empty path is the tree itself.
func At(tree any, path string) (any, bool) {
	for more := path != ""; more; {
		var name string
		name, path, more = strings.Cut(path, ".")
		switch v := tree.(type) {
		case map[string]any:
			inner, ok := v[name]
			if !ok {
				return nil, false
			}
			tree = inner
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(v) {
				return nil, false
			}
			tree = v[i]
		default:
			return nil, false
		}
	}
	return tree, true
}

func number(tree any, path string) (float64, bool) {
	v, _ := At(tree, path)
	f, ok := float(v)
	return f, ok && !math.IsNaN(f)
}

func float(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

// equal compares JSON trees; 1 and 1.0 are the same number.
func equal(a, b any) bool {
	if x, ok := float(a); ok {
		y, ok := float(b)
		return ok && x == y
	}
	switch x := a.(type) {
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !equal(x[i], y[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k, v := range x {
			if w, ok := y[k]; !ok || !equal(v, w) {
				return false
			}
		}
		return true
	case []byte:
		y, ok := b.([]byte)
		return ok && string(x) == string(y)
	}
	if _, ok := b.([]byte); ok {
		return false
	}
	switch b.(type) {
	case []any, map[string]any:
		return false
	}
	return a == b
}
