package scripts_test

import (
	"context"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"edged/starlark/lib"
	"edged/workflow/society"
)

// row is a row of the table in doc/which-edge.md: "| Code review | `Oversight` | why |".
var row = regexp.MustCompile("(?m)^\\| ([^|]+) \\| `([A-Z][a-z]+)` \\|")

// built is where a script makes the edge of a row.
var built = regexp.MustCompile(`rows\["([^"]+)"\] = Society\("([^"]+)"\)`)

// decisions are the rows of the first table, in order.
func decisions(t *testing.T) (list [][]string) {
	t.Helper()
	text, err := os.ReadFile("../doc/which-edge.md")
	if err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(string(text), "In one question")
	if list = row.FindAllStringSubmatch(table, -1); len(list) != 9 {
		t.Fatalf("got %d rows, want 9", len(list))
	}
	return list
}

// sight is what an agent gets of what another one makes; agents are members by
// number, and "d" is who decides besides them.
type sight struct {
	viewer, author byte
	topic          string
	view           society.View
}

// both is what two members get of each other.
func both(topic string, view society.View) []sight {
	return []sight{{'0', '1', topic, view}, {'1', '0', topic, view}}
}

// sights are what the types of edges are for.
var sights = map[string][]sight{
	"delegation": {
		{'1', '0', society.TopicComments, society.Full},
		{'0', '1', society.TopicDraft, society.Summary},
		{'1', '0', society.TopicLog, society.Nothing},
	},
	"oversight": {
		{'1', '0', society.TopicDraft, society.Full},
		{'1', '0', society.TopicLog, society.Full},
		{'0', '1', society.TopicComments, society.Full},
		{'0', '1', society.TopicLog, society.Nothing},
		{'0', '1', society.TopicDraft, society.Nothing},
	},
	"cooperation": append(both(society.TopicDraft, society.Full), both(society.TopicLog, society.Full)...),
	"competition": append(both(society.TopicSealed, society.Nothing),
		sight{'0', '1', society.TopicDraft, society.Nothing}, sight{'d', '0', society.TopicSealed, society.Unnamed}),
	"coopetition": append(both(society.TopicDraft, society.Full),
		append(both(society.TopicSealed, society.Nothing), sight{'d', '0', society.TopicSealed, society.Unnamed})...),
}

// TestWhichEdge builds the edge of every row of the decision table, wants it to
// be of the row's type, and asks who sees what on it. That it runs and ends as
// it should is what the tests of seed/decision are about.
func TestWhichEdge(t *testing.T) {
	text, err := fs.ReadFile(folders, "seed/decision/main.star")
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]string{} // society by scenario
	for _, m := range built.FindAllStringSubmatch(string(text), -1) {
		made[m[1]] = m[2]
	}
	rows := decisions(t)
	if len(made) != len(rows) {
		t.Errorf("the script builds %d rows, the table has %d", len(made), len(rows))
	}
	list := robots(t)
	r := list[slices.IndexFunc(list, func(r robot) bool { return r.path == "seed/decision" })]
	synctest.Test(t, func(t *testing.T) {
		b, err := lib.Load(context.Background(), apartment(t, r.name), r.files, lib.Options{Folder: r.name, Grants: r.grants})
		if err != nil {
			t.Fatal(err)
		}
		edges := map[string]*society.Interaction{}
		for _, s := range b.Societies() {
			edges[s.Name()] = s.AllEdges()[0]
		}
		for _, c := range rows {
			e := edges[made[c[1]]]
			if e == nil {
				t.Errorf("%s: nothing builds it", c[1])
				continue
			}
			if want := strings.ToLower(c[2]); e.Kind() != want {
				t.Errorf("%s: got %s, want %s", c[1], e.Kind(), want)
			}
			look(t, c[1], e)
		}
	})
}

// look compares who sees what on an edge with what its type is for.
func look(t *testing.T, scenario string, e *society.Interaction) {
	t.Helper()
	table := e.Sights()
	members := e.Members()
	var decider string
	for _, s := range table {
		if !slices.Contains(members, s.Viewer) {
			decider = s.Viewer
		}
	}
	who := func(c byte) string {
		if c == 'd' {
			return decider
		}
		return members[c-'0']
	}
	for _, want := range sights[e.Kind()] {
		viewer, author := who(want.viewer), who(want.author)
		if viewer == "" { // nobody decides but a function or the members
			continue
		}
		i := slices.IndexFunc(table, func(s society.Sight) bool {
			return s.Viewer == viewer && s.Author == author && s.Topic == want.topic
		})
		if i < 0 {
			t.Errorf("%s: nothing is said of %s, %s and %s", scenario, viewer, author, want.topic)
		} else if table[i].View != want.view {
			t.Errorf("%s: %s sees %s of the %s of %s, want %s", scenario, viewer, table[i].View, want.topic, author, want.view)
		}
	}
}
