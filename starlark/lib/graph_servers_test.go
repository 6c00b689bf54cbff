package lib_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent/llm"
	"edged/starlark/lib"
)

// TestGraphDiscoversOnServers: the tools of a server are found when the edge is
// reached, run as tools do, and are those that the server has then.
func TestGraphDiscoversOnServers(t *testing.T) {
	play(t, `
-- edged.toml --
[allow]
exec = ["calendar", "off"]
-- main.star --
def look():
    "Look out of the window."
    return "rain"

Tool(look)
mcp("stdio:calendar", read = ["events"])
mcp("stdio:off")

def make(name, query, **more):
    g = Graph(name)
    g.node("a", lambda state: {"day": "Monday"})
    g.node("fb", lambda state: "nobody can")
    g.edge(START, "a")
    g.discover("a", query, kind = "tool", fallback = "fb", **more)
    g.edge("fb", END)
    return g

what = make("what", "list the events of a day")
wipe = make("wipe", "erase the calendar")
window = make("window", "look out of the window")
strict = Graph("strict")
strict.discover(START, "sing an aria")
-- main_test.star --
load("main.star", "strict", "what", "window", "wipe")

def events(day):
    """List the events of a day.

    Args:
      day: which
    """
    return "dentist on " + day

def erase():
    "Erase the calendar."
    bus.publish("box/erased")

def birthdays(day):
    """List the birthdays of a day, the events of a family.

    Args:
      day: which
    """
    return "Ada"

def test_found_and_run():
    serve_mcp("stdio:calendar", tools = [events, erase])
    r = what.run("go")
    assert.eq([r.status, r.by, r.output["events"]], ["done", "events", "dentist on Monday"])
    ev = expect_event("edged/graph/what/discovery").payload
    assert.eq(ev["found"], "events")
    assert.eq([u["from"] for u in ev["unheard"]], ["stdio:off"])
    assert.contains(ev["unheard"][0]["reason"], "nobody is there")

def test_list_is_the_servers():
    serve_mcp("stdio:calendar", tools = [erase, events])
    assert.eq(what.run("go").by, "events")
    serve_mcp("stdio:calendar", tools = [events])
    assert.eq(wipe.run("go").by, "fb")
    serve_mcp("stdio:calendar", tools = [erase, events])
    assert.eq(wipe.run("go").by, "erase")
    expect_event("box/erased")

def test_others_words_do_not_act():
    serve_mcp("stdio:calendar", tools = [erase, events])
    r = wipe.run("go", origin = "mqtt")
    assert.eq(r.status, "blocked")
    assert.eq(what.run("go", origin = "mqtt").status, "done")  # it reads
    robot.stop("somebody")
    assert.ne(wipe.run("go").status, "done")
    expect_no_event("box/erased")

def test_all_down():
    assert.eq(what.run("go").by, "fb")
    assert.eq(window.run("go").output["look"], "rain")
    r = strict.run("go")
    assert.contains(r.reason, "unresolved")
    assert.contains(r.reason, "stdio:calendar: tools of stdio:calendar: nobody is there")
`)
}

// TestDiscoveriesDoNotWaitForServers: one that does not answer costs a
// discovery two seconds once, and is found when it is there; what it ran is in
// the audit.
func TestDiscoveriesDoNotWaitForServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		var log bytes.Buffer
		r.host.Audit = llm.NewAudit(&log, nil)
		up, asked := make(chan struct{}), 0
		r.host.MCP = func(ctx context.Context, _ lib.ToolServer) ([]llm.Tool, error) {
			asked++
			select {
			case <-up:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			return []llm.Tool{{Name: "events", Doc: "List the events.", Effect: llm.Write, Origin: "mcp:web",
				Do: func(context.Context, json.RawMessage) (json.RawMessage, error) {
					return json.RawMessage(`"dentist"`), nil
				}}}, nil
		}
		b := r.start(`
mcp("http://slow/mcp")
g = Graph("g")
g.node("fb", lambda state: None)
g.discover(START, "list the events", kind = "tool", fallback = "fb")
g.edge("fb", END)
on("box/go", lambda ev: bus.publish("box/by", g.run("x").by))
`)
		defer r.stop(b)
		begun := time.Now()
		var took []string
		for range 3 {
			r.publish("box/go", nil)
			for n := len(r.payloads("box/by")); n == len(took); n = len(r.payloads("box/by")) {
				time.Sleep(500 * time.Millisecond)
				synctest.Wait()
			}
			by := r.payloads("box/by")
			took = append(took, fmt.Sprint(by[len(by)-1], " after ", time.Since(begun).Round(500*time.Millisecond)))
			if len(took) == 2 {
				close(up)
				synctest.Wait()
			}
		}
		if want := []string{"fb after 2s", "fb after 2.5s", "events after 3s"}; !slices.Equal(took, want) || asked != 2 {
			t.Errorf("got %q, asked %d times; want %q\n%s", took, asked, want, r.errors())
		}
		var e llm.AuditEntry
		if err := json.Unmarshal(log.Bytes()[1+bytes.IndexByte(log.Bytes(), '\n'):], &e); err != nil || e.Tool != "events" || e.Agent != "graph:g" || !e.Ran || !strings.Contains(string(e.Result), "dentist") {
			t.Errorf("the audit has %s", log.Bytes())
		}
	})
}
