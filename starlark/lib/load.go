package lib

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sort"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"edged/agent/llm"
	"edged/background"
	"edged/bus/origin"
	"edged/starlark/script"
	"edged/starlark/value"
	"edged/workflow/graph"
	"edged/workflow/society"
)

// Options of a load.
type Options struct {
	// Folder is the folder's name: what file names in messages begin with, and
	// the topics <folder>/… and keys <folder>/… that need no grant.
	Folder string
	Grants Grants
	Entry  []string      // the files to run; main.star
	Cover  *script.Cover // counts the lines that run, if not nil

	// Isolated, if not nil, runs the folder in a child process. Whoever loads
	// it stops it, also if it was never started.
	Isolated *Isolation

	// Extra are further names, those of tests say.
	Extra    starlark.StringDict
	testing  bool              // what test files do is granted
	stimulus func()            // told that a test changes the world
	settle   func(*value.Call) // told that it has
}

// Load reads a robot's folder and runs the top level of its entry files: what
// they declare is checked and noted, and nothing moves before
// [Behaviour.Start]. The error is a *script.Error, or script.Errors, whose Text
// shows the place, the code and what to write instead.
func Load(ctx context.Context, h *Host, folder fs.FS, o Options) (*Behaviour, error) {
	if h.Bus == nil || h.Board == nil {
		return nil, errors.New("lib: load: the host needs a bus and a board")
	}
	if o.Folder == "" {
		o.Folder = h.Name
	}
	if err := validName(o.Folder); err != nil {
		return nil, fmt.Errorf("lib: load: folder %w", err)
	}
	b := &Behaviour{
		host: h, folder: o.Folder, dir: folder, ownSessions: NewSessions(), grants: o.Grants, testing: o.testing, log: h.Log,
		parts: make(map[part]int), inboxes: make(map[string]bool), agents: make(map[string]int),
		durables: make(map[string]*durableRun), claimed: make(map[string]bool),
		timers: make(map[string]*ticker), missing: make(map[string]bool),
		served: make(map[string]bool), known: make(map[keyed]llm.Model),
	}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	b.runs.init()
	b.turns.Store(newTurns())
	b.contextValue = contextKind.Wrap
	b.stimulus, b.settle = o.stimulus, o.settle
	if b.stimulus == nil {
		b.stimulus, b.settle = func() {}, func(*value.Call) {}
	}
	b.engine = script.New(script.Options{Limits: h.Limits, Print: b.print})
	b.life, b.kill = context.WithCancelCause(context.Background())
	b.root = background.NewSupervisor("scripts:"+b.folder, b.rootOptions())
	b.predeclared = b.names()
	for k, v := range o.Extra {
		b.predeclared[k] = merged(b.predeclared[k], v)
	}
	b.flows.init(h)
	library := h.Library
	if library == nil {
		library = Library()
	}
	src := script.Source{Name: b.folder, FS: folder, Library: library, Entry: o.Entry, Predeclared: b.predeclared, Cover: o.Cover}
	var err error
	own := origin.Of(b.scriptSource(""))
	if b.isolated = o.Isolated != nil; b.isolated {
		own = origin.Of(isolatedKind + b.folder)
	}
	ctx = origin.With(ctx, own)
	if b.isolated {
		err = b.loadIsolated(ctx, src, *o.Isolated)
	} else {
		b.program, err = b.engine.Load(ctx, src)
	}
	if err == nil {
		err = b.declared()
	}
	if whose := origin.From(ctx); b.isolated || whose != own {
		b.globals = whose
	}
	if err != nil {
		b.kill(errStopped)
		return nil, err
	}
	return b, nil
}

// declared looks over what the top level made, when all of it is there.
func (b *Behaviour) declared() error {
	if list := append(b.graphErrors(), b.societyErrors()...); len(list) > 0 {
		b.child.stop()
		return list
	}
	return nil
}

