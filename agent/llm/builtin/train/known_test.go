package train

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"edged/agent/llm/builtin"
	"edged/agent/llm/builtin/engine"
)

// TestKnown: what the embedded model is told of its tools is what demo.json
// says. EDGED_KNOWN names a copy of the file in which to write that anew; the
// weights stay as they are.
func TestKnown(t *testing.T) {
	p, err := read(Demo())
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(p.known())
	if err != nil {
		t.Fatal(err)
	}
	path := os.Getenv("EDGED_KNOWN")
	if path == "" {
		path = "../robot-q8.gguf"
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := engine.Read(data)
	if err != nil {
		t.Fatal(err)
	}
	if f.Extra[builtin.KnownKey] == string(want) {
		return
	}
	if path == "../robot-q8.gguf" {
		t.Fatal("robot-q8.gguf is not of this demo.json")
	}
	f.Extra[builtin.KnownKey] = string(want)
	var b bytes.Buffer
	if err := f.Write(&b, engine.Q8); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestWords: small verbs count with the word after them, in all the ways that a
// phrase can be said; held phrases do not count.
func TestWords(t *testing.T) {
	one := Tool{Name: "wave", Say: []Phrase{{Text: "(wave|go crazy) [at the crowd]"}}, Held: []Phrase{{Text: "salute"}}}
	p, err := read(Robot{Tools: []Tool{one}, Decline: []string{"waves are wet"}})
	if err != nil {
		t.Fatal(err)
	}
	k := p.known()
	if want := []string{"crazy", "crowd", "go crazy", "wave"}; !slices.Equal(k.Tools[0].Words, want) {
		t.Errorf("got %q, want %q", k.Tools[0].Words, want)
	}
	for w, want := range map[string]bool{"wet": true, "crowd": true, "please": true, "salute": false, "_": false} {
		if slices.Contains(k.Words, w) != want {
			t.Errorf("%q: want %v", w, want)
		}
	}
}
