package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func folder(t *testing.T, text string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "guard")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if text != "" {
		if err := os.WriteFile(filepath.Join(dir, File), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestPrecedence(t *testing.T) {
	dir := folder(t, "[mqtt]\nlisten = \"127.0.0.1:1\"\nclients = 5\nkeep_alive = \"10s\"\n[board]\nwindow = \"2s\"\n")
	env := []string{"HOME=/root", "EDGED_MQTT_LISTEN=127.0.0.1:2", "EDGED_MQTT_CLIENTS=6", "EDGED_SOCKET=x"}
	c, err := Load(dir, env, map[string]string{"mqtt.listen": "127.0.0.1:3"})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ key, got, want, source string }{
		{"mqtt.listen", c.MQTT.Listen, "127.0.0.1:3", "flag"},
		{"mqtt.clients", fmt.Sprint(c.MQTT.Clients), "6", "EDGED_MQTT_CLIENTS"},
		{"mqtt.keep_alive", c.MQTT.KeepAlive.String(), "10s", "edged.toml"},
		{"board.window", c.Board.Window.String(), "2s", "edged.toml"},
		{"mqtt.max_packet", c.MQTT.MaxPacket.String(), "256KiB", "default"},
		{"name", c.Name, "guard", "default"},
	} {
		if x.got != x.want || c.Source(x.key) != x.source {
			t.Errorf("%s = %s from %s, want %s from %s", x.key, x.got, c.Source(x.key), x.want, x.source)
		}
	}
}

func TestMistakesInTheFile(t *testing.T) {
	for _, x := range []struct{ text, want string }{
		{"[mqtt]\nlisten = \"x:1\"\nlisen = \"y:1\"\n", `edged.toml:3:1: unknown key "mqtt.lisen"; did you mean "mqtt.listen"?`},
		{"[mqt]\nlisten = \"x:1\"\n", `did you mean "mqtt"?`},
		{"listen = \"x:1\"\n", `unknown key "listen"; did you mean "mqtt.listen"?`},
		{"[mqtt]\nclients = \"many\"\n", `edged.toml:2:11: want a whole number, got a TOML string`},
		{"[board]\nwindow = \"soon\"\n", `edged.toml:2:10`},
		{"[board]\nwindow = 3\n", `edged.toml:2:10`},
		{"[mqtt]\nmax_packet = \"much\"\n", `"much" is no size: write 64MiB, 256KiB or a number of bytes`},
		{"[mqtt\n", `edged.toml:1:`},
		{"[secrets]\nbroker = \"x\"\n[mqtt]\npassword_file = \"secret:brokr\"\n", `mqtt.password_file: there is no secret "brokr"; did you mean "secret:broker"?`},
		{"[models.keys]\nbox = \"secret:box\"\n", `models.keys, box: there is no secret "box"; add under [secrets]: box = "FILE"`},
		{"log = \"inf\"\n", `log is "inf", not one of debug, info, warn, error, off; did you mean "info"?`},
		{"[[mqtt.subscribe]]\nqos = 1\n", `entry 1 of [[mqtt.subscribe]] has no filter`},
		{"[[mqtt.publish]]\nfilter = \"a\"\nqos = 3\n", `"a": qos is 3; use 0, 1 or 2`},
		{"[[mqtt.entities]]\nkind = \"switch\"\n", `entry 1 of [[mqtt.entities]] has no id`},
		{"[[mqtt.entities]]\nid = \"door\"\n", `entity "door" has no kind, and no device has that name; kinds are sensor, binary_sensor, switch, button`},
		{"[[mqtt.entities]]\nid = \"door\"\nkind = \"swich\"\n", `entity "door": unknown kind "swich"; did you mean "switch"?`},
		{"[mqtt]\nentities = 3\n", `want a list of tables, [[mqtt.entities]]`},
		{"[devices.lamp]\nfile = \"x\"\n", `device "lamp" has no driver`},
		{"[page]\nlisten = \"7878\"\n", `page.listen is "7878", not host:port; write "127.0.0.1:7878", or "off"`},
		{"[page]\nlisten = \"0.0.0.0:7878\"\n", `page.listen "0.0.0.0:7878" can be reached from outside`},
		{"[page]\nlisten = \":7878\"\n", `can be reached from outside`},
		{"[page]\nlisten = \"robot.local:7878\"\n", `can be reached from outside`},
		{"[page]\ncert = \"c.pem\"\n", `page.cert and page.key go together`},
		{"[allow]\nbb.read = [\"a\"]\n", `edged.toml:2:1: unknown key "allow.bb.read"; allow.bb is one list: write bb = […]`},
		{"[allow]\n[allow.bb]\nread = [\"a\"]\n", `edged.toml:2:1: unknown key "allow.bb.read"; allow.bb is one list: write bb = […]`},
		{"[mqtt]\nlisten.port = 3\n", `edged.toml:2:1: unknown key "mqtt.listen.port"; mqtt.listen has no parts: write listen = …`},
		{"[allow]\nbus.pbu = [\"a\"]\n", `unknown key "allow.bus.pbu"; did you mean "allow.bus.pub"?`},
	} {
		_, err := Load(folder(t, x.text), nil, nil)
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%q gave\n%v, want\n%s", x.text, err, x.want)
		}
	}
}

