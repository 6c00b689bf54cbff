package lib

import (
	"fmt"
	"strings"

	"go.starlark.net/starlark"

	"edged/agent/llm/schema"
	"edged/starlark/value"
	"edged/workflow/society"
)

var artifactKind = &value.Kind[*society.Artifact]{
	Name: "artifact", Doc: "A work product with a name, see Artifact.",
	Attrs: []value.Attr[*society.Artifact]{
		{Name: "name", Doc: "Its name.", Type: value.String, Get: func(a *society.Artifact) (any, error) { return a.Name, nil }},
		{Name: "schema", Doc: "What it must be, or None: text.", Get: func(a *society.Artifact) (any, error) { return decoded(a.Schema), nil }},
		{Name: "max_tokens", Doc: "How long it may be, or None.", Get: func(a *society.Artifact) (any, error) {
			if a.MaxTokens == 0 {
				return nil, nil
			}
			return int64(a.MaxTokens), nil
		}},
	},
	String: func(a *society.Artifact) string { return fmt.Sprintf("<artifact %s>", a.Name) },
	Key:    func(a *society.Artifact) string { return fmt.Sprintf("%s %p", a.Name, a) },
}

var artifactParams = []value.Param{
	{Name: "name", Type: value.String, Required: true, Positional: true, Doc: "Its name: of what lies on the society's shelf, too."},
	{Name: "schema", Type: outputType, Doc: "What it must be, as for Agent(output = …); what has no limit in it gets one. Missing: text."},
	{Name: "max_tokens", Type: value.Between(value.Int, 1, 100_000), Doc: "How long a draft may be, with four characters for a token: as text, or else as JSON without spaces. A model is stopped a little after it. One that is longer is asked for once more; then it does not count."},
}

const artifactDoc = "Names a work product. The first artifact of an edge is what its drafts must be; all of them are read from the society's shelf, where each interaction lays what came of it."

var artifactRows = []row{
	{value.Func{
		Name: "Artifact", Doc: artifactDoc, Params: artifactParams, Returns: "an artifact",
		Example: "ROUTE = Artifact(\"route\", max_tokens = 120, schema = {\"via\": [\"hall\", \"kitchen\", \"porch\"]})",
	}, (*Behaviour).artifact},
	{value.Func{
		Name: "StringArtifact", Doc: "The same as Artifact.", Params: artifactParams, Returns: "an artifact",
		Example: "spec = StringArtifact(name = \"api-spec\", max_tokens = 8000)",
	}, (*Behaviour).artifact},
}

func (b *Behaviour) artifact(c *value.Call) (starlark.Value, error) {
	a := &society.Artifact{Name: c.String("name"), MaxTokens: c.Int("max_tokens")}
	if a.Name == "" {
		return nil, c.Errorf("name", "argument \"name\": an artifact needs one: edges find it on the shelf by it")
	}
	if !c.Has("schema") {
		return artifactKind.Wrap(a), nil
	}
	s, err := formOf(c, "schema")
	if err != nil {
		return nil, err
	}
	a.Schema, err = schema.Encode(s)
	return artifactKind.Wrap(a), err
}

// formOf reads a schema that need not be bounded.
func formOf(c *value.Call, arg string) (*schema.Schema, error) {
	s, err := schemaOf(c.Value(arg))
	if err != nil {
		return nil, c.Errorf(arg, "argument %q: %s", arg, strings.TrimPrefix(err.Error(), "schema: "))
	}
	return s, nil
}
