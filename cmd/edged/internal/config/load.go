package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	toml "github.com/pelletier/go-toml/v2"

	"edged/starlark/value"
)

// An Error is a setting that can't be used, with its place: a line of
// edged.toml, a flag, or an environment variable.
type Error struct {
	Where string // "guard/edged.toml:3:1", "--mqtt.listen", "EDGED_LOG"
	Msg   string
	Hint  string // what to write instead, or empty
}

func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Where + ": " + e.Msg
	}
	return e.Where + ": " + e.Msg + "; " + e.Hint
}

// Load reads the settings of the robot in dir. The environment is as
// os.Environ gives it; flags are settings by their dotted names. A folder
// without edged.toml has the defaults. The error is an *Error, or says that
// the folder can't be read.
func Load(dir string, environ []string, flags map[string]string) (*Config, error) {
	c := Default()
	c.dir, c.sources = dir, map[string]string{}
	path := filepath.Join(dir, File)
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("config: %w", err)
	default:
		if err := c.readFile(path, text); err != nil {
			return nil, err
		}
	}
	if err := c.readEnv(environ); err != nil {
		return nil, err
	}
	for name, v := range flags {
		if err := c.set(name, v, "flag", "--"+name); err != nil {
			return nil, err
		}
	}
	if c.Name == "" {
		c.Name = folderName(dir)
	}
	return &c, c.check()
}

// folderName is the name of a robot whose settings give none.
func folderName(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "robot"
	}
	name := strings.Map(func(r rune) rune {
		if r == '+' || r == '#' || r == '/' || r < ' ' {
			return '-'
		}
		return r
	}, filepath.Base(abs))
	if name == "" || name == "-" {
		return "robot"
	}
	return name
}

func (c *Config) readFile(path string, text []byte) error {
	d := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	err := d.Decode(c)
	var missing *toml.StrictMissingError
	var decode *toml.DecodeError
	switch {
	case errors.As(err, &missing):
		e := missing.Errors[0]
		row, col := e.Position()
		return unknown(fmt.Sprintf("%s:%d:%d", path, row, col), e.Key())
	case err != nil && below(path, text) != nil:
		return below(path, text)
	case errors.As(err, &decode):
		row, col := decode.Position()
		return &Error{Where: fmt.Sprintf("%s:%d:%d", path, row, col), Msg: plainMessage(decode)}
	case err != nil:
		return &Error{Where: path, Msg: strings.TrimPrefix(err.Error(), "toml: ")}
	}
	var tree map[string]any
	if err := toml.Unmarshal(text, &tree); err != nil {
		return &Error{Where: path, Msg: err.Error()}
	}
	c.noteSources("", tree, filepath.Base(path))
	return nil
}

// below is the error for keys under a setting that is no table, as in
// allow.bb.read: the library has no words for it.
func below(path string, text []byte) error {
	var tree map[string]any
	if toml.Unmarshal(text, &tree) != nil {
		return nil
	}
	var c Config
	for _, f := range fields(&c) {
		var at any = tree
		for _, name := range strings.Split(f.key, ".") {
			m, _ := at.(map[string]any)
			at = m[name]
		}
		m, ok := at.(map[string]any)
		if !ok || f.v.Kind() == reflect.Map {
			continue
		}
		more := ""
		if len(m) > 0 {
			more = slices.Sorted(maps.Keys(m))[0]
		}
		last := f.key[strings.LastIndex(f.key, ".")+1:]
		e := &Error{Where: path, Msg: fmt.Sprintf("unknown key %q", f.key+"."+more), Hint: fmt.Sprintf("%s has no parts: write %s = …", f.key, last)}
		if f.v.Kind() == reflect.Slice {
			e.Hint = fmt.Sprintf("%s is one list: write %s = […]", f.key, last)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if key, _, _ := strings.Cut(strings.ReplaceAll(line, " ", ""), "="); key == last+"."+more || key == f.key+"."+more || key == "["+f.key+"]" {
				e.Where = fmt.Sprintf("%s:%d:1", path, i+1)
				break
			}
		}
		return e
	}
	return nil
}