func TestMistakesOutside(t *testing.T) {
	for _, x := range []struct {
		env   string
		flags map[string]string
		want  string
	}{
		{"EDGED_MQTT_LISEN=x", nil, "environment: unknown variable EDGED_MQTT_LISEN; did you mean EDGED_MQTT_LISTEN?"},
		{"EDGED_MQTT_CLIENTS= ", nil, `EDGED_MQTT_CLIENTS: want a whole number, got " "`},
		{"EDGED_MQTT_CLIENTS=x", nil, `EDGED_MQTT_CLIENTS: want a whole number, got "x"`},
		{"EDGED_MQTT_DISCOVERY=maybe", nil, `EDGED_MQTT_DISCOVERY: want true or false, got "maybe"`},
		{"", map[string]string{"mqtt.url": "x", "mqtt.qos": "1"}, `--mqtt.qos: unknown key "mqtt.qos"`},
		{"", map[string]string{"board.window": "x"}, "--board.window"},
		{"", map[string]string{"log": "loud"}, `--log: log is "loud", not one of`},
		{"", map[string]string{"devices": "x"}, "can only be written in edged.toml"},
	} {
		_, err := Load(folder(t, ""), []string{x.env}, x.flags)
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s%v gave\n%v, want\n%s", x.env, x.flags, err, x.want)
		}
	}
}

func TestTables(t *testing.T) {
	c, err := Load(folder(t, `
name = "scout"
[allow]
bus.pub = ["home/#"]
hw.write = ["base"]
[env]
SPEED = "0.3"
[secrets]
KEY = "key.txt"
[[mqtt.users]]
name = "tablet"
password_file = "users"
read = ["home/#"]
[devices.fan]
driver = "sysfs.output"
file = "/sys/class/hwmon/fan"
max = 255
`), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Allow.Bus.Pub[0] != "home/#" || c.Allow.HW.Write[0] != "base" || c.Env["SPEED"] != "0.3" ||
		c.MQTT.Users[0].Read[0] != "home/#" || c.Devices["fan"]["max"] != int64(255) || c.Name != "scout" {
		t.Errorf("read as %+v", c)
	}
	if got, want := c.Path(c.Secrets["KEY"]), filepath.Join(c.Dir(), "key.txt"); got != want {
		t.Errorf("path %q, want %q", got, want)
	}
	if c.Path("/etc/x") != "/etc/x" || c.Path("") != "" {
		t.Error("absolute and empty paths stay as they are")
	}
	t.Setenv("CREDENTIALS_DIRECTORY", "/run/credentials/edged")
	if got := c.Path("$CREDENTIALS_DIRECTORY/key"); got != "/run/credentials/edged/key" {
		t.Errorf("credential %q", got)
	}
	if s := c.Source("allow.bus.pub"); s != File {
		t.Errorf("allow.bus.pub comes from %s", s)
	}
}

func TestListsAsText(t *testing.T) {
	c, err := Load(folder(t, ""), []string{"EDGED_ALLOW_BB=a/*, b"}, nil)
	if err != nil || strings.Join(c.Allow.BB, "|") != "a/*|b" {
		t.Errorf("%v, %v", c, err)
	}
}

// Every setting is documented, and can be read back from what is printed.
func TestEverySetting(t *testing.T) {
	c := Default()
	for _, v := range c.Values() {
		if v.Doc == "" {
			t.Errorf("%s has no documentation", v.Key)
		}
		text, ok := v.Value.(string)
		if !ok || text == "" || CheckKey(v.Key) != nil {
			continue
		}
		again := Default()
		again.sources = map[string]string{}
		if err := again.set(v.Key, text, "flag", v.Key); err != nil {
			t.Errorf("%s can't be set to its default %q: %v", v.Key, text, err)
		}
	}
	if err := CheckKey("mqtt.lisen"); err == nil || !strings.Contains(err.Error(), `did you mean "mqtt.listen"?`) {
		t.Errorf("CheckKey: %v", err)
	}
}

func TestUnits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Size(rapid.Int64Range(0, 1<<49).Draw(t, "size"))
		var back Size
		if err := back.UnmarshalText([]byte(s.String())); err != nil || back != s {
			t.Errorf("%d is %q is %d, %v", int64(s), s, int64(back), err)
		}
		d := Duration(rapid.Int64Range(0, int64(100*time.Hour)).Draw(t, "duration"))
		var again Duration
		if err := again.UnmarshalText([]byte(d.String())); err != nil || again != d {
			t.Errorf("%d is %q is %d, %v", int64(d), d, int64(again), err)
		}
	})
}

