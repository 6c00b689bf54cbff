package bus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// ErrPayload is wrapped by the error for a value that an event can't carry.
var ErrPayload = errors.New("payload is not JSON")

const maxDepth = 64

var errDeep = fmt.Errorf("%w: more than %d levels deep", ErrPayload, maxDepth)

// Owned is a JSON tree that its publisher made for the bus and gives away: it
// isn't copied, so nobody may change it or its parts afterwards. They must be
// of the types that [Event.Payload] lists, without NaN and infinities.
type Owned map[string]any

// Freeze makes an immutable JSON tree of a Go value: scalars as they are,
// containers copied, structs by their JSON form. It is what [Bus.Publish] does
// to every payload. NaN, infinities, cycles and more than 64 levels are errors.
func Freeze(v any) (any, error) {
	p, err := freeze(v)
	if s, ok := p.(*shared); ok {
		return s.value(), err
	}
	return p, err
}

// freeze gives what an Event stores. Scalars allocate nothing.
func freeze(v any) (any, error) {
	switch x := v.(type) {
	case nil, bool, int64, Lazy:
		return v, nil
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("%w: %v has no JSON form", ErrPayload, x)
		}
		return v, nil
	case string:
		return v, nil
	case RawJSON:
		return &shared{raw: x}, nil
	case []byte:
		return &shared{tree: bytes.Clone(x)}, nil
	case []any, map[string]any:
		t, err := copyTree(v, 0)
		if err != nil {
			return nil, err
		}
		return &shared{tree: t}, nil
	case Owned:
		if tooDeep(map[string]any(x), 0) {
			return nil, errDeep
		}
		return &shared{tree: map[string]any(x)}, nil
	case []string:
		l := make([]any, len(x))
		for i, s := range x {
			l[i] = s
		}
		return &shared{tree: l}, nil
	}
	if n, ok := number(v); ok {
		return n, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPayload, err)
	}
	return &shared{raw: b}, nil
}

// tooDeep reports whether a tree goes on below the deepest level.
func tooDeep(v any, depth int) bool {
	switch x := v.(type) {
	case []any:
		for _, e := range x {
			if tooDeep(e, depth+1) {
				return true
			}
		}
	case map[string]any:
		for _, e := range x {
			if tooDeep(e, depth+1) {
				return true
			}
		}
	}
	return depth > maxDepth
}

func copyTree(v any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errDeep
	}
	switch x := v.(type) {
	case []any:
		l := make([]any, len(x))
		for i := range x {
			e, err := copyTree(x[i], depth+1)
			if err != nil {
				return nil, err
			}
			l[i] = e
		}
		return l, nil
	case map[string]any:
		m := make(map[string]any, len(x))
		for k := range x {
			e, err := copyTree(x[k], depth+1)
			if err != nil {
				return nil, err
			}
			m[k] = e
		}
		return m, nil
	}
	p, err := freeze(v)
	if err != nil {
		return nil, err
	}
	switch x := p.(type) {
	case *shared:
		return x.value(), nil
	case Lazy:
		return x.Tree(), nil
	}
	return p, nil
}

func number(v any) (any, bool) {
	switch x := v.(type) {
	case int:
		return int64(x), true
	case int8:
		return int64(x), true
	case int16:
		return int64(x), true
	case int32:
		return int64(x), true
	case uint8:
		return int64(x), true
	case uint16:
		return int64(x), true
	case uint32:
		return int64(x), true
	case uint64:
		if x <= math.MaxInt64 {
			return int64(x), true
		}
		return float64(x), true
	case uint:
		return number(uint64(x))
	case float32:
		if f := float64(x); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f, true
		}
	}
	return nil, false
}
