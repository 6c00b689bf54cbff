package main

import (
	"io/fs"
	"strings"

	"edged/starlark/lib"
	"edged/starlark/value"
)

// recipeFile is where the recipes of the binary are.
const recipeFile = "recipes.star"

// documented is everything the verb doc knows: what the language has, and the
// recipes that come with it.
func documented() []value.Entry {
	return append(lib.Catalogue(), recipes()...)
}

// recipes describes the functions of @edged//recipes.star by what is written
// there: "def Name(…):" and the docstring below it. Names with an underscore in
// front are its own.
func recipes() (list []value.Entry) {
	b, err := fs.ReadFile(lib.Library(), recipeFile)
	if err != nil {
		return nil // the binary has none
	}
	for _, part := range strings.Split("\n"+string(b), "\ndef ")[1:] {
		head, body, _ := strings.Cut(part, "\n")
		signature := strings.TrimSuffix(strings.TrimSpace(head), ":")
		name, _, _ := strings.Cut(signature, "(")
		if strings.HasPrefix(name, "_") {
			continue
		}
		doc := ""
		if _, rest, ok := strings.Cut(body, `"""`); ok {
			doc, _, _ = strings.Cut(rest, `"""`)
		}
		lines := strings.Split(strings.TrimSpace(doc), "\n")
		for i := range lines {
			lines[i] = strings.TrimSpace(lines[i])
		}
		list = append(list, value.Entry{
			Name: name, Kind: "recipe", Signature: signature, Doc: strings.Join(lines, "\n"),
			Example: `load("@edged//` + recipeFile + `", "` + name + `")`,
		})
	}
	return list
}
