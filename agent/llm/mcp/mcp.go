// Package mcp lets a robot use the tools of other programs, and other programs
// the tools of a robot, by the Model Context Protocol.
//
// Its one rule: what comes from outside is believed in nothing. The tools of a
// server count as Write tools, whatever it says of them, unless the author
// names them harmless; their schemas are bounded before a model sees them, what
// it says of them stands in prompts as its words, bounded and quoted, and their
// results are others' words.
//
//	kitchen := mcp.New("http://192.168.1.7:8931/mcp", mcp.Options{Read: []string{"get_temperature"}})
//	defer kitchen.Close()
//	tools, err := kitchen.Tools(ctx) // connects when first needed, again when it broke
package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"edged/agent/llm"
	"edged/agent/llm/schema"
	"edged/agent/llm/wire"
	"edged/bus/origin"
)

// ErrServer is wrapped by every failure of a server: it can't be reached, it
// broke off, or it said no.
var ErrServer = errors.New("mcp server")

// Options of a client; the zero value works.
type Options struct {
	Prefix  string        // in front of the tools' names, where two servers have the same
	Read    []string      // tools that change nothing; all others go through the gate
	Only    []string      // tools to take; empty = all
	Timeout time.Duration // of connecting and of one call; 10 s
	Env     []string      // more of the environment for a stdio server, "KEY=value"
	Header  http.Header   // of every request to an http server: a token, say
	Hide    []string      // secrets in Env and Header: "***" stands for them in whatever the server says
	Version string        // of this program, told to the server
}

// A Client is one server whose tools are used. It connects when first needed
// and again after the connection broke; all methods may be called concurrently.
type Client struct {
	where  string
	o      Options
	hidden *strings.Replacer

	mu      sync.Mutex // guards the rest; held while connecting, so that one does
	session *mcp.ClientSession
	tools   []llm.Tool
	changes int // how often the server said that its tools changed, or was lost
	listed  int // changes as tools were listed
	closed  bool
}

// New names a server: "stdio:PROGRAM ARGS…" is started and talked to over its
// standard input and output, "http://…" and "https://…" are talked to by the
// streamable HTTP transport. Nothing is connected yet.
func New(where string, o Options) (*Client, error) {
	command, stdio := strings.CutPrefix(where, "stdio:")
	switch {
	case stdio && strings.TrimSpace(command) == "":
		return nil, fmt.Errorf("mcp: %q names no program: say \"stdio:PROGRAM ARGS\"", where)
	case !stdio && !strings.HasPrefix(where, "http://") && !strings.HasPrefix(where, "https://"):
		return nil, fmt.Errorf("mcp: %q is no server: say \"stdio:PROGRAM ARGS\" or \"http://HOST:PORT/PATH\"", where)
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	return &Client{where: where, o: o, hidden: wire.Hide(o.Hide...)}, nil
}

// Tools lists the server's tools as an agent's. They stay usable after the
// connection broke: a call connects again. The list is kept until the server
// says that it changed; that the server is still there is asked each time.
func (c *Client) Tools(ctx context.Context) ([]llm.Tool, error) {
	s, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	if tools := c.kept(); tools != nil {
		if lost := c.ping(ctx, s); lost == nil {
			return tools, nil
		} else if ctx.Err() != nil {
			return nil, c.failed("ask whether it is there", lost)
		}
		c.drop(s)
		if s, err = c.connect(ctx); err != nil {
			return nil, err
		}
	}
	return c.list(ctx, s)
}

// kept gives the list if it holds.
func (c *Client) kept() []llm.Tool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tools == nil || c.listed != c.changes {
		return nil
	}
	return append([]llm.Tool{}, c.tools...)
}

// ping asks whether the server is there; any answer will do.
func (c *Client) ping(ctx context.Context, s *mcp.ClientSession) error {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	err := s.Ping(ctx, nil)
	var said *jsonrpc.Error
	if errors.As(err, &said) {
		return nil
	}
	return err
}

