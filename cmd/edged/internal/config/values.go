package config

import (
	"encoding"
	"fmt"
	"net/url"
	"reflect"
	"sort"
	"strconv"
	"strings"

	"edged/starlark/value"
)

// A Value is one setting as it holds.
type Value struct {
	Key    string `json:"key"`
	Value  any    `json:"value"`
	Source string `json:"source"` // "default", "edged.toml", the environment variable, "flag"
	Doc    string `json:"doc,omitempty"`
}

// field is a setting found in the Config by its dotted name.
type field struct {
	key string
	doc string
	v   reflect.Value
}

// fields lists the settings of c in the order they are declared.
func fields(c *Config) []field {
	var list []field
	var walk func(prefix string, v reflect.Value)
	walk = func(prefix string, v reflect.Value) {
		t := v.Type()
		for i := range t.NumField() {
			f := t.Field(i)
			name := f.Tag.Get("toml")
			if name == "" {
				continue
			}
			if f.Type.Kind() == reflect.Struct {
				walk(prefix+name+".", v.Field(i))
				continue
			}
			list = append(list, field{prefix + name, f.Tag.Get("doc"), v.Field(i)})
		}
	}
	walk("", reflect.ValueOf(c).Elem())
	return list
}

// Keys lists the names of all settings, in the order of [Config].
func Keys() []string {
	var c Config
	var names []string
	for _, f := range fields(&c) {
		names = append(names, f.key)
	}
	return names
}

// leaf reports whether a key is a setting rather than a table of settings.
func leaf(key string) bool { return contains(Keys(), key) }

// Values lists every setting with its source. Secrets are files, so nothing
// here is secret but a password in an address, which is not told.
func (c *Config) Values() []Value {
	var list []Value
	for _, f := range fields(c) {
		v := f.v.Interface()
		if s, ok := v.(fmt.Stringer); ok {
			v = s.String()
		}
		if s, ok := v.(string); ok {
			if u, err := url.Parse(s); err == nil && u.User != nil {
				v = u.Redacted()
			}
		}
		list = append(list, Value{f.key, v, c.Source(f.key), f.doc})
	}
	return list
}

// Source tells where the value of a setting came from.
func (c *Config) Source(key string) string {
	if s := c.sources[key]; s != "" {
		return s
	}
	return "default"
}

// CheckKey reports a name that is no setting, with the one that was meant.
func CheckKey(key string) error {
	if leaf(key) {
		return nil
	}
	return unknown("config", strings.Split(key, "."))
}

// set gives a setting a value from text, as flags and the environment do.
func (c *Config) set(key, text, source, where string) error {
	for _, f := range fields(c) {
		if f.key != key {
			continue
		}
		if err := setText(f.v, text); err != nil {
			return &Error{Where: where, Msg: err.Error()}
		}
		c.sources[key] = source
		return nil
	}
	return unknown(where, strings.Split(key, "."))
}

func setText(v reflect.Value, text string) error {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("want true or false, got %q", text)
		}
		v.SetBool(b)
	case reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("want a whole number, got %q", text)
		}
		v.SetInt(n)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.String {
			v.Set(reflect.ValueOf(strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })))
			return nil
		}
		fallthrough
	default:
		return fmt.Errorf("this setting is a table and can only be written in %s", File)
	}
	return nil
}

// check verifies what types can't say.
func (c *Config) check() error {
	for _, w := range []struct {
		key, v string
		words  []string
	}{
		{"log", c.Log, []string{"debug", "info", "warn", "error", "off"}},
		{"on_give_up", c.OnGiveUp, []string{"exit", "degrade"}},
		{"mqtt.outbox.overflow", c.MQTT.Outbox.Overflow, []string{"drop_oldest", "drop_new"}},
	} {
		if contains(w.words, w.v) {
			continue
		}
		e := &Error{Where: c.where(w.key), Msg: fmt.Sprintf("%s is %q, not one of %s", w.key, w.v, strings.Join(w.words, ", "))}
		if s := value.Nearest(w.v, w.words); s != "" {
			e.Hint = fmt.Sprintf("did you mean %q?", s)
		}
		return e
	}
	for dir, list := range map[string][]Route{"subscribe": c.MQTT.Subscribe, "publish": c.MQTT.Publish} {
		for i, r := range list {
			if r.Filter == "" {
				return &Error{Where: c.where("mqtt." + dir), Msg: fmt.Sprintf("entry %d of [[mqtt.%s]] has no filter", i+1, dir)}
			}
			if r.QoS < 0 || r.QoS > 2 {
				return &Error{Where: c.where("mqtt." + dir), Msg: fmt.Sprintf("%q: qos is %d; use 0, 1 or 2", r.Filter, r.QoS)}
			}
			if err := r.oneWay(dir); err != nil {
				return &Error{Where: c.where("mqtt." + dir), Msg: fmt.Sprintf("%q: %v", r.Filter, err)}
			}
			if r.Durable && c.MQTT.URL == "" {
				return &Error{Where: c.where("mqtt." + dir), Msg: fmt.Sprintf("%q: durable is for a broker outside (mqtt.url); the one inside keeps nothing for the robot", r.Filter)}
			}
		}
	}
	for i, e := range c.MQTT.Entities {
		if err := c.checkEntity(i, e); err != nil {
			return err
		}
	}
	if err := c.checkSecrets(); err != nil {
		return err
	}
	if err := c.checkModels(); err != nil {
		return err
	}
	if err := c.checkPage(); err != nil {
		return err
	}
	if _, err := c.Stop.Heard(); err != nil {
		return &Error{Where: c.where("stop"), Msg: "the words that stop the robot: " + err.Error()}
	}
	for name, d := range c.Devices {
		if _, ok := d["driver"].(string); !ok {
			return &Error{Where: c.where("devices"), Msg: fmt.Sprintf("device %q has no driver", name), Hint: `write driver = "sysfs.sensor" or another that doc/configuration.md lists`}
		}
	}
	return nil
}

