package lib

import (
	"context"
	"fmt"
	"strings"

	"go.starlark.net/starlark"

	"edged/agent/llm"
	"edged/bus"
	"edged/bus/origin"
	"edged/starlark/script"
	"edged/starlark/value"
)

// Whose words a run of script code is made of: see package origin. A run begins
// with the label of what called it, hears joins that of whatever it reads, and
// what it says has it by its context. Three things are particular to scripts:
// what is declared in a run has the run's words in it, what the top level has
// read is in the globals of every run, and all that an isolated script says is
// its own words.

var releaseRows = []row{{value.Func{
	Name: "release", Doc: "Says that from here on the run goes by what the script says, and no more by what others said: agents it runs may act again, what it publishes or stores is the script's own. Look at the words first, and let on only what you know. It is told as the event edged/release, and written into the audit. Tools, guards, checks and predicates can't, nor can isolated scripts.",
	Example: "def on_order(ev):\n    room = ev.get(\"room\")\n    if room in [\"kitchen\", \"hall\"]:\n        release(\"one of our rooms, nothing else of the message\")\n        butler.run(\"drive to the \" + room)\n\non(\"shop/order\", on_order)",
	Params: []value.Param{
		{Name: "why", Type: value.String, Required: true, Positional: true, Doc: "Why the words may be trusted, for whoever reads the audit."}},
	Returns: "what is taken off: the origins, with commas between",
}, (*Behaviour).release}}

// isolatedKind is the origin of what isolated scripts say.
const isolatedKind = "isolated:"

// hears notes that a call gives the run words of others.
func hears(c *value.Call, whose origin.Label, v any) {
	if !origin.Wordless(v) {
		origin.Raise(c.Context(), whose)
	}
}

// declaredBy is whose words a call declares or leaves something in; "" at top level,
// where they are the script's own.
func declaredBy(c *value.Call) origin.Label {
	if script.Loading(c.Thread) {
		return ""
	}
	return origin.From(c.Context())
}

// into brings into a run that has begun what its function was made of.
func (b *Behaviour) into(ctx context.Context, made origin.Label) {
	if b.globals != "" {
		origin.Raise(ctx, b.globals)
	}
	if made != "" {
		origin.Raise(ctx, made)
	}
}

// anew is the context of a run that nobody's words brought about, but for those
// it was made of.
func (b *Behaviour) anew(ctx context.Context, source string, made origin.Label) context.Context {
	whose := origin.Of(source)
	if kind, _, _ := strings.Cut(source, ":"); kind != "script" && kind != "test" && kind != "cli" {
		whose = origin.Of(b.scriptSource(""))
	}
	return origin.With(ctx, origin.Merge(whose, b.globals, made))
}

// release is release.
func (b *Behaviour) release(c *value.Call) (starlark.Value, error) {
	why := strings.TrimSpace(c.String("why"))
	r, ctx := runOf(c.Context()), c.Context()
	scope := origin.ScopeOf(ctx)
	switch {
	case why == "":
		return nil, c.Errorf("why", "argument \"why\": say why the words may be trusted")
	case b.isolated:
		return nil, fmt.Errorf("release: an isolated script can't say whose words are to be trusted; let a local one do it")
	case scope == nil:
		return nil, nil
	case r != nil && r.pure != impure:
		return nil, fmt.Errorf("release: %s only looks and decides; release in the handler that acts", r.pure)
	case llm.InTurn(ctx) || r != nil && r.more != nil && r.tool:
		return nil, fmt.Errorf("release: a tool answers a model, which could ask for it; release in the handler that gives the task")
	}
	own := origin.Merge(origin.Of(b.scriptSource(where(c).File)))
	if kind, _, _ := strings.Cut(b.source(c), ":"); kind == "test" || kind == "cli" {
		own = origin.Of(b.source(c))
	}
	was := scope.Label()
	if was.Trusted(b.trusted) {
		return c.Return(string(was)) // there is nothing to release
	}
	at := where(c).String()
	if log := b.host.Audit; log != nil {
		args, err := value.EncodeJSON(map[string]any{"why": why, "at": at})
		if err == nil {
			err = log.Append(llm.AuditEntry{Agent: b.source(c), Origin: string(was), Tool: "release", Args: args, Ran: true})
		}
		if err != nil {
			return nil, fmt.Errorf("release: it can't be written down, so nothing is released: %w", err)
		}
	}
	told := map[string]any{"why": why, "origin": string(was), "at": at}
	if _, err := b.host.Bus.Publish(ctx, b.source(c), "edged/release", told); err != nil {
		return nil, fmt.Errorf("release: it can't be told, so nothing is released: %w", err)
	}
	scope.Release(own)
	return c.Return(string(was))
}

// voiced is whose words an event is that a handler begins with: who speaks to
// the robot's own microphone is a person.
func voiced(ctx context.Context, e bus.Event) {
	if strings.HasPrefix(e.Topic, "voice/") && strings.HasPrefix(e.Source, "hw:") && e.Origin() == origin.Of(e.Source) {
		origin.ScopeOf(ctx).Release("voice")
	}
}