func FuzzFile(f *testing.F) {
	f.Add("[mqtt]\nlisten = \"x\"\n[[mqtt.users]]\nname = \"a\"")
	f.Add("a.b.c = 1")
	f.Add("devices.x.driver = 3")
	f.Fuzz(func(t *testing.T, text string) {
		c := Default()
		c.sources = map[string]string{}
		if err := c.readFile("edged.toml", []byte(text)); err == nil {
			c.Values()
			_ = c.check()
		}
	})
}

func ExampleConfig_Source() {
	c, err := Load(".", nil, map[string]string{"mqtt.listen": "127.0.0.1:2883"})
	fmt.Println(c.MQTT.Listen, c.Source("mqtt.listen"), c.Source("log"), err)
	// Output: 127.0.0.1:2883 flag default <nil>
}

// An empty variable is as good as none: service files write them so.
func TestEmptyVariables(t *testing.T) {
	c, err := Load(folder(t, "log = \"info\"\n"), []string{"EDGED_LOG=", "EDGED_MQTT_CLIENTS=", "EDGED_SOMETHING=", "EDGED_ENV_CITY="}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Log != "info" || c.MQTT.Clients != 1024 || len(c.Env) != 0 {
		t.Errorf("got log %q, %d clients, env %v; want info, 1024, none", c.Log, c.MQTT.Clients, c.Env)
	}
}

// TestSecretPath: a setting may name a secret, and an address tells no password.
func TestSecretPath(t *testing.T) {
	c, err := Load(folder(t, "[secrets]\nbroker = \"pw\"\n[mqtt]\nurl = \"ssl://me:s3cret@box\"\npassword_file = \"secret:broker\"\n"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.SecretPath(c.MQTT.PasswordFile), c.Path("pw"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := c.SecretPath("own"), c.Path("own"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if all := fmt.Sprint(c.Values()); strings.Contains(all, "s3cret") {
		t.Errorf("the settings tell the password: %s", all)
	}
}

// durable has an effect on what comes in from a broker outside, with QoS, and is
// refused elsewhere.
func TestDurableRoutes(t *testing.T) {
	for _, x := range []struct{ mqtt, want string }{
		{"url = \"tcp://127.0.0.1:1\"\nsubscribe = [{filter = \"a\", qos = 1, durable = true}]", ""},
		{"url = \"tcp://127.0.0.1:1\"\nsubscribe = [{filter = \"a\", durable = true}]", "use qos = 1"},
		{"url = \"tcp://127.0.0.1:1\"\npublish = [{filter = \"a\", qos = 1, durable = true}]", "durable is for [[mqtt.subscribe]]"},
		{"subscribe = [{filter = \"a\", qos = 1, durable = true}]", "mqtt.url"},
	} {
		_, err := Load(folder(t, "[mqtt]\n"+x.mqtt+"\n"), nil, nil)
		if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%s\ngot error %v, want %q", x.mqtt, err, x.want)
		}
	}
}
