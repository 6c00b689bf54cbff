package main

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"edged/bus/trace"
	"edged/cmd/edged/internal/control"
	"edged/cmd/edged/internal/web"
	"edged/hw"
	"edged/starlark/value"
)

// What is where on the page: a handler of the socket for each path, and how its
// request is made from that of HTTP. What has no verb of its own is here, too.

func (r *robot) pageRoutes() map[string]web.Route {
	routes := map[string]web.Route{
		"GET /api/v1/status":      {Do: r.handleStatus},
		"GET /api/v1/inspect":     {Do: r.alone(r.handleInspect), With: nothing},
		"GET /api/v1/graph":       {Do: r.handlePictures, With: byName(func(n string) any { return graphRequest{n} })},
		"GET /api/v1/why":         {Do: r.alone(r.handleWhy), With: byName(func(n string) any { return whyRequest{n} })},
		"GET /api/v1/questions":   {Do: r.handleQuestions},
		"GET /api/v1/devices":     {Do: r.handleDevices},
		"GET /api/v1/agents":      {Do: r.handleAgents},
		"GET /api/v1/models":      {Do: r.handleModels},
		"GET /api/v1/trace":       {Do: r.alone(r.handleTold), With: toldAsked},
		"GET /api/v1/trace/{seq}": {Do: r.alone(r.handleTold), With: func(q *web.Query) (any, error) { return toldRequest{Event: q.Path("seq")}, nil }},
		"POST /api/v1/test":       {Do: r.handleSaveTest, With: testAsked},
	}
	for _, list := range []map[string]web.Route{r.boardRoutes(), r.runRoutes(), r.actions(), r.pageViews()} {
		for path, route := range list {
			routes[path] = route
		}
	}
	return routes
}

