package lib

import (
	"fmt"
	"strings"

	"edged/bus"
	"edged/hw"
	"edged/starlark/value"
)

// Grants say what a folder's scripts may use beyond computing and their own
// topics and keys. Every list holds patterns: topic filters
// for BusPub and BusSub; keys, prefixes ending in * or "*" for BB; names of
// devices, with a * at the end or alone, for HWRead and HWWrite; names of models
// like "ollama:qwen2.5:1.5b" for LLM; addresses for HTTP and commands for Exec,
// in the same way. The zero value grants nothing; All grants everything.
//
// In edged.toml they are the table allow:
//
//	[allow]
//	bus.pub = ["home/#"]
//	bb = ["goto", "room/*"]
//	hw.write = ["base"]
type Grants struct {
	BusPub, BusSub  []string
	BB              []string
	HWRead, HWWrite []string
	LLM, HTTP, Exec []string
	All             bool
}

// list gives the patterns of a capability by its name in edged.toml.
func (g *Grants) list(name string) []string {
	switch name {
	case "bus.pub":
		return g.BusPub
	case "bus.sub":
		return g.BusSub
	case "bb":
		return g.BB
	case "hw.read":
		return g.HWRead
	case "hw.write":
		return g.HWWrite
	case "llm":
		return g.LLM
	case "http":
		return g.HTTP
	case "exec":
		return g.Exec
	}
	return nil
}

// own reports whether something belongs to the folder itself: the topics
// <folder>/… and the keys <folder>/… and <folder>.… need no grant. What a
// script merely says it owns does not count: it could say anything.
func own(folder, capability, what string) bool {
	switch capability {
	case "bus.pub", "bus.sub":
		return covers(folder+"/#", what)
	case "bb":
		return strings.HasPrefix(what, folder+"/") || strings.HasPrefix(what, folder+".")
	}
	return false
}

// may returns the error for a call that its folder was not granted: it names
// the line to add. what is a topic, a filter, a key, a pattern of keys, or a
// device.
func (b *Behaviour) may(c *value.Call, capability, what string) error {
	r := runOf(c.Context())
	if b.grants.All || own(b.folder, capability, what) || r != nil && r.trusted || b.fromTest(c) {
		return nil
	}
	for _, g := range b.grants.list(capability) {
		topic := strings.HasPrefix(capability, "bus.")
		if topic && covers(g, what) || !topic && coversName(g, what) {
			return nil
		}
	}
	return &value.Error{
		Msg:  fmt.Sprintf("%s is not allowed to use %s %q", b.folder, capability, what),
		Hint: fmt.Sprintf("add to edged.toml, under [allow]: %s = [%q]", capability, what),
	}
}

// effect returns the error for a builtin that acts or waits where a script must
// do neither: in what is asked inline, before a queue, and in bb.transact,
// which may run again.
func effect(c *value.Call) error {
	r := runOf(c.Context())
	if r == nil || r.pure == impure {
		return nil
	}
	hint := "it runs while others wait: let it look and decide, and act in the handler"
	switch r.pure {
	case inTransact:
		hint = "it may run again: read and write through the view that it is given"
	case inCheck:
		hint = "it looks and decides: act in a node or a turn"
	}
	return &value.Error{Msg: "neither effects nor waits inside " + r.pure.String(), Hint: hint}
}

// mayChange is may for what changes something.
func (b *Behaviour) mayChange(c *value.Call, capability, what string) error {
	if err := effect(c); err != nil {
		return err
	}
	if r := runOf(c.Context()); r != nil && r.reads && capability == "hw.write" {
		return r.readsOnly("moves " + what)
	}
	return b.may(c, capability, what)
}

// readsOnly is the error of what acts and may only look.
func (r *run) readsOnly(does string) error {
	if r.more != nil && r.turn != nil {
		return &value.Error{Msg: fmt.Sprintf("a turn to %s moves nothing, but it %s", r.turn.Kind, does), Hint: "only who is delegated to acts: use a Delegation"}
	}
	return &value.Error{Msg: "the tool was declared to read only, but it " + does, Hint: "declare it with Tool(fn, effect = \"write\"): then it passes the gate"}
}

// fromTest reports whether a test file makes the call: it may do everything.
func (b *Behaviour) fromTest(c *value.Call) bool {
	return b.testing && strings.HasSuffix(where(c).File, "_test.star")
}

// covers reports whether every topic that matches filter f matches g too.
func covers(g, f string) bool {
	switch {
	case g == "*" || g == f:
		return true
	case f == "*" || strings.HasPrefix(f, "$") && !strings.HasPrefix(g, "$"):
		return false
	}
	gs, fs := strings.Split(g, "/"), strings.Split(f, "/")
	for i, x := range gs {
		switch {
		case x == "#":
			return true
		case i >= len(fs), fs[i] == "#":
			return false
		case x != "+" && x != fs[i]:
			return false
		}
	}
	return len(gs) == len(fs)
}

// coversName is covers for keys and devices: a name, a prefix and a star, or a
// star.
func coversName(g, f string) bool {
	if prefix, ok := strings.CutSuffix(g, "*"); ok {
		return strings.HasPrefix(f, prefix)
	}
	return g == f
}

// mayHear is may for a subscription. The events of the board and of devices are
// granted by reading them, too.
func (b *Behaviour) mayHear(c *value.Call, filter string) error {
	if err := bus.ValidFilter(filter); err != nil {
		return err
	}
	if key, ok := strings.CutPrefix(filter, "board/"); ok && !strings.ContainsAny(key, "+#") && b.may(c, "bb", key) == nil {
		return nil
	}
	if key, ok := strings.CutPrefix(filter, "request/"); ok && !strings.ContainsAny(key, "+#") && b.may(c, "bb", key) == nil {
		return nil
	}
	if device, ok := strings.CutPrefix(filter, "hw/"); ok {
		name, _, _ := strings.Cut(device, "/")
		if name == "#" || name == "+" {
			name = "*"
		}
		if b.may(c, "hw.read", name) == nil {
			return nil
		}
	}
	return b.may(c, "bus.sub", filter)
}

// mayPublish is may for a topic. What the runtime itself says there cannot be
// forged.
func (b *Behaviour) mayPublish(c *value.Call, topic string) error {
	if err := effect(c); err != nil {
		return err
	}
	if bus.Runtime(topic) && topic != hw.StopTopic {
		instead := ""
		switch first, _, _ := strings.Cut(topic, "/"); first {
		case "board":
			instead = "set the key with bb.set"
		case "request":
			instead = "ask with bb.post_request"
		case "message":
			instead = "write with bus.send_message"
		}
		return &value.Error{Arg: "topic", Msg: fmt.Sprintf("topic %q is the runtime's own", topic), Hint: instead}
	}
	if err := bus.ValidTopic(topic); err != nil {
		return err
	}
	if r := runOf(c.Context()); r != nil && r.reads && !own(b.folder, "bus.pub", topic) {
		return r.readsOnly("publishes " + topic)
	}
	return b.may(c, "bus.pub", topic)
}
