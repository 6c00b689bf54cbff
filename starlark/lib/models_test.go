package lib_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"edged/starlark/lib"
)

func TestIntents(t *testing.T) {
	play(t, `
-- main.star --
def go_to(place):
    """Drive to a place.

    Args:
      place: one of kitchen, living_room
    """
    bb.set("box/went", place)
    return "there"

def dim(percent = 50):
    """Dim the light.

    Args:
      percent (int, 0..100): how bright
    """
    bb.set("box/dim", percent)

go = Tool(go_to, effect = "write", sentences = ["(go|drive) to [the] {place}"], response = "Off to the {place}.")
dimmer = Tool(dim, sentences = ["dim [the light] to {percent} [percent]"])
status = Intent(["how are you", "what is your (status|state)"], name = "Status", response = "I am fine.")
home = Intents([status, Intent("(come|go) home", tool = go, slots = {"place": "living_room"}, response = "Coming.")], skip_words = ["please"])

fast = Agent("fast", model = "intent", tools = [go, dimmer])
butler = Agent("butler", model = [home, "intent", "qwen2.5:1.5b"], tools = [go, dimmer])
tiny = Agent("tiny", model = "builtin", tools = [go])
both = Fallback("both", [fast, butler])
on("voice/utterance", lambda ev: robot.say(butler.run(ev["text"]).reply))
-- main_test.star --
load("main.star", "fast", "butler", "home", "tiny", "both")

def test_sentence():
    r = fast.run("Drive to the living room!")
    assert.eq([r.status, r.reply, bb.get("box/went")], ["done", "Off to the living room.", "living_room"])
    r = fast.run("dim the light to thirty percent")
    assert.eq([r.status, bb.get("box/dim")], ["done", 30])
    assert.eq(r.usage["calls"] > 0, True)
    assert.eq(model.prompts(), [])

def test_declines():
    r = fast.run("what is the capital of France")
    assert.eq(r.status, "failed")
    assert.contains(r.reason, "declined")
    assert.eq(fast.run("don't go to the kitchen").ok, False)
    assert.eq(bb.has("box/went"), False)

def test_the_first_that_is_able_answers():
    r = butler.run("how are you")
    assert.eq(r.reply, "I am fine.")
    r = butler.run("please come home")
    assert.eq([r.reply, bb.get("box/went")], ["Coming.", "living_room"])
    r = butler.run("drive to the kitchen")
    assert.eq([r.reply, bb.get("box/went")], ["Off to the kitchen.", "kitchen"])
    assert.eq(model.prompts(), [])
    model.says("Paris.")
    r = butler.run("what is the capital of France")
    assert.eq(r.reply, "Paris.")
    ev = expect_event("edged/agent/butler/model", where = lambda e: "skipped" in e.payload)
    assert.eq(ev["skipped"], "intent")
    assert.contains(ev["reason"], "nothing that this model knows fits")

def test_fallback():
    model.says("Paris.")
    r = both.run("what is the capital of France")
    assert.eq([r.reply, r.by], ["Paris.", "butler"])
    assert.eq(both.run("drive to the kitchen").by, "fast")

def test_match():
    assert.eq(home.match("What is your status?")["intent"], "Status")
    assert.eq(home.match("go home")["slots"], {"place": "living_room"})
    assert.eq(home.match("sing a song"), None)

def test_heard():
    say("drive to the kitchen")
    assert.eq(expect_event("voice/say")["text"], "Off to the kitchen.")

def test_builtin():
    r = tiny.run("go to the kitchen")
    assert.eq([r.status, bb.get("box/went")], ["done", "kitchen"])
    assert.eq(tiny.run("what is the capital of France").ok, False)
`)
}

func TestOutputAndSampling(t *testing.T) {
	play(t, `
-- main.star --
judge = Agent("judge", model = "m", output = {"why": "(str, 0..80): in a few words", "mood": ["calm", "tense"], "score": "int, 0..10", "sure": "bool"})
strict = Agent("strict", model = "m", output = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 3}}, "required": ["n"], "additionalProperties": False})

def form(room, level = 1):
    """A form.

    Args:
      room: one of hall, dock
      level (int, 0..3): how much
    """

formal = Agent("formal", model = "m", output = form)
-- main_test.star --
load("main.star", "judge", "strict", "formal")

def test_output():
    model.says("{\"why\": \"a door\", \"mood\": \"tense\", \"score\": 7, \"sure\": true}")
    r = judge.run("the door slammed")
    assert.eq(r.output, {"why": "a door", "mood": "tense", "score": 7, "sure": True})
    p = model.prompts()[0]
    assert.eq(p.schema["properties"]["mood"]["enum"], ["calm", "tense"])
    assert.eq(p.schema["properties"]["score"]["maximum"], 10)
    assert.eq(p.tools, [])

def test_repair_once():
    model.says("{\"n\": 9}")
    model.says("{\"n\": \"2\"}")
    r = strict.run("x")
    assert.eq(r.output, {"n": 2})
    assert.contains(model.prompts()[1].user, "That does not fit")
    model.says("{\"n\": 9}")
    model.says("{\"n\": 8}")
    assert.eq(strict.run("x").status, "failed")

def test_function_as_form():
    model.says("{\"room\": \"hall\"}")
    assert.eq(formal.run("x").output, {"room": "hall", "level": 1})

def test_ask():
    model.says("{\"mood\": \"calm\"}", when = "quiet")
    assert.eq(model.ask("it is quiet", model = "m", output = {"mood": "one of calm, tense"}, system = "You judge."), {"mood": "calm"})
    assert.eq(model.prompts()[0].system, "You judge.")
    model.says("four")
    assert.eq(model.ask("two and two", model = "openai:x@http://127.0.0.1:9/v1"), "four")
    assert.eq(model.prompts("openai:x@http://127.0.0.1:9/v1")[0].user, "two and two")
    model.fails("queue_full")
    assert.fails(lambda: model.ask("x", model = "m"), contains = "too many requests")
    model.says("late", delay = "2m")
    assert.fails(lambda: model.ask("x", model = "m"), contains = "no answer after 1m0s")
    assert.eq(model.info("m")["tools"], True)
`)
}