// checkSecrets verifies that settings name secrets that are there.
func (c *Config) checkSecrets() error {
	named := map[string]string{"mqtt.password_file": c.MQTT.PasswordFile}
	for _, u := range c.MQTT.Users {
		named["mqtt.users, "+u.Name] = u.PasswordFile
	}
	for host, file := range c.Models.Keys {
		named["models.keys, "+host] = file
	}
	for _, key := range Names(named) {
		name, is := strings.CutPrefix(named[key], secretPrefix)
		if _, ok := c.Secrets[name]; !is || ok {
			continue
		}
		setting, _, _ := strings.Cut(key, ",")
		e := &Error{Where: c.where(setting), Msg: fmt.Sprintf("%s: there is no secret %q", key, name), Hint: fmt.Sprintf("add under [secrets]: %s = \"FILE\"", name)}
		if near := value.Nearest(name, Names(c.Secrets)); near != "" {
			e.Hint = fmt.Sprintf("did you mean %q?", secretPrefix+near)
		}
		return e
	}
	return nil
}

// kinds are what an entity can be.
var kinds = []string{"sensor", "binary_sensor", "switch", "button"}

func (c *Config) checkEntity(i int, e Entity) error {
	bad := func(msg, hint string) error {
		return &Error{Where: c.where("mqtt.entities"), Msg: msg, Hint: hint}
	}
	_, device := c.Devices[e.ID]
	switch {
	case e.ID == "":
		return bad(fmt.Sprintf("entry %d of [[mqtt.entities]] has no id", i+1), "")
	case e.Kind == "" && !device && e.ID != "stop":
		return bad(fmt.Sprintf("entity %q has no kind, and no device has that name", e.ID), "kinds are "+strings.Join(kinds, ", "))
	case e.Kind != "" && !contains(kinds, e.Kind):
		hint := "there are " + strings.Join(kinds, ", ")
		if s := value.Nearest(e.Kind, kinds); s != "" {
			hint = fmt.Sprintf("did you mean %q?", s)
		}
		return bad(fmt.Sprintf("entity %q: unknown kind %q", e.ID, e.Kind), hint)
	}
	return nil
}

// where names the source of a setting for an error.
func (c *Config) where(key string) string {
	switch s := c.Source(key); s {
	case "flag":
		return "--" + key
	case File, "default":
		return c.Path(File)
	default:
		return s
	}
}

// Names lists the keys of a table of the settings, sorted.
func Names[V any](m map[string]V) []string {
	var names []string
	for k := range m {
		names = append(names, k)
	}
	sort.Strings(names)
	return names
}

// oneWay refuses what has no effect in a route's direction.
func (r *Route) oneWay(dir string) error {
	for _, o := range []struct {
		key, dir string
		set      bool
	}{
		{"retain", "publish", r.Retain}, {"relay", "publish", r.Relay},
		{"act_on_retained", "subscribe", r.ActOnRetained}, {"act_on_queued", "subscribe", r.ActOnQueued},
		{"max_age", "subscribe", r.MaxAge != 0}, {"time", "subscribe", r.Time != ""},
		{"durable", "subscribe", r.Durable},
	} {
		if o.set && o.dir != dir {
			return fmt.Errorf("%s is for [[mqtt.%s]]; here it has no effect", o.key, o.dir)
		}
	}
	if r.Durable && r.QoS == 0 {
		return fmt.Errorf("durable keeps what a broker sends until it is acknowledged, and qos = 0 is never: use qos = 1")
	}
	if r.Time != "" && (r.Codec == "text" || r.Codec == "bytes") {
		return fmt.Errorf("time names a field, and the codec %q has none", r.Codec)
	}
	return nil
}