// list asks for the tools. The lock is not held: the server may say meanwhile
// that they changed.
func (c *Client) list(ctx context.Context, s *mcp.ClientSession) ([]llm.Tool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	c.mu.Lock()
	now := c.changes
	c.mu.Unlock()
	tools := []llm.Tool{}
	for t, err := range s.Tools(ctx, nil) {
		if err != nil {
			return nil, c.failed("list its tools", err)
		}
		if len(c.o.Only) > 0 && !slices.Contains(c.o.Only, t.Name) {
			continue
		}
		if len(tools) == maxTools {
			return nil, fmt.Errorf("mcp: %s: %w: it has more than %d tools: name those you want with only", c.where, ErrServer, maxTools)
		}
		tool, err := c.tool(t)
		if err != nil {
			return nil, err
		}
		tools = append(tools, tool)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tools, c.listed = tools, now
	return slices.Clone(tools), nil
}

// tool makes an agent's tool of a server's.
func (c *Client) tool(t *mcp.Tool) (llm.Tool, error) {
	t.Title, t.Description = c.hidden.Replace(t.Title), c.hidden.Replace(t.Description)
	params, err := c.described(t.InputSchema)
	if err != nil {
		return llm.Tool{}, fmt.Errorf("mcp: %s: tool %s: %w: %w", c.where, t.Name, llm.ErrBadSchema, err)
	}
	out := llm.Tool{
		Name: c.o.Prefix + t.Name, Doc: words(t.Description, maxDoc), Params: params,
		Effect: llm.Write, Origin: c.origin(), Timeout: c.o.Timeout,
		Do: func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
			return c.call(ctx, t.Name, args)
		},
	}
	if out.Doc == "" {
		out.Doc = words(t.Title, maxDoc)
	}
	if slices.Contains(c.o.Read, t.Name) {
		out.Effect = llm.Read
	}
	return out, nil
}

// What a server says of its tools stands in every prompt, so it is bounded: so
// many tools of a server, and so many bytes of what it says of a tool, of one
// parameter, and of a name or a choice of a parameter.
const (
	maxTools  = 64
	maxDoc    = 300
	maxParam  = 120
	maxChoice = 64
	maxDepth  = 6 // of objects in objects
)

// words are a server's, marked as such and quoted.
func words(s string, most int) string {
	s = strings.TrimSpace(s)
	if s == "" {
		return ""
	}
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return "The server says: " + llm.Data(strings.Join(strings.Fields(s), " "))
}

// origin names the server as the words of its tools are labelled.
func (c *Client) origin() origin.Label {
	if command, stdio := strings.CutPrefix(c.where, "stdio:"); stdio {
		return origin.Of("mcp:" + filepath.Base(strings.Fields(command)[0]))
	}
	if u, err := url.Parse(c.where); err == nil {
		return origin.Of("mcp:" + u.Host)
	}
	return "mcp:server"
}

// described is a server's schema as a small model can be held to it, its words
// quoted.
func (c *Client) described(foreign any) (json.RawMessage, error) {
	text, err := json.Marshal(foreign)
	if err != nil {
		return nil, err
	}
	s, err := schema.ParseLoose([]byte(c.hidden.Replace(string(text))))
	if err != nil {
		return nil, err
	}
	if s, err = quoted(s.Bound(), 0); err != nil {
		return nil, err
	}
	return schema.Encode(s)
}

// quoted quotes what a schema says in words. What can't be quoted, because it is
// passed on as it stands, is left out unless it is plain: choices and defaults,
// patterns, parameters that need not be given. The server checks what it gets.
func quoted(from *schema.Schema, depth int) (*schema.Schema, error) {
	s := *from
	s.Doc = words(s.Doc, maxParam)
	if s.HasDefault && !plain(s.Default) {
		s.HasDefault, s.Default = false, nil
	}
	if !plain(s.Pattern) {
		s.Pattern = ""
	}
	for _, choice := range s.Enum {
		if !plain(choice) {
			s.Enum = nil
			break
		}
	}
	if depth >= maxDepth && (s.Properties != nil || s.Items != nil) {
		return nil, fmt.Errorf("its parameters are nested more than %d deep", maxDepth)
	}
	var err error
	if s.Items != nil {
		if s.Items, err = quoted(s.Items, depth+1); err != nil {
			return nil, err
		}
	}
	kept := make([]schema.Property, 0, len(s.Properties))
	for _, p := range s.Properties {
		switch {
		case plain(p.Name):
			if p.Schema, err = quoted(p.Schema, depth+1); err != nil {
				return nil, err
			}
			kept = append(kept, p)
		case p.Required:
			return nil, fmt.Errorf("parameter %q: that is no name", clip(p.Name))
		}
	}
	if s.Properties != nil {
		s.Properties = kept
	}
	return s.Bound(), nil
}

