package lib

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"edged/bus/origin"

	"go.starlark.net/starlark"

	"edged/blackboard"
	"edged/starlark/script"
	"edged/starlark/value"
)

var requestRows = []row{
	{value.Func{
		Name: "bb.post_request", Doc: "Asks for a task to be done by whoever volunteers for the key, now or later, and returns at once.",
		Example: "fut = bb.post_request(\"guard/goto\", {\"room\": \"kitchen\"}, timeout = \"1m\")\nlog.info(fut.result())",
		Params: []value.Param{
			{Name: "request_key", Type: value.String, Required: true, Positional: true, Doc: "What is asked for."},
			{Name: "task", Type: value.Data, Required: true, Positional: true, Doc: "What is to be done."},
			{Name: "timeout", Type: value.Duration, Default: "5s", Doc: "When to give up; 0 is never."},
			{Name: "durable", Type: value.Bool, Default: false, Doc: "The request survives a restart and is offered again."},
			{Name: "reply_key", Type: value.String, Doc: "A key where the answer is stored, too."},
		},
		Returns: "a future of the answer",
	}, (*Behaviour).postRequest},
	{value.Func{
		Name: "bb.reply_to", Doc: "Answers a request. Only the first answer counts.",
		Example: "def on_plan(key, old, request):\n    bb.reply_to(request, [\"open\", \"grab\"])\n\nbb.watch(\"guard/plan\", on_plan)",
		Params: []value.Param{requestParam,
			{Name: "result", Type: value.Data, Required: true, Positional: true, Doc: "The answer."}},
		Returns: "whether it was the first",
	}, (*Behaviour).replyTo},
	{value.Func{
		Name: "bb.fail", Doc: "Gives up on a request for its poster, whose future fails with the reason.",
		Example: "bb.fail(request, \"the door is closed\")",
		Params: []value.Param{requestParam,
			{Name: "reason", Type: value.String, Required: true, Positional: true, Doc: "Why."}},
		Returns: "whether nobody had answered before",
	}, (*Behaviour).failRequest},
	{value.Func{
		Name: "bb.volunteer", Doc: "Answers the requests of a key, those that wait already first. A request is claimed before the handler runs; if it fails, the request is offered again, the third time it fails with the error. What the handler returns is the answer; Declined(reason) fails the request, PASS leaves it to others.",
		Example: "bb.volunteer(\"guard/plan\", lambda request: plan(request.task), accept = lambda task: task[\"goal\"] == \"pick cup\")",
		Params: []value.Param{
			{Name: "request_key", Type: value.String, Required: true, Positional: true, Doc: "The key whose requests it answers."},
			{Name: "handler", Type: value.Callable, Required: true, Positional: true, Doc: "Called with the request; it returns the answer."},
			{Name: "accept", Type: value.Callable, Doc: "Asked with the task; False leaves the request to others."},
			{Name: "concurrency", Type: value.Between(value.Int, 1, 1000), Default: 1, Doc: "How many requests at a time."},
			{Name: "lease", Type: value.Duration, Default: "30s", Doc: "After that a request is offered to others, too."},
			{Name: "name", Type: value.String, Doc: "Who answers; the handler's name if missing."},
		},
		Returns: "a volunteer",
	}, (*Behaviour).volunteer},
	{value.Func{
		Name: "bb.pending", Doc: "Returns the open requests of a key, oldest first.", Example: "n = len(bb.pending(\"guard/goto\"))",
		Params:  []value.Param{{Name: "request_key", Type: value.String, Required: true, Positional: true, Doc: "The key."}},
		Returns: "a list of requests",
	}, (*Behaviour).pendingRequests},
}

var requestParam = value.Param{Name: "request", Type: requestKind.Type(), Required: true, Positional: true, Doc: "The request."}

// request is a posted request as scripts see it.
type request struct {
	*blackboard.Request
	b *Behaviour
}

