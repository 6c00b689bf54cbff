package graph

import (
	"maps"
	"slices"
)

// mark is the key by which the record of a step is told from a result.
const mark = "edged/graph"

// tree is the step as a JSON tree: one record holds what a node put out, wrote
// and led to, so that a run that is resumed finds all of it or nothing.
func (s *step) tree() any {
	list := []any{}
	for _, c := range s.cross {
		m := map[string]any{"edge": int64(c.edge), "to": c.to}
		if c.replaced {
			m["payload"] = c.payload
			m["replaced"] = true
		}
		if c.reason != "" {
			m["reason"] = c.reason
		}
		list = append(list, m)
	}
	sets := []any{}
	for _, k := range slices.Sorted(maps.Keys(s.sets)) {
		sets = append(sets, []any{k, s.sets[k]})
	}
	m := map[string]any{mark: int64(1), "output": s.output, "sets": sets, "crossings": list}
	if s.other {
		m["other"] = true
	}
	return m
}

// stepOf reads what tree wrote.
func stepOf(v any) (*step, bool) {
	m, ok := v.(map[string]any)
	if !ok || m[mark] != int64(1) {
		return nil, false
	}
	s := &step{output: m["output"], sets: map[string]any{}}
	s.other, _ = m["other"].(bool)
	sets, _ := m["sets"].([]any)
	for _, x := range sets {
		if kv, ok := x.([]any); ok && len(kv) == 2 {
			k, _ := kv[0].(string)
			s.sets[k] = kv[1]
		}
	}
	list, _ := m["crossings"].([]any)
	for _, x := range list {
		cm, _ := x.(map[string]any)
		c := crossing{edge: -1, payload: s.output}
		if n, ok := cm["edge"].(int64); ok {
			c.edge = int(n)
		}
		c.to, _ = cm["to"].(string)
		c.reason, _ = cm["reason"].(string)
		if c.replaced, _ = cm["replaced"].(bool); c.replaced {
			c.payload = cm["payload"]
		}
		s.cross = append(s.cross, c)
	}
	return s, true
}
