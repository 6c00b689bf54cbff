package e2e

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"edged/tests/peer"
)

// mode is what edged status says the robot does.
func (r *robot) mode() string {
	r.t.Helper()
	var s struct{ Mode string }
	if err := json.Unmarshal([]byte(r.must("status", "--json")), &s); err != nil {
		r.t.Fatal(err)
	}
	return s.Mode
}

// A stop is told to every MQTT client, by whomever it came, and so is a resume:
// as an event and as a retained state. Nobody stops because of a telling.
func TestStopIsToldOverMQTT(t *testing.T) {
	t.Run("the broker inside", func(t *testing.T) {
		dir := folder(t, map[string]string{"main.star": "", "edged.toml": "name = \"scout\"\n"})
		r := start(t, dir, "run", dir)
		r.ready()
		m := &mosquitto{t, r.port}
		out := m.sub("edged/safety/#", "edged/scout/safety")
		await(t, "the state", func() bool { return fmt.Sprint(out.messages("edged/scout/safety")) == "[1 running]" })
		m.pub("-t", "edged/safety/stop", "-m", "door", "-r")
		await(t, "the stop", func() bool { return len(out.messages("edged/safety/stop")) == 1 })
		r.must("resume")
		await(t, "the resume", func() bool { return len(out.messages("edged/safety/resume")) == 1 })
		r.must("stop", "--reason", "lunch")
		await(t, "the second stop", func() bool { return len(out.messages("edged/safety/stop")) == 2 })
		await(t, "the states", func() bool {
			return fmt.Sprint(out.messages("edged/scout/safety")) == "[1 running 0 stopped 0 running 0 stopped]"
		})
		told := out.messages("edged/safety/stop")
		for i, want := range []string{`"source":"mqtt"`, `"source":"cli"`} {
			if !strings.Contains(told[i], want) || !strings.Contains(told[i], `"stopped":"scout"`) || !strings.Contains(told[i], []string{"door", "lunch"}[i]) {
				t.Errorf("told: got %s, want %s", told[i], want)
			}
		}
		late := m.sub("#")
		await(t, "the state for one who comes later", func() bool { return fmt.Sprint(late.messages("edged/scout/safety")) == "[1 stopped]" })
		if got := late.messages("edged/safety/stop"); len(got) > 0 {
			t.Errorf("the order was kept: %s", got)
		}
	})
	t.Run("two robots at a broker outside", func(t *testing.T) {
		m := startMosquitto(t)
		var robots [2]*robot
		for i, name := range []string{"a", "b"} {
			dir := folder(t, map[string]string{"main.star": "", "edged.toml": fmt.Sprintf("name = %q\n\n[mqtt]\nurl = %q\n", name, m.url())})
			robots[i] = start(t, dir, "run", dir)
			robots[i].connected()
		}
		a, b := robots[0], robots[1]
		out := m.sub("edged/#")
		a.must("stop", "--reason", "lunch")
		await(t, "a tells", func() bool { return strings.Contains(fmt.Sprint(out.messages("edged/safety/stop")), `"stopped":"a"`) })
		await(t, "its state", func() bool { return strings.HasSuffix(fmt.Sprint(out.messages("edged/a/safety")), "stopped]") })
		await(t, "b has heard", func() bool { return strings.Contains(b.must("status", "--json"), `"tellings": 1`) })
		if got := b.mode(); got == "stopped" {
			t.Error("b stopped because a had")
		}
		m.pub("-t", "edged/safety/stop", "-m", "all")
		await(t, "both tell", func() bool { return strings.Contains(fmt.Sprint(out.messages("edged/safety/stop")), `"stopped":"b"`) })
		a.must("resume")
		await(t, "a goes on", func() bool { return strings.HasSuffix(fmt.Sprint(out.messages("edged/a/safety")), "running]") })
		peer.Eventually(t, 6*time.Second, "b has heard of it", func() bool { return strings.Contains(b.must("status", "--json"), `"tellings": 2`) })
		if a.mode() == "stopped" || b.mode() != "stopped" {
			t.Errorf("a is %s, b is %s", a.mode(), b.mode())
		}
	})
}