var requestKind = &value.Kind[*request]{
	Name: "request",
	Doc:  "A task that waits for somebody to do it; request[\"key\"] is a key of the task.",
	Attrs: []value.Attr[*request]{
		{Name: "id", Doc: "Its number.", Type: value.Int, Get: func(r *request) (any, error) { return int64(r.ID), nil }},
		{Name: "key", Doc: "The key it was posted to.", Type: value.String, Get: func(r *request) (any, error) { return r.Key, nil }},
		{Name: "task", Doc: "What is to be done.", Get: func(r *request) (any, error) { return r.Task, nil }},
		{Name: "from_agent", Doc: "Who posted it.", Type: value.String, Get: func(r *request) (any, error) { return r.From, nil }},
		{Name: "time", Doc: "When it was posted.", Get: func(r *request) (any, error) { return r.Posted(), nil }},
		{Name: "deadline", Doc: "When its poster gives up; None if never.", Get: func(r *request) (any, error) {
			if t, ok := r.Deadline(); ok {
				return t, nil
			}
			return nil, nil
		}},
	},
	String: func(r *request) string { return fmt.Sprintf("request(%s, id = %d)", r.Key, r.ID) },
	Tree:   func(r *request) (any, error) { return r.Request.Tree(), nil },
	Index: func(r *request, key string) (any, bool) {
		m, _ := r.Task.(map[string]any)
		v, ok := m[key]
		return v, ok
	},
	Key: func(r *request) string { return fmt.Sprint(r.ID) },
}

func (b *Behaviour) postRequest(c *value.Call) (starlark.Value, error) {
	if err := acts(c); err != nil {
		return nil, err
	}
	key := c.String("request_key")
	if err := b.mayChange(c, "bb", key); err != nil {
		return nil, err
	}
	if rk := c.String("reply_key"); rk != "" {
		if err := b.mayChange(c, "bb", rk); err != nil {
			return nil, err
		}
	}
	task, err := c.Tree("task")
	if err != nil {
		return nil, err
	}
	f, err := b.host.Board.Post(c.Context(), b.source(c), key, task, blackboard.PostOptions{
		Timeout: c.Duration("timeout"), Durable: c.Bool("durable"), ReplyKey: c.String("reply_key"),
	})
	if err != nil {
		return nil, err
	}
	return b.future(f, fmt.Sprintf("request %q", key)), nil
}

func (b *Behaviour) replyTo(c *value.Call) (starlark.Value, error) {
	r := requestKind.Arg(c, "request")
	if err := b.mayChange(c, "bb", r.Key); err != nil {
		return nil, err
	}
	v, err := c.Tree("result")
	if err != nil {
		return nil, err
	}
	return starlark.Bool(b.host.Board.Reply(c.Context(), b.source(c), r.Request, v)), nil
}

func (b *Behaviour) failRequest(c *value.Call) (starlark.Value, error) {
	r := requestKind.Arg(c, "request")
	if err := b.mayChange(c, "bb", r.Key); err != nil {
		return nil, err
	}
	return starlark.Bool(b.host.Board.Fail(c.Context(), b.source(c), r.Request, c.String("reason"))), nil
}

func (b *Behaviour) pendingRequests(c *value.Call) (starlark.Value, error) {
	key := c.String("request_key")
	if err := b.may(c, "bb", key); err != nil {
		return nil, err
	}
	var list []starlark.Value
	for _, r := range b.host.Board.Pending(key) {
		hears(c, r.Origin, r.Task)
		list = append(list, requestKind.Wrap(&request{r, b}))
	}
	return starlark.NewList(list), nil
}

// volunteer is a declared volunteer.
type volunteer struct {
	b      *Behaviour
	cb     *callback
	accept *callback
	at     script.Position
	key    string
	source string
	opt    blackboard.VolunteerOptions
	life   context.Context
	made   origin.Label // whose words it was declared with

	runs, refused, errors atomic.Uint64

	mu     sync.Mutex // guards the rest
	v      *blackboard.Volunteer
	since  uint64 // number of the last event before it
	closed bool
}

