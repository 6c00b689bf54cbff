package lib

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.starlark.net/starlark"

	"edged/agent/llm"
	"edged/starlark/script"
	"edged/starlark/value"
)

// toolset is the tools of a server that is asked later.
type toolset struct {
	address    string
	only, read []string
	prefix     string

	mu     sync.Mutex // guards asking
	asking *askedSet  // the latest question of a discovery; nil is none yet
}

var toolsetKind = &value.Kind[*toolset]{
	Name: "toolset", Doc: "Tools of a server, see mcp.",
	Attrs:  []value.Attr[*toolset]{{Name: "address", Doc: "Where the server is.", Type: value.String, Get: func(t *toolset) (any, error) { return t.address, nil }}},
	String: func(t *toolset) string { return fmt.Sprintf("<tools of %s>", t.address) },
}

func (b *Behaviour) mcp(c *value.Call) (starlark.Value, error) {
	address := c.String("address")
	capability, what := "http", address
	if command, ok := strings.CutPrefix(address, "stdio:"); ok {
		capability, what = "exec", strings.TrimSpace(command)
	} else if !strings.HasPrefix(address, "http://") && !strings.HasPrefix(address, "https://") {
		return nil, c.Errorf("address", "argument \"address\": want \"stdio:COMMAND …\" or \"http://…\", got %q", address)
	}
	if err := b.may(c, capability, what); err != nil {
		return nil, err
	}
	t := &toolset{address: address, only: c.Strings("only"), read: c.Strings("read"), prefix: c.String("prefix")}
	if script.Loading(c.Thread) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !slices.ContainsFunc(b.toolsets, t.same) {
			b.toolsets = append(b.toolsets, t)
		}
	}
	return toolsetKind.Wrap(t), nil
}

// same reports whether another one gives the same tools.
func (t *toolset) same(o *toolset) bool {
	return t.address == o.address && t.prefix == o.prefix && slices.Equal(t.only, o.only) && slices.Equal(t.read, o.read)
}

// tools asks the server.
func (t *toolset) tools(ctx context.Context, b *Behaviour) ([]llm.Tool, error) {
	if b.host.MCP == nil {
		return nil, fmt.Errorf("tools of %s: this robot speaks to no such servers", t.address)
	}
	all, err := b.host.MCP(ctx, t.address)
	if err != nil {
		return nil, fmt.Errorf("tools of %s: %w", t.address, err)
	}
	var names []string
	for _, x := range all {
		names = append(names, x.Name)
	}
	for _, n := range slices.Concat(t.only, t.read) {
		if !slices.Contains(names, n) {
			return nil, fmt.Errorf("tools of %s: there is no %q, there are %s", t.address, n, strings.Join(names, ", "))
		}
	}
	var out []llm.Tool
	for _, x := range all {
		if t.only != nil && !slices.Contains(t.only, x.Name) {
			continue
		}
		if slices.Contains(t.read, x.Name) {
			x.Effect = llm.Read
		}
		x.Name = t.prefix + x.Name
		out = append(out, x)
	}
	return out, nil
}

// A ToolInfo is a tool of a folder, for training a model and for serving it to
// other programs.
type ToolInfo struct {
	llm.Tool
	Phrases []string // how people ask for it: sentences first, then examples
	Moves   bool
	Agents  []string // who has it
}

// Tools are those that agents of the folder have, in the order they were made.
func (b *Behaviour) Tools() []ToolInfo {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []ToolInfo
	for _, t := range b.tools {
		i := ToolInfo{Tool: t.Tool, Phrases: slices.Concat(t.sentences, t.examples), Moves: t.moves}
		for _, a := range b.made {
			if m, ok := a.(*modelAgent); ok && slices.Contains(m.tools, t) {
				i.Agents = append(i.Agents, m.name)
			}
		}
		out = append(out, i)
	}
	return out
}

// noteTool notes what is declared; what handlers make comes and goes.
func (b *Behaviour) noteTool(c *value.Call, t *tool) {
	if !script.Loading(c.Thread) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tools = append(b.tools, t)
}
