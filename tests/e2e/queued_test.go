package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
)

// What a broker kept for a robot that was off moves nothing on its return,
// however many handlers, keys, requests, timers and agents lie between the
// message and the actuator. It comes whole, and why says what became of it. The
// same words said now move it by every way.
func TestOldCommandsMoveNothing(t *testing.T) {
	m := startMosquitto(t)
	ways := []string{"bind", "handler", "board", "request", "timer", "agent", "message", "durable", "later"}
	dir := folder(t, map[string]string{
		"edged.toml": `name = "crab"
[trace]
payload = "4KiB"
[bus]
retained = 100
[allow]
all = true
[mqtt]
url = "` + m.url() + `"
subscribe = [{filter = "cmd/#", qos = 1, time = "sent"}]
publish = [{filter = "seen/#", qos = 1}]
[devices.arm]
driver = "sim.actuator"
bind = "cmd/bind"
min = -1
max = 1
`,
		"main.star": `
arm = hw.device("arm")
def move(n): arm.do(0.5)
def seen(ev):
    bb.incr("seen/" + ev.topic)
    if ev.queued: bb.incr("queued")
    if ev.queued and ev.age and ev.age >= 1: bb.incr("aged")
on("cmd/#", seen, max_queue = 10000)
on("cmd/handler", lambda ev: move(ev["n"]), max_queue = 10000)
on("cmd/board", lambda ev: bb.set("go/" + str(ev["n"]), ev["n"]), max_queue = 10000)
bb.watch("go/*", lambda key, old, new: move(new))
on("cmd/request", lambda ev: bb.post_request("move", ev["n"]), max_queue = 10000)
bb.volunteer("move", lambda r: move(r.task))
def on_later(ev):
    bb.post_request("later", ev["n"], durable = True, timeout = "1h")
    after("20s", in_time, durable = True, name = "in_time")
def in_time(ctx): move(7)
on("cmd/timer", lambda ev: after("10ms", in_time), max_queue = 10000)
on("cmd/later", on_later, max_queue = 10000)
on("open", lambda ev: bb.volunteer("later", lambda r: move(r.task)))
on("cmd/message", lambda ev: send_message(to = "arm", content = ev["n"]), max_queue = 10000)
subscribe_inbox(agent_name = "arm", handler = lambda msg: move(msg.content), max_queue = 10000)
mover = Agent("mover", fn = lambda task: move(1))
BackgroundAgent(mover, subscribe_to = ["cmd/agent"], max_queue = 10000)
def patiently(ev, ctx):
    ctx.sleep("20s" if ev.queued else "10ms", durable = True)
    move(ev["n"])
on("cmd/durable", patiently, mode = "parallel", max_parallel = 1000, max_queue = 10000)
`,
	})
	r := start(t, dir, "run", dir)
	r.connected()
	r.end(syscall.SIGTERM)

	send := client(t, m.url())
	const n = 999
	for i := range n {
		age := time.Second + time.Duration(i)*(24*time.Hour-time.Second)/(n-1)
		send("cmd/"+ways[i%len(ways)], fmt.Sprintf(`{"n": %d, "sent": %d}`, i+1, time.Now().Add(-age).UnixMilli()))
	}

	r = start(t, dir, "run", dir)
	r.connected()
	r.until("all have come", time.Minute, func() bool {
		out, _ := r.edged("bb", "get", "queued")
		return out == fmt.Sprint(n)
	})
	if got := r.must("bb", "get", "aged"); got != fmt.Sprint(n) {
		t.Errorf("%s have an age, want %d", got, n)
	}
	for _, way := range ways {
		if got := r.must("bb", "get", "seen/cmd/"+way); got != fmt.Sprint(n/len(ways)) {
			t.Errorf("cmd/%s: %s came, want %d", way, got, n/len(ways))
		}
	}
	r.end(syscall.SIGKILL) // while some wait durably: the mark outlives it
	r = start(t, dir, "run", dir)
	r.connected()
	type line struct {
		Topic   string
		Payload struct {
			Command map[string]any
			Error   string
		}
	}
	record := func(topic string) (list []line) {
		t.Helper()
		var all []line
		if err := json.Unmarshal([]byte(r.must("trace", "--json", "--all", "-n", "0", topic)), &all); err != nil {
			t.Fatal(err)
		}
		for _, l := range all {
			if l.Payload.Command != nil || !strings.HasSuffix(topic, "/set") {
				list = append(list, l)
			}
		}
		return list
	}
	told := func() []line { return record("hw/arm/set") }
	r.must("pub", "open", "1")
	r.until("what waited durably was refused", 90*time.Second, func() bool {
		var waits, asked bool
		for _, l := range record("hw/arm/refused") {
			waits = waits || strings.Contains(l.Payload.Error, "cmd/durable")
			asked = asked || strings.Contains(l.Payload.Error, "cmd/later")
		}
		return waits && asked
	})
	if list := told(); len(list) != 0 {
		t.Errorf("the arm was told %d things: %v", len(list), list)
	}
	why := r.must("why", "arm")
	if !strings.Contains(why, "commands refused") || !strings.Contains(why, "old words move nothing: cmd/") || !strings.Contains(why, "act_on_queued") {
		t.Errorf("why arm: %s", why)
	}
	for _, way := range ways {
		if why := r.must("why", "cmd/"+way); !strings.Contains(why, "no order") || !strings.Contains(why, "waited at the broker while the robot was away") {
			t.Errorf("why cmd/%s: %s", way, why)
		}
	}
	for _, way := range ways {
		before := len(told())
		payload := fmt.Sprintf(`{"n": 5, "sent": %d}`, time.Now().UnixMilli())
		if way == "bind" {
			payload = `{"value": 0.5}`
		}
		send("cmd/"+way, payload)
		r.until("a command of now by "+way, 20*time.Second, func() bool { return len(told()) > before })
	}
}

// client publishes with QoS 1.
func client(t *testing.T, url string) func(topic, payload string) {
	t.Helper()
	c := paho.NewClient(paho.NewClientOptions().AddBroker(url).SetClientID("client"))
	if s := c.Connect(); s.Wait() && s.Error() != nil {
		t.Fatal(s.Error())
	}
	t.Cleanup(func() { c.Disconnect(50) })
	return func(topic, payload string) {
		t.Helper()
		if s := c.Publish(topic, 1, false, payload); s.Wait() && s.Error() != nil {
			t.Fatal(s.Error())
		}
	}
}
