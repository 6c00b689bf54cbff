package lib

import (
	"context"
	"fmt"
	"maps"
	"net/url"
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
	ToolServer
	only, read []string
	prefix     string

	mu     sync.Mutex // guards asking
	asking *askedSet  // the latest question of a discovery; nil is none yet
}

var toolsetKind = &value.Kind[*toolset]{
	Name: "toolset", Doc: "Tools of a server, see mcp.",
	Attrs:  []value.Attr[*toolset]{{Name: "address", Doc: "Where the server is.", Type: value.String, Get: func(t *toolset) (any, error) { return t.Address, nil }}},
	String: func(t *toolset) string { return fmt.Sprintf("<tools of %s>", t.Address) },
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
	server, err := toolServer(c, address)
	if err != nil {
		return nil, err
	}
	t := &toolset{ToolServer: server, only: c.Strings("only"), read: c.Strings("read"), prefix: c.String("prefix")}
	if script.Loading(c.Thread) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !slices.ContainsFunc(b.toolsets, t.same) {
			b.toolsets = append(b.toolsets, t)
		}
	}
	return toolsetKind.Wrap(t), nil
}

// A ToolServer is a server of the Model Context Protocol and what it is sent: an
// http server headers, a program variables of its environment.
type ToolServer struct {
	Address     string // "stdio:…" or "http://…"
	Header, Env map[string]string
	Hide        []string // secrets among them, which nobody is to read in what it says
}

// same reports whether another one is asked in the same way.
func (s ToolServer) same(o ToolServer) bool {
	return s.Address == o.Address && maps.Equal(s.Header, o.Header) && maps.Equal(s.Env, o.Env)
}

// toolServer reads what a server is sent. An address is seen by everybody, so it
// holds no password.
func toolServer(c *value.Call, address string) (ToolServer, error) {
	s := ToolServer{Address: address}
	web := !strings.HasPrefix(address, "stdio:")
	if u, err := url.Parse(address); web && err == nil && u.User != nil {
		return s, c.Errorf("address", "argument \"address\": it holds a password, and it is shown: write headers = {\"Authorization\": secret(\"NAME\")}")
	}
	var err error
	if s.Header, err = s.sent(c, "headers"); err == nil {
		s.Env, err = s.sent(c, "env")
	}
	switch {
	case err != nil:
		return s, err
	case web && s.Env != nil:
		return s, c.Errorf("env", "argument \"env\" is for a program, \"stdio:…\"; a server at an address takes headers")
	case !web && s.Header != nil:
		return s, c.Errorf("headers", "argument \"headers\" is for a server at an address; a program takes env")
	}
	return s, nil
}

// sent reads a dict of names to text or secrets.
func (s *ToolServer) sent(c *value.Call, arg string) (map[string]string, error) {
	if !c.Has(arg) || c.Value(arg) == starlark.None {
		return nil, nil
	}
	out := map[string]string{}
	for _, item := range c.Value(arg).(starlark.IterableMapping).Items() {
		name, _ := starlark.AsString(item[0])
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("=:", r) }) {
			return nil, c.Errorf(arg, "argument %q: %s is no name", arg, item[0])
		}
		text, isText := starlark.AsString(item[1])
		if h, ok := secretKind.As(item[1]); ok {
			text = h.text
			s.Hide = append(s.Hide, strings.TrimPrefix(text, "Bearer "), text)
		} else if !isText {
			return nil, c.Errorf(arg, "argument %q: %s: want text or a secret, got %s", arg, name, item[1].Type())
		}
		if strings.ContainsAny(text, "\r\n\x00") {
			return nil, c.Errorf(arg, "argument %q: %s is more than one line", arg, name)
		}
		out[name] = text
	}
	return out, nil
}

// same reports whether another one gives the same tools.
func (t *toolset) same(o *toolset) bool {
	return t.ToolServer.same(o.ToolServer) && t.prefix == o.prefix && slices.Equal(t.only, o.only) && slices.Equal(t.read, o.read)
}

// tools asks the server.
func (t *toolset) tools(ctx context.Context, b *Behaviour) ([]llm.Tool, error) {
	if b.host.MCP == nil {
		return nil, fmt.Errorf("tools of %s: this robot speaks to no such servers", t.Address)
	}
	all, err := b.host.MCP(ctx, t.ToolServer)
	if err != nil {
		return nil, fmt.Errorf("tools of %s: %w", t.Address, err)
	}
	var names []string
	for _, x := range all {
		names = append(names, x.Name)
	}
	for _, n := range slices.Concat(t.only, t.read) {
		if !slices.Contains(names, n) {
			return nil, fmt.Errorf("tools of %s: there is no %q, there are %s", t.Address, n, strings.Join(names, ", "))
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
