package value

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	starjson "go.starlark.net/lib/json"
	"go.starlark.net/starlark"
)

// EncodeJSON writes a Go tree as JSON without HTML escapes and without a
// trailing newline. The result is refused above MaxBytes.
func EncodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("value: encode: %w", err)
	}
	if b.Len() > MaxBytes {
		return nil, fmt.Errorf("value: encode: more than %d bytes", MaxBytes)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// checkJSON refuses text that is too long or nested too deep to be handed to
// the decoder, which recurses, and numbers of a length that takes its time.
func checkJSON(s string) error {
	if len(s) > MaxBytes {
		return fmt.Errorf("%d bytes of JSON, the limit is %d", len(s), MaxBytes)
	}
	depth, digits := 0, 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= '0' && c <= '9' {
			if digits++; digits > 1000 {
				return fmt.Errorf("a number of more than 1000 digits")
			}
			continue
		}
		digits = 0
		switch c {
		case '[', '{':
			if depth++; depth > MaxDepth {
				return fmt.Errorf("JSON nested more than %d levels deep", MaxDepth)
			}
		case ']', '}':
			depth--
		case '"':
			for i++; i < len(s) && s[i] != '"'; i++ {
				if s[i] == '\\' {
					i++
				}
			}
		}
	}
	return nil
}

// JSON returns the json module of scripts: the Starlark library's behaviour
// behind bounds and our argument tables.
func JSON() *Module {
	return NewModule("json", "Reads and writes JSON text.",
		Func{
			Name:    "encode",
			Doc:     "Writes a value as JSON text. Keys of dicts come sorted.",
			Example: `json.encode({"t": 21.5})  # '{"t":21.5}'`,
			Params: []Param{
				{Name: "x", Type: Any, Required: true, Positional: true, Doc: "What to write."},
				{Name: "indent", Type: String, Doc: `What to indent each level by, such as "  "; without it the text is one line.`},
			},
			Returns: "text",
			Do:      encode,
		},
		Func{
			Name:    "decode",
			Doc:     "Reads JSON text. Numbers without point or exponent are ints.",
			Example: `json.decode('{"t": 21.5}')["t"]`,
			Params: []Param{
				{Name: "x", Type: String, Required: true, Positional: true, Doc: "The text."},
				{Name: "default", Type: Any, Doc: "What to return if the text is not JSON; without it that is an error."},
			},
			Returns: "the value, which the script may change",
			Do:      decode,
		},
	)
}

func encode(c *Call) (starlark.Value, error) {
	tree, err := c.Tree("x")
	if err != nil {
		return nil, err
	}
	text, err := EncodeJSON(tree)
	if err != nil {
		return nil, err
	}
	if indent := c.String("indent"); indent != "" {
		if strings.Trim(indent, " \t") != "" || len(indent) > 8 {
			return nil, c.Errorf("indent", "argument \"indent\": want up to 8 spaces or tabs")
		}
		var b bytes.Buffer
		if err := json.Indent(&b, text, "", indent); err != nil {
			return nil, err
		}
		text = b.Bytes()
	}
	return starlark.String(text), nil
}

func decode(c *Call) (starlark.Value, error) {
	text := c.String("x")
	err := checkJSON(text)
	if err == nil {
		var v starlark.Value
		if v, err = starlark.Call(c.Thread, starjson.Module.Members["decode"], starlark.Tuple{starlark.String(text)}, nil); err == nil {
			return v, nil
		}
	}
	if c.Has("default") {
		return c.Value("default"), nil
	}
	return nil, fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "json.decode: "))
}
