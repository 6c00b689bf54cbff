package lib_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"edged/starlark/lib"
)

var update = flag.Bool("update", false, "write doc/scripting.md")

const manual = "../../doc/scripting.md"

func TestManualIsCurrent(t *testing.T) {
	got := lib.Markdown()
	if *update {
		if err := os.WriteFile(manual, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Error("doc/scripting.md is not what the tables say: go test ./starlark/lib -run TestManualIsCurrent -update")
	}
}

// TestEverythingIsDocumented wants a sentence for all that scripts can say, and
// for every argument.
func TestEverythingIsDocumented(t *testing.T) {
	for _, e := range lib.Catalogue() {
		if e.Doc == "" && e.Kind != "value" {
			t.Errorf("%s (%s) has no documentation", e.Name, e.Kind)
		}
		if e.Doc != "" && !strings.HasSuffix(e.Doc, ".") && !strings.HasSuffix(e.Doc, ")") {
			t.Errorf("%s: %q is no sentence", e.Name, e.Doc)
		}
		for _, p := range e.Params {
			if p.Doc == "" {
				t.Errorf("%s: argument %s has no documentation", e.Name, p.Name)
			}
		}
		if e.Kind == "function" && e.Example == "" && !strings.HasPrefix(e.Name, "json.") {
			t.Logf("%s has no example", e.Name)
		}
	}
}
