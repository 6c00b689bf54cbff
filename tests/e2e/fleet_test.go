package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"edged/tests/peer"
)

// fleetSettings gives the settings of doc/fleets.md, for a robot of that page.
func fleetSettings(t *testing.T, m *mosquitto, page, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "doc", "fleets.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(text), "```toml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if strings.Contains(block, fmt.Sprintf("client_id = %q", page)) {
			return fmt.Sprintf("name = %q\n\n", name) + strings.Replace(block, "ssl://broker.example", m.url(), 1)
		}
	}
	t.Fatalf("doc/fleets.md has no settings for %s", page)
	return ""
}

// mule is a robot that is asked. What the task says about it is how it behaves.
const muleScript = `
def bid(task):
    mood = task.get("mule", "fine")
    if mood == "refuses":
        return None
    if mood == "formless":
        return {"cost": "little"}
    if mood == "thinks":
        bus.publish("mule/thinks", 1)
        sleep("1h")
    return {"cost": 50, "eta_s": 60}

def work(task):
    if task.get("mule", "fine") == "fails":
        fail("wheel")
    return "mule was there"

mule = Agent("mule", fn = {"bid": bid, "work": work})
mule.serve("robots/mule/turns")
`

const scoutScript = `
scout = Agent("scout", fn = {"bid": lambda task: {"cost": 90, "eta_s": 60}, "work": lambda task: "scout was there"})
mule = Agent("mule", topic = "robots/mule/turns")
crab = Agent("crab", topic = "robots/crab/turns")
dispatch = Agent("dispatch", fn = lambda task: "accept")
robots = [scout, mule, crab]

fleet = Society("fleet")
auction = fleet.compete(robots, Competition(
    protocol = Market(bid = {"type": "object", "required": ["cost", "eta_s"], "properties": {
        "cost": {"type": "integer", "minimum": 0}, "eta_s": {"type": "integer", "minimum": 0}}}),
    resolve = BestScore("cost", highest = False),
    quorum = 1, timeout = "2s", on_timeout = TERMINATE,
))
job = {a.name: fleet.connect(dispatch, a, Delegation(timeout = "2s", max_rounds = 1, on_timeout = TERMINATE)) for a in robots}

def on_job(ev):
    task = ev.payload
    r = auction.run(task)
    tried = []
    for name in r.ranking:
        d = job[name].run(task)
        tried.append([name, d.status, d.output or d.reason])
        if d.status == "done":
            break
    bus.publish("jobs/over", {"id": task["id"], "status": r.status, "reason": r.reason, "winner": r.winner, "ranking": r.ranking, "tried": tried, "run": r.run_id})

on("jobs/new", on_job, mode = "queue")
`

// bidder runs a shell script that speaks MQTT, until the test ends.
func (m *mosquitto) bidder(args ...string) {
	m.t.Helper()
	for _, p := range []string{"mosquitto_sub", "mosquitto_pub"} {
		peer.Need(m.t, p, "mosquitto-clients")
	}
	peer.Need(m.t, "jq", "jq")
	cmd := exec.Command("sh", args...)
	cmd.Env = append(os.Environ(), "PORT="+m.port)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
}

// answered asks a peer until it answers: it listens.
func (m *mosquitto) answered(wire *output, name string) {
	m.t.Helper()
	id := "there-" + name
	await(m.t, name+" answers", func() bool {
		m.pub("-t", "robots/"+name+"/turns", "-m", fmt.Sprintf(`{"kind": "cfp", "id": %q, "task": {}}`, id))
		time.Sleep(100 * time.Millisecond)
		return strings.Contains(strings.Join(wire.messages("robots/"+name+"/turns/reply"), "\n"), id)
	})
}

// said are the messages of a turn on a topic, as "kind reason".
func said(o *output, topic, id string) (list []string) {
	for _, text := range values(o.messages(topic)) {
		var m struct{ Kind, ID, Reason string }
		if json.Unmarshal([]byte(text), &m) == nil && m.ID == id {
			list = append(list, strings.TrimSpace(m.Kind+" "+m.Reason))
		}
	}
	return list
}

// over is what came of a job.
type over struct {
	ID, Status, Reason, Winner, Run string
	Ranking                         []string
	Tried                           [][]string
}

// TestFleet: a contract net of two robots and a shell script on one broker. Who
// refuses, is late, talks nonsense, fails or is killed has no part in it, each in
// its own way by the record, and the job goes to the next in the ranking.
func TestFleet(t *testing.T) {
	m := startMosquitto(t)
	wire := m.sub("robots/#")
	m.bidder(filepath.Join("testdata", "fleet", "bidder.sh"), "crab", "30")
	muleDir := folder(t, map[string]string{"main.star": muleScript,
		"edged.toml": fleetSettings(t, m, "mule", "mule")})
	mule := start(t, muleDir, "run", muleDir)
	dir := folder(t, map[string]string{"main.star": scoutScript,
		"edged.toml": fleetSettings(t, m, "scout", "scout")})
	scout := start(t, dir, "run", dir)
	scout.connected()
	mule.connected()
	heard := scout.listen("#")
	m.answered(wire, "crab")
	m.answered(wire, "mule")

	begin := func(id, moods string) {
		scout.must("pub", "jobs/new", fmt.Sprintf(`{"id": %q%s}`, id, moods))
	}
	end := func(id string) (o over) {
		t.Helper()
		await(t, "job "+id+" is over", func() bool {
			for _, text := range events(t, heard, "jobs/over") {
				if json.Unmarshal([]byte(text), &o) == nil && o.ID == id {
					return true
				}
			}
			return false
		})
		return o
	}
	for _, x := range []struct {
		name, moods string
		ranking     string
		tried       string
		turns       string
		crab        []string // what the shell hears about its bid
	}{
		{"fine", ``, "[crab mule scout]", "[[crab done crab was there]]", "crab ok, mule ok, scout ok", []string{"cfp", "accept-proposal", "result"}},
		{"the winner fails", `, "crab": "fails"`, "[crab mule scout]", "[[crab failed crab: failed: peer failed: wheel] [mule done mule was there]]",
			"crab ok, mule ok, scout ok", []string{"cfp", "accept-proposal", "result"}},
		{"two fail", `, "crab": "dies", "mule": "fails"`, "[crab mule scout]",
			"[[crab timeout somebody did not answer in time: crab] [mule failed mule: failed: peer failed: mule/main.star:15:13: fail: wheel] [scout done scout was there]]",
			"crab ok, mule ok, scout ok", []string{"cfp", "accept-proposal", "result"}},
		{"refused", `, "crab": "refuses"`, "[mule scout]", "[[mule done mule was there]]", "crab refused, mule ok, scout ok", []string{"cfp", "result"}},
		{"refused by a robot", `, "mule": "refuses"`, "[crab scout]", "[[crab done crab was there]]", "crab ok, mule refused, scout ok", []string{"cfp", "accept-proposal", "result"}},
		{"text", `, "crab": "text"`, "[mule scout]", "[[mule done mule was there]]", "crab invalid, mule ok, scout ok",
			[]string{"cfp", "reject-proposal malformed: it is no JSON object", "result"}},
		{"broken", `, "crab": "broken"`, "[mule scout]", "[[mule done mule was there]]", "crab invalid, mule ok, scout ok",
			[]string{"cfp", "reject-proposal malformed: it is no JSON object", "result"}},
		{"another form", `, "crab": "formless", "mule": "formless"`, "[scout]", "[[scout done scout was there]]", "crab invalid, mule failed, scout ok", nil},
		{"silent", `, "crab": "silent"`, "[mule scout]", "[[mule done mule was there]]", "crab timeout, mule ok, scout ok", []string{"cfp", "cancel", "result"}},
		{"late", `, "crab": "late"`, "[mule scout]", "[[mule done mule was there]]", "crab late, mule ok, scout ok",
			[]string{"cfp", "cancel", "result", "reject-proposal late"}},
	} {
		begin(x.name, x.moods)
		o := end(x.name)
		if got := fmt.Sprint(o.Ranking); o.Status != "done" || got != x.ranking || o.Winner != o.Ranking[0] {
			t.Errorf("%s: got %s, %q, %v; want %s", x.name, o.Status, o.Reason, got, x.ranking)
		}
		if got := fmt.Sprint(o.Tried); got != x.tried {
			t.Errorf("%s: got  %s\nwant %s", x.name, got, x.tried)
		}
		var got string
		await(t, x.name+": the record says "+x.turns, func() bool { got = scout.turns(o.Run); return got == x.turns || x.name != "late" })
		if got != x.turns {
			t.Errorf("%s: the record says %s, want %s", x.name, got, x.turns)
		}
		if x.crab == nil {
			continue
		}
		var about []string
		await(t, x.name+": the shell hears it", func() bool {
			about = said(wire, "robots/crab/turns", lastCall(wire, "crab"))
			return len(about) >= len(x.crab)
		})
		if !slices.Equal(about, x.crab) {
			t.Errorf("%s: crab heard %q, want %q", x.name, about, x.crab)
		}
	}

	// A robot that is killed while it thinks about its bid is out of time.
	thinks := mule.listen("#")
	begin("killed", `, "mule": "thinks"`)
	await(t, "the mule thinks", func() bool { return len(events(t, thinks, "mule/thinks")) > 0 })
	mule.end(syscall.SIGKILL)
	o := end("killed")
	if got := fmt.Sprint(o.Status, o.Ranking, o.Tried); got != "done[crab scout] [[crab done crab was there]]" {
		t.Errorf("killed: got %s", got)
	}
	if got := scout.turns(o.Run); got != "crab ok, mule timeout, scout ok" {
		t.Errorf("killed: the record says %s", got)
	}

	// It comes back, and what was cancelled meanwhile is not done.
	mule = start(t, muleDir, "run", muleDir)
	mule.connected()
	m.answered(wire, "mule")
	begin("back", `, "crab": "refuses"`)
	if o := end("back"); fmt.Sprint(o.Ranking) != "[mule scout]" {
		t.Errorf("back: got %+v", o)
	}
}

// lastCall is the id of the newest call for bids to a peer.
func lastCall(o *output, name string) (id string) {
	for _, text := range values(o.messages("robots/" + name + "/turns")) {
		var m struct{ Kind, ID string }
		if json.Unmarshal([]byte(text), &m) == nil && m.Kind == "cfp" {
			id = m.ID
		}
	}
	return id
}

// turns says how the turns of an auction ended, by the record.
func (r *robot) turns(run string) string {
	r.t.Helper()
	var list []struct {
		Payload struct{ Run, Speaker, State string }
	}
	if err := json.Unmarshal([]byte(r.must("trace", "--json", "-n", "0", "edged/society/fleet/turn")), &list); err != nil {
		r.t.Fatal(err)
	}
	states := map[string]string{}
	for _, e := range list {
		if e.Payload.Run == run {
			states[e.Payload.Speaker] = e.Payload.State
		}
	}
	var all []string
	for _, who := range slices.Sorted(maps.Keys(states)) {
		all = append(all, who+" "+states[who])
	}
	return strings.Join(all, ", ")
}

// doorMule is the other robot at a doorway: its battery is in the board.
const doorMule = `
def agree(task, turn):
    bus.publish("door_mule/saw", turn.draft)
    return {"agree": True}

mule = Agent("mule", fn = {
    "work": lambda task: {"obstacles": "a box", "door_state": "open"},
    "agree": agree,
    "submit": lambda task: {"battery": bb.get("door_mule/battery", 50), "urgent": bb.get("door_mule/urgent", False)},
})
mule.serve("robots/mule/turns")

def news(ev):
    bus.publish("door_mule/news", ev["kind"])

on("robots/mule/turns", news, where = lambda ev: ev["kind"] in ["accept-proposal", "reject-proposal", "cancel"])
`

const doorScout = `
mule = Agent("mule", topic = "robots/mule/turns")
scout = Agent("scout", fn = {
    "agree": lambda task, turn: {"agree": turn.draft["door_state"] == "open"} if turn.draft else {"draft": {}},
    "submit": lambda task: {"battery": bb.get("door_scout/battery", 50), "urgent": False},
})
CLAIM = Artifact("claim", max_tokens = 60, schema = {"type": "object", "required": ["battery", "urgent"], "properties": {
    "battery": {"type": "integer", "minimum": 0, "maximum": 100}, "urgent": {"type": "boolean"}}})

def who_first(subs, state):
    urgent = [s for s in subs if s.output["urgent"]]
    return min([(s.output["battery"], s.agent) for s in (urgent or subs)])[1]

door = Society("doorway").negotiate([mule, scout], Coopetition(
    cooperate_on = ["obstacles", "door_state"],
    compete_on = ["claim"],
    artifacts = [CLAIM], resolve = who_first,
    protocol = Sequential(order = [mule, scout], sees = "all"),
    max_rounds = 2, timeout = "3s", on_timeout = TERMINATE,
))

def on_meet(ev):
    r = door.run("Who passes the %s first?" % ev["site"])
    bus.publish("door_scout/decided", [r.status, r.winner or "", r.output["shared"]["obstacles"] if r.output else ""])

on("door_scout/meet", on_meet, mode = "queue")
`

// TestDoorway: two robots at one doorway agree on what they see and compete for
// who goes first. Each learns of the outcome, and if the other one is gone this
// one gives way.
func TestDoorway(t *testing.T) {
	m := startMosquitto(t)
	wire := m.sub("robots/#")
	muleDir := folder(t, map[string]string{"main.star": doorMule,
		"edged.toml": fleetSettings(t, m, "mule", "door_mule")})
	mule := start(t, muleDir, "run", muleDir)
	dir := folder(t, map[string]string{"main.star": doorScout,
		"edged.toml": fleetSettings(t, m, "scout", "door_scout")})
	scout := start(t, dir, "run", dir)
	scout.connected()
	mule.connected()
	news := mule.listen("#")
	decided := scout.listen("#")
	meet := func() string {
		t.Helper()
		n := len(events(t, decided, "door_scout/decided"))
		scout.must("pub", "door_scout/meet", `{"site": "kitchen door"}`)
		await(t, "a decision", func() bool { return len(events(t, decided, "door_scout/decided")) > n })
		return events(t, decided, "door_scout/decided")[n]
	}
	for i, x := range []struct {
		scout, urgent     string
		decided, muleNews string
	}{
		{"30", "false", `["done","scout","a box"]`, `"reject-proposal"`},
		{"70", "false", `["done","mule","a box"]`, `"accept-proposal"`},
		{"30", "true", `["done","mule","a box"]`, `"accept-proposal"`},
	} {
		scout.must("bb", "set", "door_scout/battery", x.scout)
		mule.must("bb", "set", "door_mule/urgent", x.urgent)
		if got := meet(); got != x.decided {
			t.Errorf("scout %s, mule urgent %s: got %s, want %s", x.scout, x.urgent, got, x.decided)
		}
		await(t, "the mule hears of it", func() bool { return len(events(t, news, "door_mule/news")) > i })
		if got := events(t, news, "door_mule/news")[i]; got != x.muleNews {
			t.Errorf("scout %s, mule urgent %s: the mule hears %s, want %s", x.scout, x.urgent, got, x.muleNews)
		}
	}
	for _, text := range values(wire.messages("robots/mule/turns")) {
		if strings.Contains(text, `"battery":30`) || strings.Contains(text, `"battery":70`) {
			t.Errorf("the scout's claim goes over the wire: %s", text)
		}
	}
	mule.end(syscall.SIGKILL)
	if got := meet(); got != `["timeout","",""]` {
		t.Errorf("without the mule: got %s", got)
	}
}

// TestManualBidder: the bidder of doc/fleets.md, as it stands there.
func TestManualBidder(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "doc", "fleets.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, script, _ := strings.Cut(string(text), "```sh\n")
	script, _, _ = strings.Cut(script, "```")
	file := filepath.Join(t.TempDir(), "bidder.sh")
	if err := os.WriteFile(file, []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	m := startMosquitto(t)
	wire := m.sub("robots/#")
	m.bidder(file, "crab", "3")
	m.answered(wire, "crab")
	for i, x := range []struct{ ask, want string }{
		{`"kind": "cfp", "task": {"site": "hall", "kg": 5}`, `"kind":"propose","id":"job-0","answer":{"cost":30,"eta_s":180}`},
		{`"kind": "cfp", "task": {"site": "hall", "kg": 50}`, `"kind":"refuse","id":"job-1","reason":"too heavy"`},
		{`"kind": "request", "task": {"site": "hall"}`, `"kind":"inform","id":"job-2","answer":{"draft":"done"}`},
	} {
		m.pub("-t", "robots/crab/turns", "-m", fmt.Sprintf(`{"id": "job-%d", %s}`, i, x.ask))
		await(t, "an answer to "+x.ask, func() bool {
			return strings.Contains(strings.Join(wire.messages("robots/crab/turns/reply"), "\n"), x.want)
		})
	}
}
