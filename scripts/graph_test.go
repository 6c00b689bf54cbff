package scripts_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"edged/starlark/lib"
)

// fields are what an edge of a compiled execution graph may have, and the types
// of edges that have it; none is all of them.
var fields = map[string]string{
	"id": "", "source": "", "target": "", "type": "", "guardrailPolicy": "",
	"condition":            "conditional",
	"discoveryQuery":       "discovery",
	"discoveryKind":        "discovery",
	"discoveryFallback":    "discovery",
	"personalityCondition": "personality",
}

// TestGraphEdge wants the edges of seed/graph_edge to be printed in the shape
// that execution graphs have elsewhere, each type with its fields and no other.
func TestGraphEdge(t *testing.T) {
	list := robots(t)
	r := list[slices.IndexFunc(list, func(r robot) bool { return r.path == "seed/graph_edge" })]
	var edges []map[string]any
	synctest.Test(t, func(t *testing.T) {
		b, err := lib.Load(t.Context(), apartment(t, r.name), r.files, lib.Options{Folder: r.name, Grants: r.grants})
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(b.Graphs()[0].Draw())
		if err != nil {
			t.Fatal(err)
		}
		var g struct{ Edges []map[string]any }
		if err := json.Unmarshal(text, &g); err != nil {
			t.Fatal(err)
		}
		edges = g.Edges
	})
	seen := map[string]bool{}
	for _, e := range edges {
		kind, _ := e["type"].(string)
		for name, of := range fields {
			if _, has := e[name]; has && of != "" && of != kind {
				t.Errorf("edge %v of type %s has %s", e["id"], kind, name)
			} else if has {
				seen[name] = true
			} else if of == kind || of == "" && name != "guardrailPolicy" {
				t.Errorf("edge %v of type %s has no %s", e["id"], kind, name)
			}
		}
		for name := range e {
			if _, known := fields[name]; !known {
				t.Errorf("edge %v has %q, which is nothing an edge has", e["id"], name)
			}
		}
		seen["type "+kind] = true
	}
	for _, want := range append(slices.Collect(maps.Keys(fields)), "type static", "type conditional", "type discovery", "type personality") {
		if !seen[want] {
			t.Errorf("no edge has %s", strings.TrimPrefix(want, "type "))
		}
	}
}
