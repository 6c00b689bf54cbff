package lib_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"

	"edged/agent/llm"
	"edged/bus"
	"edged/starlark/lib"
)

// TestCoordination: background agents, pools and requests with agents that have
// a model, as multi-agent frameworks show them.
func TestCoordination(t *testing.T) {
	play(t, `
-- main.star --
def lookup(key):
    """Look a thing up.

    Args:
      key: one of cup, key
    """
    return {"cup": "kitchen", "key": "hall"}[key]

my_agent = LLMAgent(name = "my_agent", role = "investigates", instructions = "Investigate alerts.", model = "qwen2.5:1.5b", tools = [lookup])
weather = LLMAgent("weather", model = "qwen2.5:1.5b", instructions = "Tell the weather.")
calendar = Agent("calendar", fn = lambda task: "nothing today")

def trigger(event):
    if event.kind == "box/sensor_alert":
        return "Investigate: %s" % event.payload
    return None

bg = BackgroundAgent(
    agent = my_agent,
    trigger = trigger,
    subscribe_to = "*",
    max_queue = 32,
    overflow = "drop_oldest",
    restart = "transient",
    max_restarts = 5,
    restart_window_s = 60.0,
)

pool = AgentPool()
pool.register(weather)
pool.register(calendar)
morning = Parallel(name = "morning", agents = [pool.get("weather"), pool.get("calendar")])

def plan(request):
    return my_agent.run(request.task).reply

bb.volunteer("box/plan", plan)
-- main_test.star --
load("main.star", "my_agent", "morning", "pool", "weather", "calendar")

def test_background():
    model.calls("lookup", {"key": "cup"})
    model.says("The cup is in the kitchen.")
    publish("box/sensor_alert", "cup is gone")
    assert.eq(expect_event("edged/agent/my_agent/end")["reply"], "The cup is in the kitchen.")
    assert.eq(model.prompts()[0].user, "Investigate: cup is gone")
    expect_no_event("edged/error")

def test_pool():
    model.says("Rain.")
    assert.eq(pool.run("weather", "and today?").reply, "Rain.")
    model.says("Sun.")
    r = morning.run("morning briefing?", ctx = pool.make_ctx())
    assert.eq([x.reply for x in r.children], ["Sun.", "nothing today"])

def test_request():
    model.says("go there", when = "pick cup")
    fut = bb.post_request("box/plan", {"goal": "pick cup"}, timeout = "5s")
    assert.eq(fut.result(), "go there")

def test_workflows():
    model.says("A cup.", when = "what is it")
    model.says("Red.", when = "A cup.")
    r = Sequence("two", [my_agent, weather]).run("what is it")
    assert.eq([r.status, r.reply], ["done", "Red."])
    model.calls("decline", {"reason": "no idea"})
    r = Fallback("either", [my_agent, calendar]).run("x")
    assert.eq([r.reply, r.by], ["nothing today", "calendar"])
    model.says("late", delay = "1m")
    r = Timeout(my_agent, "2s").run("x")
    assert.eq(r.status, "timeout")
`)
}

func TestFindAgent(t *testing.T) {
	play(t, `
-- main.star --
cleaner = Agent("cleaner", role = "cleans floors", model = "m", capabilities = ["floor"], examples = ["vacuum the hall", "mop the kitchen"])
guard = Agent("guard", role = "watches the doors", model = "m", examples = ["is the front door locked"])
-- main_test.star --
load("main.star", "cleaner", "guard")

def test_find():
    assert.eq(find_agent("please vacuum the kitchen"), cleaner)
    assert.eq(find_agent("is the back door locked").name, "guard")
    assert.eq(find_agent("sing a song"), None)
    assert.eq(find_agent(capabilities = ["floor"]), cleaner)
    assert.eq(find_agent(capabilities = ["roof"]), None)
    assert.eq(find_agent("vacuum", agents = [guard]), None)
`)
}

// urgency is a model that notes how urgent its requests are.
type urgency struct {
	mu   sync.Mutex // guards seen
	seen []string
}

func (u *urgency) Chat(ctx context.Context, _ llm.Request, _ func(string) error) (llm.Message, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seen = append(u.seen, llm.PriorityOf(ctx).String())
	return llm.Message{Text: "ok"}, nil
}

func TestPriorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		u := &urgency{}
		r.host.Models = func(string, string) (llm.Model, error) { return u, nil }
		b := r.start(`
a = Agent("a", model = "m")
BackgroundAgent(agent = Agent("bg", model = "m"), subscribe_to = "wake")
BackgroundAgent(agent = Agent("fn", fn = lambda task: a.run(task)), subscribe_to = "wake2")
on("voice/utterance", lambda ev: a.run("x"))
on("go", lambda ev: a.run("x"))
on("low", lambda ev: a.run("x", priority = "background"))
`)
		defer r.stop(b)
		for _, topic := range []string{"wake", "wake2", "voice/utterance", "go", "low"} {
			r.publish(topic, "x")
			synctest.Wait()
		}
		if got := strings.Join(u.seen, " "); got != "background background person workflow background" {
			t.Errorf("got %s: %s", got, r.errors())
		}
	})
}

// TestAgentsAreLooked over: what check says of agents and their tools.
func TestCheckAgents(t *testing.T) {
	f := fstest.MapFS{"main.star": {Data: []byte(`
def one(x):
    "One."
    return x

def two(x):
    "Two."
    return x

def seen(step):
    return None

many = Agent("many", model = "builtin", tools = [Tool(one, name = "t%d" % i) for i in range(8)], hooks = [Hook(before_tool = seen)])
few = Agent("few", model = "builtin", tools = [two])
on("box/x", lambda ev: few.run("x"))
on("box/y", lambda ev: many.run("x"))
`)}}
	b := bus.New(bus.Options{})
	defer b.Close(t.Context())
	r := newRig(t)
	defer r.close()
	got, err := lib.Load(t.Context(), r.host, f, lib.Options{Grants: lib.Grants{All: true}})
	if err != nil {
		t.Fatal(shown(err))
	}
	var list []string
	for _, p := range got.Check() {
		list = append(list, p.String())
	}
	if text := strings.Join(list, "\n"); len(list) != 1 || !strings.Contains(text, "box/main.star:13:13: agent many has 8 tools [many-tools]") {
		t.Errorf("got %s", text)
	}
	if n := len(got.Tools()); n != 9 || got.Tools()[0].Agents[0] != "many" {
		t.Errorf("got %d tools: %+v", n, got.Tools())
	}
	if len(got.Agents()) != 2 || len(got.Models()) != 0 {
		t.Errorf("got %v %v", got.Agents(), got.Models())
	}
}

// TestIsolatedAgents: agents with models work for scripts in a child process;
// tools tell their parameters, for functions there can't be seen.
func TestIsolatedAgents(t *testing.T) {
	r := newRig(t)
	defer r.close()
	r.host.Models = func(string, string) (llm.Model, error) { return caller{}, nil }
	got := r.isolated(`
def light(room, level):
    return "%s %d" % (room, level)

a = Agent("a", model = "m", tools = [Tool(light, doc = "Light.", params = {"room": "one of hall, dock", "level": "(int, 0..3)"}, effect = "read")])
on("box/go", lambda ev: bus.publish("box/out", a.run("x").reply))
`)
	if got != "light,decline | hall 2" {
		t.Errorf("got %s: %s", got, r.errors())
	}
}
