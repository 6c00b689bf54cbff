package train

import (
	"os"
	"testing"

	"edged/agent/llm/builtin"
)

func quiet(t testing.TB) []string {
	t.Helper()
	f, err := os.Open("../testdata/quiet.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	list, err := Sentences(f)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestScore tells how a model in a file does, with its mistakes:
//
//	EDGED_MODEL=/tmp/robot.gguf go test -v -run TestScore ./agent/llm/builtin/train
func TestScore(t *testing.T) {
	path := os.Getenv("EDGED_MODEL")
	if path == "" {
		t.Skip("EDGED_MODEL names no file")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := builtin.New(builtin.Options{Data: data})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Evaluate(t.Context(), m, Demo(), 1000, 5, quiet(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range r.Mistakes {
		t.Logf("%q\n\t\twant %s\n\t\tgot  %s", x.Said, x.Want, x.Got)
	}
	t.Logf("\n%s", r)
}