// plain reports whether a value can stand in a prompt as it is: short, on one
// line, without marks of chat templates.
func plain(v any) bool {
	text, ok := v.(string)
	if !ok {
		b, err := schema.Encode(v)
		if err != nil {
			return false
		}
		text = string(b)
	}
	return len(text) <= maxChoice && llm.Line(text) == text
}

func clip(s string) string {
	if len(s) > maxChoice {
		return strings.ToValidUTF8(s[:maxChoice], "") + "…"
	}
	return s
}

// call runs a tool on the server. What the server calls an error is one, with
// its words.
func (c *Client) call(ctx context.Context, name string, args json.RawMessage) (json.RawMessage, error) {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	s, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
	if errors.Is(err, mcp.ErrConnectionClosed) && ctx.Err() == nil {
		// It is gone, perhaps after it had acted: a second call could act twice.
		c.drop(s)
	}
	if err != nil {
		return nil, c.failed("call "+name, err)
	}
	words := c.hidden.Replace(text(res.Content))
	if res.IsError {
		return nil, fmt.Errorf("%s: %s", name, words)
	}
	if res.StructuredContent != nil {
		out, err := json.Marshal(res.StructuredContent)
		return json.RawMessage(c.hidden.Replace(string(out))), err
	}
	return json.Marshal(words)
}

// text puts the words of a result together and names what is no text.
func text(content []mcp.Content) string {
	var parts []string
	for _, c := range content {
		switch c := c.(type) {
		case *mcp.TextContent:
			parts = append(parts, c.Text)
		case *mcp.ImageContent:
			parts = append(parts, "(an image, "+c.MIMEType+")")
		case *mcp.AudioContent:
			parts = append(parts, "(a sound, "+c.MIMEType+")")
		case *mcp.ResourceLink:
			parts = append(parts, "(see "+c.URI+")")
		case *mcp.EmbeddedResource:
			if c.Resource != nil && c.Resource.Text != "" {
				parts = append(parts, c.Resource.Text)
			}
		}
	}
	return strings.Join(parts, "\n")
}

// connect gives the session, and makes one if there is none that lives.
func (c *Client) connect(ctx context.Context) (*mcp.ClientSession, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("mcp: %s: %w: closed", c.where, ErrServer)
	}
	if c.session != nil {
		return c.session, nil
	}
	limit, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "edged", Version: c.o.Version}, &mcp.ClientOptions{
		Capabilities:           &mcp.ClientCapabilities{},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { c.changed() },
	})
	s, err := client.Connect(limit, c.transport(), nil)
	if err != nil {
		return nil, c.failed("connect", err)
	}
	c.session = s
	return s, nil
}

func (c *Client) changed() {
	c.mu.Lock()
	c.changes++
	c.mu.Unlock()
}

func (c *Client) transport() mcp.Transport {
	command, stdio := strings.CutPrefix(c.where, "stdio:")
	if stdio {
		words := strings.Fields(command)
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Env = append(inherited(), c.o.Env...)
		return &mcp.CommandTransport{Command: cmd, TerminateDuration: time.Second}
	}
	return &mcp.StreamableClientTransport{
		Endpoint: c.where, MaxRetries: -1, MaxEventSize: 4 << 20,
		HTTPClient: wire.HTTP(c.o.Header, http.DefaultTransport),
	}
}

// inherited is what a program needs of the environment to run at all. The rest
// is not its business: the robot's own may hold tokens.
func inherited() (env []string) {
	for _, name := range []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// drop forgets a session that broke.
func (c *Client) drop(s *mcp.ClientSession) {
	c.mu.Lock()
	if c.session == s {
		c.session = nil
		c.changes++
	}
	c.mu.Unlock()
	_ = s.Close()
}

func (c *Client) failed(doing string, err error) error {
	if said := err.Error(); c.hidden.Replace(said) != said { // nobody decides by what is behind it
		err = errors.New(c.hidden.Replace(said))
	}
	return fmt.Errorf("mcp: %s: %s: %w: %w", c.where, doing, ErrServer, err)
}

// Close ends the connection and the program of a stdio server.
func (c *Client) Close() error {
	c.mu.Lock()
	s := c.session
	c.session, c.closed = nil, true
	c.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.Close()
}