// What a client publishes in the names of the runtime reaches no other client,
// is not kept, and what is no order is refused, counted and told; a last will
// is a message as any other. The same rule holds at the command line.
func TestNobodySpeaksForTheRuntime(t *testing.T) {
	dir := folder(t, map[string]string{"main.star": "", "edged.toml": "name = \"scout\"\n"})
	r := start(t, dir, "run", dir)
	r.ready()
	m := &mosquitto{t, r.port}
	out := m.sub("#", "$SYS/#")
	errors := r.listen("*")
	topics := []string{"board/pose", "edged/scout/status", "edged/scout/safety", "edged/error", "request/plan", "message/scout", "edged/confirm/answer", "edged/safety/resume"}
	for _, topic := range topics {
		m.pub("-t", topic, "-m", "forged", "-r")
	}
	c := &mosquitto{t, r.port}
	c.dropWithWill("board/will", "forged")
	m.pub("-t", "end", "-m", "end")
	await(t, "the end", func() bool { return len(out.messages("end")) == 1 })
	await(t, "all are counted", func() bool {
		return strings.Contains(r.must("status", "--json"), fmt.Sprintf(`"forged": %d`, len(topics)+1))
	})
	if strings.Contains(strings.ReplaceAll(out.String(), "edged/error", ""), " forged\n") {
		t.Errorf("another client heard it: %s", out)
	}
	await(t, "it is told", func() bool { return strings.Contains(errors.String(), "the robot's own topic") })
	late := m.sub("#")
	await(t, "who comes later", func() bool { return len(late.messages("edged/scout/status")) == 1 })
	if strings.Contains(late.String(), "1 forged") {
		t.Errorf("it was kept: %s", late)
	}
	for _, topic := range append(topics, "board/x") {
		if got, err := r.edged("pub", topic, "forged"); err == nil || !strings.Contains(got, "the runtime") {
			t.Errorf("edged pub %s: %v %s", topic, err, got)
		}
	}
	r.must("pub", "edged/safety/stop", "door")
	if got := r.mode(); got != "stopped" {
		t.Errorf("an order is none: %s", got)
	}
}

// No log at any level, and no file but its own, has a password of MQTT in it:
// not of a client, right or wrong, and not of the robot itself at a broker.
func TestNoPasswordIsLogged(t *testing.T) {
	settings := "name = %q\nlog = \"debug\"\n\n[mqtt]\n"
	a := folder(t, map[string]string{"main.star": "", "passwords": "u:swordfish\n",
		"edged.toml": fmt.Sprintf(settings, "a") + "\n[[mqtt.users]]\nname = \"u\"\npassword_file = \"passwords\"\nread = [\"#\"]\nwrite = [\"home/#\", \"edged/b/#\"]\n"})
	b := folder(t, map[string]string{"main.star": "", "password": "swordfish\n"})
	for _, file := range []string{filepath.Join(a, "passwords"), filepath.Join(b, "password")} {
		if err := os.Chmod(file, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	one := start(t, a, "run", a)
	one.ready()
	if err := os.WriteFile(filepath.Join(b, "edged.toml"), []byte(fmt.Sprintf(settings, "b")+
		fmt.Sprintf("url = \"tcp://127.0.0.1:%s\"\nusername = \"u\"\npassword_file = \"password\"\n", one.port)), 0o644); err != nil {
		t.Fatal(err)
	}
	two := start(t, b, "run", b)
	two.connected()
	for _, pass := range []string{"swordfish", "swordfish2"} {
		for _, version := range []string{"mqttv311", "mqttv5"} {
			_ = exec.Command(peer.Tool(t, "mosquitto_pub"), "-p", one.port, "-V", version, "-u", "u", "-P", pass, "-t", "home/x", "-m", "x", "-q", "1").Run()
		}
	}
	await(t, "the refusals", func() bool { return strings.Contains(one.must("status", "--json"), `"refused": 2`) })
	for _, r := range []*robot{one, two} {
		r.must("stop")
		r.end(syscall.SIGTERM)
		if s := r.out.String(); strings.Contains(s, "swordfish") || r == one && !strings.Contains(s, "level=DEBUG") {
			t.Errorf("the log: %s", s)
		}
		err := filepath.WalkDir(filepath.Join(r.dir, ".edged"), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			text, err := os.ReadFile(path)
			if strings.Contains(string(text), "swordfish") {
				t.Errorf("a password is in %s", path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}
