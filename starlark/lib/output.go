package lib

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"edged/agent/llm/schema"
	"edged/starlark/value"
	"edged/workflow/society"
)

// outputType is the form of an answer: see outputSchema.
var outputType = value.Either(value.Callable, value.Dict, artifactKind.Type())

// outputSchema reads the form of an answer: a JSON schema, a dict of what each
// part is, an artifact that has one, or a function with such parameters. Nil if none was given.
func outputSchema(c *value.Call, arg string) (*schema.Schema, error) {
	if !c.Has(arg) {
		return nil, nil
	}
	s, err := schemaOf(c.Value(arg))
	if err == nil {
		err = s.Bounded()
	}
	if err != nil {
		return nil, c.Errorf(arg, "argument %q: %s", arg, strings.TrimPrefix(err.Error(), "schema: "))
	}
	return s, nil
}

func schemaOf(v starlark.Value) (*schema.Schema, error) {
	if fn, ok := v.(starlark.Callable); ok {
		t := &tool{fn: fn}
		_, err := t.signature(nil)
		return t.params, err
	}
	if a, err := artifactKind.Unwrap(v); err == nil {
		return formOfArtifact(a)
	}
	return schemaOfDict(v)
}

// formOfArtifact is what an artifact must be, with limits.
func formOfArtifact(a *society.Artifact) (*schema.Schema, error) {
	if a.Schema == nil {
		return nil, fmt.Errorf("artifact %s is text: give it a schema", a.Name)
	}
	s, err := schema.Parse(a.Schema)
	if err == nil && s.Bounded() != nil {
		s = s.Bound()
	}
	return s, err
}

var schemaKinds = []string{"object", "string", "integer", "number", "boolean", "array", "null"}

// schemaOfDict reads a JSON schema, or {"room": "one of hall, dock", "score":
// "(int, 0..10): how sure"}.
func schemaOfDict(v starlark.Value) (*schema.Schema, error) {
	m, ok := v.(starlark.IterableMapping)
	if !ok {
		return nil, fmt.Errorf("want a dict, got %s", v.Type())
	}
	if isSchema(m) {
		tree, err := value.ToGo(v)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(tree)
		if err != nil {
			return nil, err
		}
		return schema.Parse(text)
	}
	s := &schema.Schema{Kind: schema.Object, Properties: []schema.Property{}}
	for _, item := range m.Items() {
		name, ok := starlark.AsString(item[0])
		if !ok {
			return nil, fmt.Errorf("the names of a form are text, got %s", item[0].Type())
		}
		child, err := schemaOfPart(name, item[1])
		if err != nil {
			return nil, err
		}
		s.Properties = append(s.Properties, schema.Property{Name: name, Schema: child, Required: true})
	}
	return s, s.Check()
}

func isSchema(m starlark.IterableMapping) bool {
	v, found, err := m.Get(starlark.String("type"))
	if s, text := starlark.AsString(v); err == nil && found && text {
		return slices.Contains(schemaKinds, s)
	}
	for _, key := range []string{"enum", "const", "oneOf"} {
		if _, found, _ := m.Get(starlark.String(key)); found {
			return true
		}
	}
	return false
}

func schemaOfPart(name string, v starlark.Value) (*schema.Schema, error) {
	switch v := v.(type) {
	case starlark.String:
		return schemaOfLine(name, string(v))
	case *starlark.List, starlark.Tuple:
		words := []string{}
		for w := range starlark.Elements(v.(starlark.Iterable)) {
			s, ok := starlark.AsString(w)
			if !ok {
				return nil, fmt.Errorf("%s: a list holds the words that are allowed, got %s", name, w.Type())
			}
			words = append(words, s)
		}
		if len(words) == 0 {
			return nil, fmt.Errorf("%s: the list of words is empty", name)
		}
		s := &schema.Schema{Kind: schema.String}
		for _, w := range words {
			s.Enum = append(s.Enum, w)
		}
		return s, nil
	case starlark.IterableMapping:
		return schemaOfDict(v)
	}
	return nil, fmt.Errorf("%s: want text such as \"(int, 0..10)\", got %s", name, v.Type())
}

var lineTypes = []string{"bool", "boolean", "int", "integer", "float", "number", "str", "string", "text", "list", "dict", "object"}

// schemaOfLine reads what stands behind a name in a docstring's Args. The
// parentheses may be left out where nothing else is said.
func schemaOfLine(name, line string) (*schema.Schema, error) {
	read := func(text string) (*schema.Schema, error) {
		_, s, err := schema.FromSignature([]schema.Param{{Name: "x"}}, "Args:\n  x"+text)
		if err != nil {
			return nil, errors.New(strings.Replace(strings.TrimPrefix(err.Error(), "schema: "), "parameter x", name, 1))
		}
		return s.Property("x").Schema, nil
	}
	line = strings.Join(strings.Fields(line), " ")
	if strings.HasPrefix(line, "(") {
		if !strings.Contains(line, "):") {
			line = strings.Replace(line, ")", "):", 1)
		}
		return read(" " + line)
	}
	s, err := read(" (" + line + "):")
	first, _, _ := strings.Cut(line, ",")
	if err != nil && !slices.Contains(lineTypes, first) {
		return read(": " + line)
	}
	return s, err
}