func TestChains(t *testing.T) {
	play(t, `
-- main.star --
a = Agent("a", model = ["ollama:big", "small"])
slow = Agent("slow", model = "m", timeout = "5s")
-- main_test.star --
load("main.star", "a", "slow")

def test_falls_back():
    model.fails("down", model = "ollama:big")
    model.says("hello", model = "small")
    r = a.run("hi")
    assert.eq(r.reply, "hello")
    assert.eq([p.model for p in model.prompts()], ["ollama:big", "ollama:small"])
    assert.eq(expect_event("edged/agent/a/model", where = lambda e: "skipped" in e.payload)["skipped"], "ollama:big")

def test_timeout():
    model.says("late", delay = "1m")
    r = slow.run("hi")
    assert.eq([r.status, r.reason, r.elapsed < time.parse_duration("6s")], ["timeout", "no answer within 5s", True])

def test_stop_cancels_the_turn():
    model.says("late", delay = "1m")
    after("1s", lambda: robot.stop("enough"))
    r = a.run("hi")
    assert.eq([r.status, r.reason], ["cancelled", "the robot was stopped"])
    assert.true(r.elapsed < time.parse_duration("2s"))
    expect_event("edged/agent/a/cancelled")
    expect_no_event("edged/agent/a/cancelled")
    assert.eq(trace("edged/agent/a/+").count("/cancelled"), 1)
    robot.resume()

def test_forms_for_models_without_tools():
    model.can(tools = False)
    model.says("{\"reason\": \"greeting\", \"tool\": \"none\", \"reply\": \"Hello.\"}")
    b = Agent("b", model = "m", tools = [helper])
    r = b.run("hi")
    assert.eq(r.reply, "Hello.")
    assert.eq(model.prompts()[0].schema["properties"]["tool"]["enum"], ["helper", "decline", "none"])

def helper():
    "Help."
    return 1

def test_answers_by_function():
    model.answers(lambda p: "you said " + p.user)
    assert.eq(a.run("hi").reply, "you said hi")
`)
}

func TestReplay(t *testing.T) {
	play(t, `
-- talk.jsonl --
{"format":"edged model traffic 1"}
-- main.star --
a = Agent("a", model = "replay:talk.jsonl")
-- main_test.star --
load("main.star", "a")

def test_replay():
    assert.contains(a.run("hi").reason, "recording has no answer to this request")
`)
}

func TestModelGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		for _, row := range []struct{ script, want string }{
			{`Agent("a", model = "qwen2.5:1.5b")`, "add to edged.toml, under [allow]: llm = [\"ollama:qwen2.5:1.5b\"]"},
			{`Agent("a", model = "openai:m@http://box:1/v1")`, "llm = [\"openai:m@http://box:1/v1\"]"},
			{`Agent("a", model = ["builtin", "replay:main.star"])`, ""},
			{`Agent("a", model = "replay:none.jsonl")`, "there is no file none.jsonl in the robot's folder"},
			{`Agent("a", model = ["intent", "builtin:none.gguf"])`, "there is no file none.gguf in the robot's folder"},
			{`Agent("a", model = "ollama:tiny")`, ""},
			{`Agent("a", model = "builtin", tools = [mcp("stdio:thing -x")])`, "exec = [\"thing -x\"]"},
			{`Agent("a", model = "builtin", tools = [mcp("http://box/mcp")])`, "http = [\"http://box/mcp\"]"},
			{`Agent("a", model = "builtin", memory = "home")`, "bb = [\"memory/home\"]"},
			{`Agent("a", model = "builtin", memory = True)`, ""},
			{`Agent("a", topic = "fleet/x")`, "bus.pub = [\"fleet/x\"]"},
		} {
			_, err := lib.Load(t.Context(), r.host, source(row.script), lib.Options{Grants: lib.Grants{LLM: []string{"ollama:tiny"}}})
			if got := shown(err); row.want == "" && err != nil || row.want != "" && !strings.Contains(got, row.want) {
				t.Errorf("%s\ngot  %s\nwant %s", row.script, got, row.want)
			}
		}
	})
}
