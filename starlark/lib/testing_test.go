package lib_test

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"edged/starlark/lib"
)

// TestExpectations: what a test saw, or wanted not to see, is not found again.
func TestExpectations(t *testing.T) {
	play(t, `
-- main.star --
def on_go(ev):
    bus.publish("box/first", 1)
    bus.publish("box/second", 2)
    bus.publish("box/third", 3)

on("box/go", on_go)
after("10m", lambda: bus.publish("box/first", 4))
-- main_test.star --
def test_nothing_means_nothing():
    publish("box/go")
    expect_event("box/second")
    expect_no_event("box/first", within = "5m")
    expect_event("box/third")
    assert.eq(expect_event("box/first", within = "6m").payload, 4)

def test_each_change_of_the_world_is_seen():
    hw.sim.set_battery(30)
    hw.sim.set_battery(19)
    clock.advance("1s")
    readings = [l for l in trace("hw/battery").splitlines() if "\"value\":30" in l]
    assert.true(len(readings) > 0)

def test_failures_are_told():
    text = assert.fails(lambda: assert.fails(lambda: None, msg = "no jam"))
    assert.contains(text, "no jam: ")
    assert.contains(assert.fails(lambda: assert.fails(lambda: fail("x"), contains = "y", msg = "jam")), "jam: it failed with")

def test_text_is_quoted():
    publish("box/text", "42")
    publish("box/number", 42)
    publish("box/bytes", b"42")
    publish("box/none")
    lines = [l.strip().split(" ", 1)[1] for l in trace("box/+").splitlines()]
    assert.eq(lines, ["test box/bytes b\"42\"", "test box/none", "test box/number 42", "test box/text \"42\""])
`)
}

// TestSecretsAndData: a test has them as the robot does.
func TestSecretsAndData(t *testing.T) {
	data, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	playWith(t, `
-- main.star --
def on_save(ev):
    store.write("rooms.json", json.encode(ev.payload))

on("box/save", on_save)
-- main_test.star --
def test_both():
    assert.eq(str(secret("weather")), "***")
    assert.fails(lambda: secret("wether"), contains = "no secret \"wether\"")
    publish("box/save", {"hall": 1})
    assert.eq(json.decode(store.read("rooms.json")), {"hall": 1})
`, lib.TestOptions{Grants: lib.Grants{All: true}, Data: data, Secret: func(name string) (string, error) {
		if name != "weather" {
			return "", lib.ErrNoSecret
		}
		return "rain", nil
	}})
}

// TestCheckTest: test files are looked over like the others.
func TestCheckTest(t *testing.T) {
	f := fstest.MapFS{
		"main.star":      {Data: []byte("on(\"box/x\", lambda ev: None)\n")},
		"main_test.star": {Data: []byte("def test_a():\n    left = 1\n    assert.eq\n")},
	}
	list, err := lib.CheckTest(t.Context(), lib.TestOptions{Folder: f, Name: "box", File: "main_test.star"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range list {
		got = append(got, p.At.String()+" "+p.Rule)
	}
	if want := "box/main_test.star:2:5 unused-variable, box/main_test.star:3:5 no-effect"; strings.Join(got, ", ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
	}
}

// TestAuditOfTests: a test has an audit, as the robot does, and drops it.
func TestAuditOfTests(t *testing.T) {
	play(t, `
-- main.star --
a = Agent("a", model = "m", hooks = [hook.audit_log()])
-- main_test.star --
load("main.star", "a")

def test_it_runs():
    model.says("Hello.")
    assert.eq(a.run("hi").reply, "Hello.")
`)
}