// alone has one at a time of those that read the whole record, which may be
// large, and the machine small.
func (r *robot) alone(do control.Handler) control.Handler {
	return func(ctx context.Context, with json.RawMessage, send func(any) error) error {
		select {
		case r.page.reading <- struct{}{}:
			defer func() { <-r.page.reading }()
			return do(ctx, with, send)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *robot) boardRoutes() map[string]web.Route {
	return map[string]web.Route{
		"GET /api/v1/board":          {Do: r.handleBB, With: func(q *web.Query) (any, error) { return bbRequest{Op: "show", Key: q.Get("prefix")}, nil }},
		"GET /api/v1/board/{key...}": {Do: r.handleEntry, With: entryAsked},
		"POST /api/v1/board":         {Do: r.afterReady(r.handleBB), With: boardAsked},
	}
}

func (r *robot) runRoutes() map[string]web.Route {
	runs := func(op string) func(*web.Query) (any, error) {
		return func(q *web.Query) (any, error) { return runsRequest{Op: op, ID: q.Path("id"), As: q.Get("as")}, nil }
	}
	return map[string]web.Route{
		"GET /api/v1/runs":            {Do: r.handleRuns, With: runs("list")},
		"GET /api/v1/runs/{id}":       {Do: r.handleRuns, With: runs("show")},
		"GET /api/v1/turns":           {Do: r.handleRuns, With: runs("turns")},
		"GET /api/v1/turns/{id}":      {Do: r.handleRuns, With: runs("turns")},
		"POST /api/v1/runs/{id}/{op}": {Do: r.afterReady(r.handleRuns), With: runChanged},
	}
}

// actions are what a person does; most are there as a form, too, that needs no
// JavaScript.
func (r *robot) actions() map[string]web.Route {
	back := func(any) string { return "" }
	return map[string]web.Route{
		"POST /api/v1/stop":    {Do: r.handleStop, With: stopAsked},
		"POST /api/v1/resume":  {Do: r.handleResume, With: nothing},
		"POST /api/v1/ask":     {Do: r.handleSaid, With: asked, Lines: streamed},
		"POST /api/v1/answer":  {Do: r.handleAnswer, With: answeredWith},
		"POST /api/v1/confirm": {Do: r.handleConfirm, With: confirmed},
		"POST /api/v1/events":  {Do: r.handlePub, Fail: http.StatusBadRequest},
		"POST /stop":           {Do: r.handleStop, With: stopAsked, Form: stopSaid},
		"POST /resume":         {Do: r.handleResume, With: nothing, Form: back},
		"POST /ask":            {Do: r.handleSaid, With: asked, Form: replied},
		"POST /answer":         {Do: r.handleAnswer, With: answeredWith, Form: back},
		"POST /confirm":        {Do: r.handleConfirm, With: confirmed, Form: back},
	}
}

func nothing(*web.Query) (any, error) { return struct{}{}, nil }

// byName makes a request of the parameter name.
func byName(make func(name string) any) func(*web.Query) (any, error) {
	return func(q *web.Query) (any, error) { return make(q.Get("name")), nil }
}

// stopAsked is a stop whatever it says.
func stopAsked(q *web.Query) (any, error) {
	s := stopRequest{Reason: q.Get("reason")}
	_ = q.Into(&s)
	if s.Reason == "" {
		s.Reason = "the page"
	}
	return s, nil
}

// stopSaid leads back to the page, unless something did not stop.
func stopSaid(last any) string {
	m, _ := last.(map[string]any)
	if trouble, ok := m["error"].(string); ok {
		return "stopped, but: " + trouble
	}
	return ""
}

// asked are a person's words.
func asked(q *web.Query) (any, error) {
	a := askRequest{Text: q.Get("text"), Agent: q.Get("agent")}
	if err := q.Into(&a); err != nil {
		return nil, err
	}
	if a.Text = strings.TrimSpace(a.Text); a.Text == "" {
		return nil, control.Usagef("ask: nothing was said")
	}
	return a, nil
}

func streamed(q *web.Query) bool {
	var a askRequest
	return q.Into(&a) == nil && a.Stream
}

// replied is the answer to words of a form.
func replied(last any) string {
	res, ok := last.(*askResult)
	if !ok {
		return ""
	}
	var b strings.Builder
	res.tell(&b, "")
	return b.String()
}

func answeredWith(q *web.Query) (any, error) {
	a := struct{ ID, Answer string }{q.Get("id"), q.Get("answer")}
	if err := q.Into(&a); err != nil {
		return nil, err
	}
	if a.ID == "" || strings.TrimSpace(a.Answer) == "" {
		return nil, control.Usagef("answer: want the id of a question, and an answer")
	}
	return answerRequest{ID: a.ID, Words: []string{a.Answer}}, nil
}

func confirmed(q *web.Query) (any, error) {
	a := struct {
		ID  string
		Yes *bool
	}{ID: q.Get("id")}
	if said := q.Get("yes"); said != "" {
		yes := said == "yes" || said == "true"
		a.Yes = &yes
	}
	if err := q.Into(&a); err != nil {
		return nil, err
	}
	if a.ID == "" || a.Yes == nil {
		return nil, control.Usagef("confirm: want the id of a question, and yes: true or false")
	}
	return confirmRequest{ID: a.ID, Yes: *a.Yes}, nil
}

// entryAsked is a key of the board, or its past.
func entryAsked(q *web.Query) (any, error) {
	r := bbRequest{Op: "get", Key: q.Path("key")}
	if n := q.Get("history"); n != "" {
		var err error
		if r.N, err = strconv.Atoi(n); err != nil || r.N < 1 {
			return nil, control.Usagef("bb: history is a number of values, not %q", n)
		}
		r.Op = "history"
	}
	return r, nil
}

func (r *robot) handleEntry(ctx context.Context, with json.RawMessage, send func(any) error) error {
	var q bbRequest
	if err := json.Unmarshal(with, &q); err != nil || q.Op != "get" {
		return r.handleBB(ctx, with, send)
	}
	e, ok := r.board.Entry(q.Key)
	if !ok {
		return r.noKey(q.Key)
	}
	return send(shown(e))
}

// boardAsked is a change of the board.
func boardAsked(q *web.Query) (any, error) {
	var a struct {
		Op, Key, Mode, TTL string
		Value              json.RawMessage
	}
	if err := q.Into(&a); err != nil {
		return nil, err
	}
	r := bbRequest{Op: cmp.Or(a.Op, "set"), Key: a.Key, Value: a.Value, Mode: a.Mode}
	_, mode := modes[a.Mode]
	switch {
	case !slices.Contains([]string{"set", "delete", "incr"}, r.Op):
		return nil, control.Usagef("bb: unknown change %q; there are set, delete and incr", r.Op)
	case r.Key == "":
		return nil, control.Usagef("bb: want a key")
	case !mode:
		return nil, control.Usagef("bb: unknown mode %q; use memory, group or sync", a.Mode)
	case r.Op == "set" && len(r.Value) == 0:
		return nil, control.Usagef("bb: want a value")
	case r.Op == "incr" && len(r.Value) == 0:
		r.Value = json.RawMessage("1")
	}
	if a.TTL != "" {
		var err error
		if r.TTL, err = value.ParseDuration(a.TTL); err != nil {
			return nil, control.Usagef("bb: ttl: %v", err)
		}
	}
	return r, nil
}

// runChanged is what is to become of a run.
func runChanged(q *web.Query) (any, error) {
	r := runsRequest{}
	if err := q.Into(&r); err != nil {
		return nil, err
	}
	r.Op, r.ID = q.Path("op"), q.Path("id")
	if ops := []string{"resume", "cancel", "fork", "decide", "forget"}; !slices.Contains(ops, r.Op) {
		return nil, &web.Error{Status: http.StatusNotFound, Msg: "runs: nothing is called " + r.Op + "; there are " + strings.Join(ops, ", ")}
	}
	return r, nil
}

// handleSaid is ask: with stream every piece, else the result alone.
func (r *robot) handleSaid(ctx context.Context, with json.RawMessage, send func(any) error) error {
	var q askRequest
	if err := json.Unmarshal(with, &q); err != nil || q.Stream {
		return r.handleAsk(ctx, with, send)
	}
	return r.handleAsk(ctx, with, func(v any) error {
		if p, ok := v.(askPart); ok && p.Result != nil {
			return send(p.Result)
		}
		return nil
	})
}

// handlePictures is graph as --json prints it.
func (r *robot) handlePictures(_ context.Context, with json.RawMessage, send func(any) error) error {
	list, err := r.pictures(with)
	if err != nil {
		return err
	}
	return send(plainPictures(list))
}

// questions are those that wait for a person.
type questions struct {
	Confirm []openConfirm `json:"confirm"` // calls of tools; yes or no
	Answer  []openInquiry `json:"answer"`  // in words
}

type openConfirm struct {
	question
	Words string `json:"words"`
}

type openInquiry struct {
	inquiry
	Words string `json:"words"`
	Wait  string `json:"wait"`
}

func (r *robot) questions() questions {
	q := questions{Confirm: []openConfirm{}, Answer: []openInquiry{}}
	for _, one := range r.persons.list() {
		q.Confirm = append(q.Confirm, openConfirm{one, one.String()})
	}
	sort.Slice(q.Confirm, func(i, j int) bool { return q.Confirm[i].Until.Before(q.Confirm[j].Until) })
	for _, one := range r.persons.inquiries() {
		q.Answer = append(q.Answer, openInquiry{one, one.String(), one.wait()})
	}
	return q
}

func (r *robot) handleQuestions(_ context.Context, _ json.RawMessage, send func(any) error) error {
	return send(r.questions())
}

func (r *robot) handleDevices(_ context.Context, _ json.RawMessage, send func(any) error) error {
	return send(append([]hw.Status{}, r.rig.Devices()...))
}

// handleModels asks the servers of models how they are.
func (r *robot) handleModels(ctx context.Context, _ json.RawMessage, send func(any) error) error {
	running, _ := r.scripts.behaviour()
	return send(append([]modelState{}, r.servers.look(ctx, modelsOf(running), time.Second)...))
}

// toldRequest is what is asked of the record.
type toldRequest struct {
	Event  string `json:"event,omitempty"` // the number of one, with all that belongs to it
	Filter string `json:"filter,omitempty"`
	Last   string `json:"last,omitempty"` // a duration before its end
	N      int    `json:"n,omitempty"`
	All    bool   `json:"all,omitempty"` // readings that brought nothing about, too
}

func toldAsked(q *web.Query) (any, error) {
	r := toldRequest{Filter: q.Get("filter"), Last: q.Get("last"), All: q.Get("all") != "", N: 200}
	if n := q.Get("n"); n != "" {
		var err error
		if r.N, err = strconv.Atoi(n); err != nil || r.N < 1 {
			return nil, control.Usagef("trace: n is a number of events, not %q", n)
		}
	}
	return r, nil
}

// handleTold is trace as --json prints it.
func (r *robot) handleTold(_ context.Context, with json.RawMessage, send func(any) error) error {
	var q toldRequest
	if err := json.Unmarshal(with, &q); err != nil {
		return control.Usagef("trace: %v", err)
	}
	if err := checkAbout(q.Filter); err != nil {
		return control.Usagef("%v", err)
	}
	lines, err := r.record()
	if err != nil {
		return err
	}
	if q.Last != "" {
		last, err := value.ParseDuration(q.Last)
		if err != nil {
			return control.Usagef("trace: last: %v", err)
		}
		lines = since(lines, last)
	}
	t := trace.Build(lines)
	if q.Event != "" {
		seq, err := strconv.ParseUint(q.Event, 10, 64)
		n := t.Event(seq)
		if err != nil || n == nil {
			return &web.Error{Status: http.StatusNotFound, Msg: "trace: event " + q.Event + " is not in the record"}
		}
		return send(flat([]*trace.Node{n.Root()}))
	}
	list := t.Roots
	if q.Filter != "" {
		list = t.Match(q.Filter)
	} else if !q.All {
		list, _ = telling(list)
	}
	list = list[max(0, len(list)-q.N):]
	if q.Filter == "" {
		return send(flat(list))
	}
	out := []told{}
	for _, n := range list {
		out = append(out, told{n.Line, n.Reason()})
	}
	return send(out)
}