func (b *Behaviour) volunteer(c *value.Call) (starlark.Value, error) {
	v := &volunteer{b: b, at: where(c), made: declaredBy(c), key: c.String("request_key")}
	if err := b.mayChange(c, "bb", v.key); err != nil {
		return nil, err
	}
	var err error
	if v.cb, err = newCallback(c, "handler", "request"); err != nil {
		return nil, err
	}
	if v.accept, err = newCallback(c, "accept", "task"); err != nil {
		return nil, err
	}
	v.source = b.scriptSource(v.cb.at.File)
	v.opt = blackboard.VolunteerOptions{Name: c.String("name"), Concurrency: c.Int("concurrency"), Lease: c.Duration("lease")}
	if v.opt.Lease < time.Millisecond {
		return nil, c.Errorf("lease", "argument \"lease\": want 1 ms or more, got %v", v.opt.Lease)
	}
	if v.opt.Name == "" {
		v.opt.Name = v.source + ":" + v.cb.name
	}
	if v.accept != nil {
		v.opt.Accept = v.accepts
	}
	if err := b.attach(c, v); err != nil {
		return nil, err
	}
	return volunteerKind.Wrap(v), nil
}

func (v *volunteer) start() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed || v.v != nil {
		return nil
	}
	v.life = script.WithRole(v.b.life, "volunteer for "+v.key)
	v.since = v.b.host.Bus.Seq()
	vol, err := v.b.host.Board.Volunteer(v.key, v.opt, v.handle)
	v.v = vol
	return err
}

func (v *volunteer) close() {
	v.mu.Lock()
	v.closed = true
	vol := v.v
	v.mu.Unlock()
	if vol != nil {
		vol.Close()
	}
	v.b.forget(v)
}

func (v *volunteer) accepts(task any) (bool, error) {
	t, err := value.FromGo(task)
	if err != nil {
		return false, err
	}
	r := &run{Context: v.b.life, b: v.b, source: v.source, pure: inAccept}
	ok, err := v.b.ask(r, v.accept, t)
	if err != nil {
		v.errors.Add(1)
		return false, err
	}
	if !ok.Truth() {
		v.refused.Add(1)
	}
	return bool(ok.Truth()), nil
}

// handle answers one request. Its context ends with the request and with the
// volunteer; then the request is offered to others, the next version of the
// script say.
func (v *volunteer) handle(ctx context.Context, q *blackboard.Request) (any, error) {
	b := v.b
	if !b.runs.enter(0) {
		return nil, blackboard.ErrPass
	}
	defer b.runs.leave(0)
	r := &run{Context: script.WithRole(ctx, "volunteer for "+v.key), b: b, source: v.source, more: &more{task: q.Task}}
	v.runs.Add(1)
	b.into(ctx, v.made)
	got, err := b.do(r, v.cb, requestKind.Wrap(&request{q, b}))
	if err != nil {
		v.errors.Add(1)
		return nil, err
	}
	if got == passValue {
		v.refused.Add(1)
		return nil, blackboard.ErrPass
	}
	if d, err := declinedKind.Unwrap(got); err == nil {
		b.host.Board.Fail(ctx, v.source, q, string(d))
		return nil, nil
	}
	answer, err := value.ToGo(got)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the answer of %s", v.cb), err)
	}
	return answer, nil
}

var volunteerKind = &value.Kind[*volunteer]{
	Name: "volunteer",
	Doc:  "One who answers the requests of a key.",
	Methods: []value.Method[*volunteer]{{
		Func: value.Func{Name: "close", Doc: "Ends volunteering; what it works on is offered to others."},
		Do: func(v *volunteer, c *value.Call) (starlark.Value, error) {
			v.close()
			return nil, nil
		},
	}},
}