// plainMessage says what is wrong without the library's Go type names.
func plainMessage(e *toml.DecodeError) string {
	msg := strings.TrimPrefix(e.Error(), "toml: ")
	for _, t := range []struct{ goName, plain string }{
		{"config.Duration", `a duration ("2s")`}, {"config.Size", `a size ("64MiB")`},
		{"int64", "a whole number"}, {"bool", "true or false"}, {"string", "text"},
		{"[]config.Route", `a list of tables, [[mqtt.subscribe]] with filter = "…"`},
		{"[]config.User", "a list of tables, [[mqtt.users]]"},
		{"[]config.Entity", "a list of tables, [[mqtt.entities]]"},
	} {
		if strings.HasSuffix(msg, "of type "+t.goName) || strings.HasSuffix(msg, "type "+t.goName) {
			what, _, _ := strings.Cut(strings.TrimPrefix(msg, "cannot decode TOML "), " into ")
			return fmt.Sprintf("want %s, got a TOML %s", t.plain, what)
		}
	}
	return msg
}

func (c *Config) noteSources(prefix string, tree map[string]any, source string) {
	for k, v := range tree {
		if sub, ok := v.(map[string]any); ok && !leaf(prefix+k) {
			c.noteSources(prefix+k+".", sub, source)
			continue
		}
		c.sources[prefix+k] = source
	}
}

// unknown is the error for a key that no setting has.
func unknown(where string, key []string) error {
	name := strings.Join(key, ".")
	e := &Error{Where: where, Msg: fmt.Sprintf("unknown key %q", name)}
	if s := suggest(key); s != "" {
		e.Hint = fmt.Sprintf("did you mean %q?", s)
	}
	return e
}

// suggest looks first at the keys of the same table, then at all.
func suggest(key []string) string {
	all := Keys()
	prefix := strings.Join(key[:len(key)-1], ".")
	var near []string
	for _, k := range all {
		if rest, ok := strings.CutPrefix(k, prefix+"."); ok && prefix != "" && !strings.Contains(rest, ".") {
			near = append(near, rest)
		} else if first, _, _ := strings.Cut(k, "."); prefix == "" {
			near = append(near, first)
		}
	}
	if s := value.Nearest(key[len(key)-1], near); s != "" {
		return strings.TrimPrefix(prefix+"."+s, ".")
	}
	if s := value.Nearest(strings.Join(key, "."), all); s != "" {
		return s
	}
	for _, k := range all { // the right name in the wrong table
		if k[strings.LastIndex(k, ".")+1:] == key[len(key)-1] {
			return k
		}
	}
	return ""
}

// envName is the variable of a setting: mqtt.listen is EDGED_MQTT_LISTEN.
func envName(key string) string {
	return "EDGED_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// reserved are variables that are no settings.
var reserved = []string{"EDGED_SOCKET", "EDGED_PEERS", "EDGED_SLOW", "EDGED_RUNTIME_DIR", "EDGED_CACHE", "EDGED_SKIP_OLLAMA"}

func (c *Config) readEnv(environ []string) error {
	names := map[string]string{}
	var all []string
	for _, k := range Keys() {
		names[envName(k)] = k
		all = append(all, envName(k))
	}
	for _, kv := range environ {
		name, v, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, "EDGED_") || v == "" { // empty is as good as unset
			continue
		}
		key, ok := names[name]
		own, isOwn := strings.CutPrefix(name, "EDGED_ENV_")
		switch {
		case isOwn: // a value of the table env, for scripts
			if c.Env == nil {
				c.Env = map[string]string{}
			}
			c.Env[own], c.sources["env"] = v, name
		case ok:
			if err := c.set(key, v, name, name); err != nil {
				return err
			}
		case contains(reserved, name) || strings.HasPrefix(name, "EDGED_TEST_"):
		default:
			e := &Error{Where: "environment", Msg: "unknown variable " + name}
			if s := value.Nearest(name, all); s != "" {
				e.Hint = "did you mean " + s + "?"
			}
			return e
		}
	}
	return nil
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
