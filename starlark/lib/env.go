package lib

import (
	"errors"
	"fmt"

	"go.starlark.net/starlark"

	"edged/starlark/value"
)

var envRows = []row{
	{value.Func{
		Name: "env", Doc: "Returns a value of this device, from the table env of edged.toml or the environment (EDGED_ENV_…).",
		Example: "DOCK = env(\"DOCK\", \"hall\")",
		Params: []value.Param{
			{Name: "name", Type: value.String, Required: true, Positional: true, Doc: "Its name."},
			{Name: "default", Positional: true, Doc: "What to return if there is none."}},
		Returns: "text, or the default",
	}, func(b *Behaviour, c *value.Call) (starlark.Value, error) {
		if b.host.Env != nil {
			if s, ok := b.host.Env(c.String("name")); ok {
				return starlark.String(s), nil
			}
		}
		if !c.Has("default") {
			return nil, &value.Error{Arg: "name", Msg: fmt.Sprintf("no value %q", c.String("name")),
				Hint: fmt.Sprintf("add to edged.toml, under [env]: %s = \"…\"; or give a default", c.String("name"))}
		}
		return c.Value("default"), nil
	}},
	{value.Func{
		Name: "secret", Doc: "Returns a secret, from the table secrets of edged.toml. It prints as ***, and can't be stored, published or logged; only what wants a secret can read it: mcp(headers = …, env = …) and Model(key = …).",
		Example: "clerk = Agent(\"clerk\", model = Model(\"openai:gpt-5@https://api.example.com/v1\", key = secret(\"api\")))",
		Params:  []value.Param{{Name: "name", Type: value.String, Required: true, Positional: true, Doc: "Its name."}},
		Returns: "a secret",
	}, func(b *Behaviour, c *value.Call) (starlark.Value, error) {
		name := c.String("name")
		err := ErrNoSecret
		if b.host.Secret != nil {
			var s string
			if s, err = b.host.Secret(name); err == nil {
				return secretKind.Wrap(&hidden{s}), nil
			}
		}
		if errors.Is(err, ErrNoSecret) {
			return nil, &value.Error{Arg: "name", Msg: fmt.Sprintf("no secret %q", name), Err: err,
				Hint: fmt.Sprintf("add to edged.toml, under [secrets]: %s = \"/path/of/a/file\"", name)}
		}
		return nil, &value.Error{Arg: "name", Msg: err.Error(), Err: err}
	}},
}

// ErrNoSecret is what Host.Secret returns, wrapped or not, for a name that is
// none; any other error says why a secret can't be read.
var ErrNoSecret = errors.New("lib: no such secret")

// hidden is a secret: nothing here gives its text to a script.
type hidden struct{ text string }

var secretKind = &value.Kind[*hidden]{
	Name:   "secret",
	Doc:    "A secret. It never shows its text.",
	String: func(*hidden) string { return "***" },
	Truth:  func(h *hidden) bool { return h.text != "" },
}