// merged adds the members of a module to those of one with the same name.
func merged(old, more starlark.Value) starlark.Value {
	was, ok := old.(*value.Module)
	m, ok2 := more.(*value.Module)
	if !ok || !ok2 {
		return more
	}
	members := starlark.StringDict{}
	for _, name := range m.AttrNames() {
		members[name], _ = m.Attr(name) // it is there
	}
	return was.With(members)
}

// print is what scripts print: for people.
func (b *Behaviour) print(_ context.Context, at script.Position, text string) {
	if b.host.Print != nil {
		fmt.Fprintln(b.host.Print, text) // nobody to tell if it fails
		return
	}
	b.log.Info(text, "at", at.String())
}

// modules are the tables of everything scripts can say with a dot.
func modules() []module {
	return []module{
		{"bus", "How everything hears everything: events and messages.", [][]row{busOnRows, busRows, messageRows}},
		{"bb", "The blackboard: the memory that all agents and scripts share. Keys <folder>/… are the folder's own.", [][]row{boardRows, watchRows, requestRows}},
		{"hw", "The robot's devices, behind one gate: limits, lifetimes, the stop.", [][]row{hardwareRows}},
		{"robot", "The robot itself.", [][]row{robotRows}},
		{"log", "Notes for the operator. What the robot did is an event, not a log line.", [][]row{logRows}},
		{"time", "Points in time and durations. A duration may also be written \"250ms\", \"1m30s\", or as a number of seconds.", [][]row{timeRows}},
		{"math", "Mathematics.", [][]row{mathRows}},
		{"re", "Regular expressions, in RE2's syntax: they take time in proportion to the text.", [][]row{regexpRows}},
		{"model", "Models without agents around them.", [][]row{modelRows}},
		{"hook", "What looks into the runs of agents that have a model, ready made. Those small models need are always there: loop detector, echoed payload, schema retry, tool error budget, truncated results.", [][]row{hookRows}},
		{"memory", "What is known from before: facts, preferences, episodes and notes, in the blackboard's file. A scope is whose it is; the folder's own is its name, others need a grant of bb \"memory/SCOPE\".", [][]row{memoryRows}},
		{"store", "Files in the robot's own data folder. State belongs on the blackboard; this is for what others read.", [][]row{storeRows}},
	}
}

type module struct {
	name, doc string
	rows      [][]row
}

// functions are the tables of everything scripts can say without one.
func functions() [][]row {
	return [][]row{
		onRows, timerRows, plainMessageRows, agentRows, modelFormRows, toolRows, intentRows, delegateRows, hookFormRows, memoryFormRows,
		backgroundRows, triggerRows, poolRows, nodeRows, decoratorRows, leadRows, graphRows, guardrailRows, humanRows, boardFormRows, envRows,
		societyRows, edgeRows, resolverRows, orderRows, artifactRows, releaseRows,
	}
}

// names are what scripts have besides the language.
func (b *Behaviour) names() starlark.StringDict {
	d := starlark.StringDict{
		"HUMAN":    agentKind.Wrap(&person{identity{b: b, name: society.HUMAN, role: "the person"}}),
		"ESCALATE": starlark.String("ESCALATE"), "RETRY_ONCE": starlark.String("RETRY_ONCE"), "TERMINATE": starlark.String("TERMINATE"),
		"TimeoutPolicy": value.NewModule("TimeoutPolicy", "What becomes of a round whose time is over.").With(timeoutPolicyMembers()),
		"json":          value.JSON(), "EXIT": exitValue, "PASS": passValue,
		"START": starlark.String(graph.Start), "END": starlark.String(graph.End),
		"struct": starlark.NewBuiltin("struct", starlarkstruct.Make),
	}
	for _, m := range modules() {
		v := value.NewModule(m.name, m.doc, b.bind(slices.Concat(m.rows...))...)
		switch m.name {
		case "math":
			v = v.With(starlark.StringDict{"pi": mathMember("pi"), "e": mathMember("e")})
		case "time":
			v = v.With(timeUnits())
		case "hw":
			sim := value.NewModule("hw.sim", "The simulated world, in tests.", b.bind(simRows)...)
			v = v.With(starlark.StringDict{"sim": sim})
		case "robot":
			v = v.With(starlark.StringDict{"name": starlark.String(b.host.Name)})
		}
		d[m.name] = v
	}
	for _, rows := range functions() {
		for _, f := range b.bind(rows) {
			d[f.Name] = f.Builtin()
		}
	}
	return d
}

