package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"edged/cmd/edged/internal/config"
)

// TestManualNamesEverything: each verb has its heading and each setting its
// place in the manual.
func TestManualNamesEverything(t *testing.T) {
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join("..", "..", "doc", name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	verbs := read("command-line.md")
	c := &cli{in: strings.NewReader(""), out: io.Discard, err: io.Discard}
	for _, v := range c.root().Commands() {
		if !bytes.Contains(verbs, []byte("edged "+v.Name()+"\n")) && !bytes.Contains(verbs, []byte("edged "+v.Name()+",")) {
			t.Errorf("doc/command-line.md has no heading for edged %s", v.Name())
		}
	}
	settings := read("configuration.md")
	other := []string{"env", "secrets", "devices", "script.heap"} // three have chapters; the last does nothing
	for _, k := range config.Keys() {
		if !slices.Contains(other, k) && !bytes.Contains(settings, []byte("`"+k+"`")) {
			t.Errorf("doc/configuration.md doesn't name %s", k)
		}
	}
	for name := range drivers {
		if !bytes.Contains(settings, []byte("`"+name+"`")) {
			t.Errorf("doc/configuration.md doesn't name the driver %s", name)
		}
	}
}
