package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"edged/agent/llm"
	"edged/agent/llm/schema"
)

// Origin is whose words arguments from a client are, as in agent.Task: nobody's
// that a robot trusts.
const Origin = "mcp"

// Offer is what a robot gives to other programs.
type Offer struct {
	Name, Version string
	Doc           string // what the robot is, told to the client's model
	// Tools lists what may be called; it is asked once per connection.
	Tools func() []llm.Tool
	// Gate lets a Write tool act or not; nil refuses them all.
	Gate func(ctx context.Context, t llm.Tool, c llm.Call) error
	// Keys and Get give what may be read, board keys say; nil = nothing.
	Keys func() iter.Seq[string]
	Get  func(key string) (any, bool)
}

// Serve talks to one client over a pair of streams, newline-delimited, until
// the client leaves or ctx ends.
func (o Offer) Serve(ctx context.Context, r io.ReadCloser, w io.WriteCloser) error {
	err := o.server().Run(ctx, &mcp.IOTransport{Reader: r, Writer: w, MaxLineLength: 4 << 20})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("mcp: serve: %w", err)
	}
	return nil
}

// Handler serves clients over the streamable HTTP transport. Who may reach it
// is the caller's matter.
func (o Offer) Handler() http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return o.server() }, nil)
}

func (o Offer) server() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: o.Name, Version: o.Version}, &mcp.ServerOptions{Instructions: o.Doc})
	if o.Tools != nil {
		for _, t := range o.Tools() {
			o.add(s, t)
		}
	}
	if o.Get != nil {
		o.addBoard(s)
	}
	return s
}

func (o Offer) add(s *mcp.Server, t llm.Tool) {
	params := t.Params
	if params == nil {
		params = json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)
	}
	write := t.Effect == llm.Write
	s.AddTool(&mcp.Tool{
		Name: t.Name, Description: t.Doc, InputSchema: params,
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: !write, DestructiveHint: &write},
	}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		out, err := o.call(ctx, t, r.Params.Arguments)
		if err != nil {
			return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: err.Error()}}}, nil
		}
		return result(out), nil
	})
}

// call runs a tool for a client under the rules that hold for a model: the
// arguments fit, and what acts passes the gate.
func (o Offer) call(ctx context.Context, t llm.Tool, args json.RawMessage) (json.RawMessage, error) {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	if t.Params != nil {
		s, err := schema.ParseLoose(t.Params)
		if err != nil {
			return nil, err
		}
		v, err := schema.Decode(args)
		if err != nil {
			return nil, fmt.Errorf("the arguments are no JSON: %w", err)
		}
		v = s.Coerce(v)
		if err := s.Validate(v); err != nil {
			return nil, fmt.Errorf("%w; %s", err, s.Prose())
		}
		if args, err = schema.Encode(v); err != nil {
			return nil, err
		}
	}
	c := llm.Call{ID: Origin, Name: t.Name, Args: args}
	if t.Effect == llm.Write {
		if o.Gate == nil {
			return nil, fmt.Errorf("%s acts on the world, and other programs may only look", t.Name)
		}
		if err := o.Gate(ctx, t, c); err != nil {
			return nil, err
		}
	}
	if t.Confirm != nil {
		if err := t.Confirm(ctx, c); err != nil {
			return nil, err
		}
	}
	if t.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.Timeout)
		defer cancel()
	}
	return t.Do(ctx, args)
}

// result gives text as text and objects in both forms, as the protocol wants.
func result(out json.RawMessage) *mcp.CallToolResult {
	r := &mcp.CallToolResult{}
	var words string
	if json.Unmarshal(out, &words) != nil {
		words = string(out)
	}
	if trimmed := strings.TrimSpace(string(out)); strings.HasPrefix(trimmed, "{") {
		r.StructuredContent = out
	}
	r.Content = []mcp.Content{&mcp.TextContent{Text: words}}
	return r
}

const boardScheme = "board://"

// addBoard offers the board's keys as resources.
func (o Offer) addBoard(s *mcp.Server) {
	read := func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		key, ours := strings.CutPrefix(r.Params.URI, boardScheme)
		v, ok := o.Get(key)
		if !ours || !ok {
			return nil, mcp.ResourceNotFoundError(r.Params.URI)
		}
		text, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, MIMEType: "application/json", Text: string(text)}}}, nil
	}
	s.AddResourceTemplate(&mcp.ResourceTemplate{
		Name: "board", Description: "what the robot knows, a key of its blackboard", URITemplate: boardScheme + "{+key}", MIMEType: "application/json",
	}, read)
	if o.Keys == nil {
		return
	}
	for key := range o.Keys() {
		s.AddResource(&mcp.Resource{Name: key, URI: boardScheme + key, MIMEType: "application/json"}, read)
	}
}