// kinds describe the types of the values that builtins give.
func kinds() [][]value.Entry {
	return [][]value.Entry{
		eventKind.Describe(), messageKind.Describe(), subscriptionKind.Describe(), timerKind.Describe(), contextKind.Describe(), viewKind.Describe(),
		watchKind.Describe(), requestKind.Describe(), volunteerKind.Describe(), futureKind.Describe(), agentKind.Describe(), toolKind.Describe(),
		toolsetKind.Describe(), keyedKind.Describe(), intentKind.Describe(), intentsKind.Describe(), handoffKind.Describe(), hookKind.Describe(), stepKind.Describe(),
		streamKind.Describe(), memoryKind.Describe(), promptKind.Describe(), resultKind.Describe(), declinedKind.Describe(), verdictKind.Describe(),
		triggerKind.Describe(), unitKind.Describe(), poolKind.Describe(), poolContextKind.Describe(), communeKind.Describe(), interactionKind.Describe(),
		edgeKind.Describe(), resolverKind.Describe(), appealKind.Describe(), orderKind.Describe(), stopKind.Describe(), artifactKind.Describe(),
		submissionKind.Describe(), workKind.Describe(), saidKind.Describe(), floorKind.Describe(), turnKind.Describe(), deviceKind.Describe(),
		goalKind.Describe(), matchKind.Describe(), secretKind.Describe(), graphKind.Describe(), gotoKind.Describe(), guardrailKind.Describe(),
		replacementKind.Describe(), humanKind.Describe(), retryKind.Describe(),
	}
}

// constantDocs describe the names that are neither functions nor modules.
var constantDocs = map[string]string{
	"HUMAN":      "The person, as an agent: escalations go there, and it can be a member.",
	"ESCALATE":   "Policy of on_timeout: somebody above decides.",
	"RETRY_ONCE": "Policy of on_timeout: exactly one more try.",
	"TERMINATE":  "Policy of on_timeout: the interaction ends.",
	"EXIT":       "What a background agent or its trigger returns that is finished for good: a clean exit.",
	"START":      "Where a graph begins: the source of its first edges.",
	"END":        "Where a graph ends: the target of its last edges.",
	"PASS":       "What a volunteer returns to leave a request to others.",
}

// Catalogue describes everything scripts can say, sorted by name: for the
// manual, completion and the editor.
func Catalogue() []value.Entry {
	b := &Behaviour{host: &Host{Name: "robot"}}
	d := b.names()
	for name, v := range script.Universe() {
		if _, own := d[name]; !own {
			if _, ours := v.(*value.Builtin); ours {
				d[name] = v
			}
		}
	}
	delete(d, "struct")
	entries := value.Catalogue(d, kinds()...)
	for i, e := range entries {
		if doc, ok := constantDocs[e.Name]; ok {
			entries[i].Doc, entries[i].Signature = doc, e.Name
		}
	}
	for _, e := range testEntries() {
		entries = append(entries, e)
	}
	sort.SliceStable(entries, func(i, j int) bool { return entries[i].Name < entries[j].Name })
	return entries
}

// Predeclared are the names that scripts have, for checkers that don't run
// anything.
func Predeclared() starlark.StringDict {
	return (&Behaviour{host: &Host{Name: "robot"}}).names()
}
