package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"edged/agent"
	"edged/agent/llm"
	"edged/agent/llm/mcp"
	"edged/bus/origin"
	"edged/cmd/edged/internal/config"
	"edged/starlark/lib"
)

// The verb mcp and its side in the running robot: other programs use its tools,
// read its blackboard and talk to its agents. And the other way round: the
// servers whose tools this robot uses.

// mcpRequest is what the client may do.
type mcpRequest struct {
	Act bool `json:"act,omitempty"` // call tools that move or send something
}

// streamMCP serves one client until it leaves.
func (r *robot) streamMCP(ctx context.Context, with json.RawMessage, c io.ReadWriteCloser) error {
	var q mcpRequest
	if err := json.Unmarshal(with, &q); err != nil {
		return err
	}
	o := mcp.Offer{
		Name: r.cfg.Name, Version: version,
		Doc:   "A robot. Its tools act in the real world; resources board://KEY are what it knows.",
		Tools: r.offered,
		Keys:  func() iter.Seq[string] { return slices.Values(r.board.Keys("")) },
		Get:   r.board.Get,
	}
	if q.Act {
		if err := r.awaitReady(ctx); err != nil {
			return err
		}
		o.Gate = func(context.Context, llm.Tool, llm.Call) error {
			if record, stopped := r.rig.Stopped(); stopped {
				return fmt.Errorf("the robot is stopped by %s: %s", record.Source, record.Reason)
			}
			return nil
		}
	}
	return o.Serve(ctx, c, c)
}

// offered are the tools of the running behaviour, each with its line in the
// audit, and its agents: their prompts are others' words, so they act only if
// the settings trust "mcp".
func (r *robot) offered() []llm.Tool {
	b := r.scripts.live.Load()
	var out []llm.Tool
	have := map[string]bool{}
	add := func(t llm.Tool) {
		if !have[t.Name] {
			have[t.Name] = true
			out = append(out, r.audited(t))
		}
	}
	for _, t := range b.Tools() {
		add(t.Tool)
	}
	for _, a := range b.Agents() {
		t := llm.AsTool(a, "ask_"+a.Name(), "")
		t.Do = func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
			var in struct{ Task string }
			if err := json.Unmarshal(args, &in); err != nil {
				return nil, err
			}
			if r.words.Stops(in.Task) {
				return json.Marshal(r.stopByWord(ctx, mcp.Origin, in.Task, time.Now()).Reply)
			}
			res, err := agent.Run(ctx, a, agent.Task{Input: in.Task, Origin: mcp.Origin, Conversation: mcp.Origin})
			if err != nil {
				return nil, err
			}
			if res.Reply == "" && res.Output != nil {
				return json.Marshal(res.Output)
			}
			return json.Marshal(res.Reply)
		}
		add(t)
	}
	return out
}

// audited is a tool whose calls by other programs are written down.
func (r *robot) audited(t llm.Tool) llm.Tool {
	do := t.Do
	t.Do = func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
		ctx = origin.With(ctx, mcp.Origin) // the arguments are the client's words
		e := llm.AuditEntry{Agent: mcp.Origin, Origin: mcp.Origin, Tool: t.Name, Args: args}
		var err error
		if e.Of, err = r.audit.Begin(e, t.Effect); err != nil {
			return nil, fmt.Errorf("%s is not run: it can't be written down: %w", t.Name, err)
		}
		out, err := do(ctx, args)
		e.Ran, e.Result = true, out
		if err != nil {
			e.Error = err.Error()
		}
		return out, errors.Join(err, r.audit.Append(e))
	}
	return t
}

func (c *cli) mcpVerb() *cobra.Command {
	var q mcpRequest
	cmd := verb("mcp", "Serve the running robot's tools to other programs", 0, 0, func(cmd *cobra.Command, args []string) error {
		cl, err := c.dial()
		if err != nil {
			return err
		}
		defer cl.Close()
		conn, err := cl.Take("mcp", q)
		if err != nil {
			return err
		}
		return relay(cmd.Context(), conn, c.in, c.out)
	})
	cmd.Long = "Speaks the Model Context Protocol on standard input and output, for programs that use such servers: the tools of the\nrobot's agents, its agents themselves, and the keys of its blackboard as resources.\nWithout --act only tools that move and send nothing are run."
	cmd.Example = `{"mcpServers": {"robot": {"command": "edged", "args": ["--socket", "/home/pi/robot/.edged/edged.sock", "mcp"]}}}`
	cmd.Flags().BoolVar(&q.Act, "act", false, "let the client call tools that move or send something")
	return cmd
}

// relay joins a connection to standard input and output until either side
// ends. The end of the input is told to the robot, whose last words are read.
func relay(ctx context.Context, conn io.ReadWriteCloser, in io.Reader, out io.Writer) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	go func() { // may outlive this: a read of standard input can't be ended
		_, _ = io.Copy(conn, in)
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}()
	_, err := io.Copy(out, conn)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// peers are the MCP servers whose tools scripts use, by address and what they
// are sent.
type peers struct {
	mu      sync.Mutex // guards clients
	clients map[string]*mcp.Client
}

// tools lists those of a server; it connects when first needed.
func (p *peers) tools(ctx context.Context, s lib.ToolServer) ([]llm.Tool, error) {
	o := mcp.Options{Version: version, Hide: s.Hide, Header: http.Header{}}
	for _, name := range config.Names(s.Env) {
		o.Env = append(o.Env, name+"="+s.Env[name])
	}
	for name, v := range s.Header {
		o.Header.Set(name, v)
	}
	address := fmt.Sprint(s.Address, o.Env, s.Header)
	p.mu.Lock()
	c := p.clients[address]
	if c == nil {
		var err error
		if c, err = mcp.New(s.Address, o); err != nil {
			p.mu.Unlock()
			return nil, err
		}
		if p.clients == nil {
			p.clients = map[string]*mcp.Client{}
		}
		p.clients[address] = c
	}
	p.mu.Unlock()
	return c.Tools(ctx)
}

// close ends the connections, and the programs that were started.
func (p *peers) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, c := range slices.Collect(maps.Values(p.clients)) {
		errs = append(errs, c.Close())
	}
	p.clients = nil
	return errors.Join(errs...)
}
