// Package llmtest checks that a model keeps the contract of [llm.Model].
//
// Its one rule: what holds for one model holds for all; what a model may do
// differently is a field of [Traits], and nothing else is.
//
//	func TestModel(t *testing.T) {
//		llmtest.Run(t, func(t *testing.T) llm.Model { return ollama.New(…) }, llmtest.Traits{
//			Chat:  llmtest.Ask("tell me about the kitchen"),
//			Call:  llmtest.Offer(llmtest.Ask("turn left"), turn),
//			Fails: []llmtest.Failure{{Name: "unknown", Model: nope, Want: llm.ErrUnknownModel}},
//		})
//	}
package llmtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"edged/agent/llm"
)

// Traits are what a model can do and how to make it do it.
type Traits struct {
	// Chat is answered in words. It is asked up to Parallel times by each
	// check, with tools taken away.
	Chat llm.Request
	// Pieces: the answer to Chat comes in at least two pieces. If it does not,
	// cancelling in the middle can't be told from cancelling at the end.
	Pieces bool
	// Call has tools and is answered by a call of one of them. The zero value:
	// the model has no tools.
	Call llm.Request
	// Refuses: asked to call a tool that is not offered the model fails with
	// this error instead of answering in words.
	Refuses error
	// Form is answered under its schema. The zero value: it has no schemas.
	Form llm.Request
	// Fits checks an answer to Form; nil checks the schema's own words: type,
	// properties, required, enum, minimum and maximum.
	Fits func(text string) error
	// Embeds: it is an [llm.Embedder] that works.
	Embeds bool
	// Empty is the error of a request without messages; nil: it answers, or
	// fails with any error of package llm.
	Empty error
	// Parallel is how many requests are made at once; 0 is 8, 1 is none.
	Parallel int
	// Patience is how long one answer may take; 0 is a minute.
	Patience time.Duration
	// Fails are requests that must fail, and how.
	Fails []Failure
}

// Failure is a request that must fail.
type Failure struct {
	Name    string
	Model   func(t *testing.T) llm.Model // nil: as the others
	Request llm.Request                  // without messages: Traits.Chat
	Want    error
}

// Ask makes a request of one sentence of a user.
func Ask(text string) llm.Request {
	return llm.Request{Messages: []llm.Message{{Role: llm.User, Text: text}}}
}

// Offer adds tools to a request.
func Offer(r llm.Request, tools ...llm.Tool) llm.Request {
	r.Tools = append(append([]llm.Tool{}, r.Tools...), tools...)
	return r
}

// Under puts a request under a schema.
func Under(r llm.Request, schema string) llm.Request {
	r.Schema = json.RawMessage(schema)
	return r
}

// Run checks a model. make gives a new one, or the same again; it is called
// once per check.
func Run(t *testing.T, model func(t *testing.T) llm.Model, traits Traits) {
	if traits.Parallel == 0 {
		traits.Parallel = 8
	}
	if traits.Patience == 0 {
		traits.Patience = time.Minute
	}
	c := checks{traits}
	for _, row := range []struct {
		name  string
		check func(t *testing.T, m llm.Model)
	}{
		{"answers", c.answers},
		{"answers without a listener", c.silent},
		{"leaves the request alone", c.untouched},
		{"cancelled before", c.cancelledBefore},
		{"too late before", c.lateBefore},
		{"cancelled in the middle", c.cancelledMid},
		{"listener fails", c.listenerFails},
		{"many at once", c.parallel},
		{"empty request", c.empty},
		{"tool offered", c.offered},
		{"tool not offered", c.notOffered},
		{"tool forbidden", c.forbidden},
		{"schema", c.form},
		{"embeds", c.embeds},
		{"describes itself", c.describes},
	} {
		t.Run(row.name, func(t *testing.T) { row.check(t, model(t)) })
	}
	for _, f := range traits.Fails {
		t.Run("fails/"+f.Name, func(t *testing.T) { c.fails(t, model, f) })
	}
}

type checks struct{ Traits }

func (c checks) context(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), c.Patience)
}

// chat is Traits.Chat without anything to call.
func (c checks) chat() llm.Request {
	r := c.Chat
	r.Tools, r.Choice = nil, ""
	return r
}

// listen keeps the pieces of an answer.
type listen struct{ pieces []string }

func (l *listen) say(text string) error { l.pieces = append(l.pieces, text); return nil }

func (l *listen) text() string { return strings.Join(l.pieces, "") }

func (c checks) answers(t *testing.T, m llm.Model) {
	ctx, cancel := c.context(t)
	defer cancel()
	var l listen
	a, err := m.Chat(ctx, c.chat(), l.say)
	if err != nil {
		t.Fatalf("got error %v, want an answer", err)
	}
	wellFormed(t, a)
	if len(a.Calls) > 0 {
		t.Errorf("got calls %v, want none: no tool was offered", a.Calls)
	}
	same(t, l, a)
	if c.Pieces && len(l.pieces) < 2 {
		t.Errorf("said %q in %d pieces, want at least two", l.text(), len(l.pieces))
	}
	for i, p := range l.pieces {
		if p == "" {
			t.Errorf("piece %d is empty", i)
		}
	}
}

// wellFormed checks an answer in words.
func wellFormed(t *testing.T, a llm.Message) {
	t.Helper()
	if a.Role != llm.Assistant {
		t.Errorf("role is %q, want %q", a.Role, llm.Assistant)
	}
	want := llm.FinishStop
	if len(a.Calls) > 0 {
		want = llm.FinishCall
	} else if strings.TrimSpace(a.Text) == "" {
		t.Error("the answer is empty")
	}
	if a.Finish != want {
		t.Errorf("finish is %q, want %q", a.Finish, want)
	}
	if a.Usage.Calls < 0 || a.Usage.PromptTokens < 0 || a.Usage.OutputTokens < 0 {
		t.Errorf("usage is %+v", a.Usage)
	}
}

// same checks that what was said is what was answered.
func same(t *testing.T, l listen, a llm.Message) {
	t.Helper()
	if got, want := strings.TrimSpace(l.text()), strings.TrimSpace(a.Text); got != want {
		t.Errorf("said %q, want the answer's text %q", got, want)
	}
}

func (c checks) silent(t *testing.T, m llm.Model) {
	ctx, cancel := c.context(t)
	defer cancel()
	a, err := m.Chat(ctx, c.chat(), nil)
	if err != nil {
		t.Fatalf("got error %v, want an answer", err)
	}
	wellFormed(t, a)
}

func (c checks) untouched(t *testing.T, m llm.Model) {
	ctx, cancel := c.context(t)
	defer cancel()
	r := c.chat()
	r.Messages = append(make([]llm.Message, 0, len(r.Messages)+4), r.Messages...)
	before := append([]llm.Message{}, r.Messages...)
	if _, err := m.Chat(ctx, r, nil); err != nil {
		t.Fatalf("got error %v, want an answer", err)
	}
	if !reflect.DeepEqual(r.Messages, before) {
		t.Errorf("the request's messages are %+v, want %+v", r.Messages, before)
	}
	if spare := r.Messages[:len(before)+1][len(before)]; spare.Text != "" || spare.Role != "" {
		t.Errorf("wrote %+v behind the request's messages", spare)
	}
}

func (c checks) cancelledBefore(t *testing.T, m llm.Model) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.ended(t, ctx, m, context.Canceled)
}

func (c checks) lateBefore(t *testing.T, m llm.Model) {
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	c.ended(t, ctx, m, context.DeadlineExceeded)
}

func (c checks) ended(t *testing.T, ctx context.Context, m llm.Model, want error) {
	t.Helper()
	var l listen
	_, err := m.Chat(ctx, c.chat(), l.say)
	if !errors.Is(err, want) {
		t.Errorf("got error %v, want one that wraps %v", err, want)
	}
	if len(l.pieces) > 0 {
		t.Errorf("said %q after the end, want nothing", l.pieces)
	}
}

func (c checks) cancelledMid(t *testing.T, m llm.Model) {
	ctx, cancel := c.context(t)
	defer cancel()
	said := 0
	_, err := m.Chat(ctx, c.chat(), func(string) error { said++; cancel(); return nil })
	if said != 1 {
		t.Errorf("said %d pieces, want only the one in which it was cancelled", said)
	}
	if err == nil && !c.Pieces {
		return // the piece was the whole answer
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want one that wraps %v", err, context.Canceled)
	}
}

func (c checks) listenerFails(t *testing.T, m llm.Model) {
	ctx, cancel := c.context(t)
	defer cancel()
	deaf := errors.New("the listener went away")
	said := 0
	_, err := m.Chat(ctx, c.chat(), func(string) error { said++; return deaf })
	if !errors.Is(err, deaf) {
		t.Errorf("got error %v, want one that wraps %v", err, deaf)
	}
	if said != 1 {
		t.Errorf("said %d pieces, want none after the error", said)
	}
	if ctx.Err() == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		t.Errorf("got error %v, which claims that the context ended", err)
	}
}

func (c checks) parallel(t *testing.T, m llm.Model) {
	if c.Parallel < 2 {
		t.Skip("one at a time")
	}
	ctx, cancel := c.context(t)
	defer cancel()
	type done struct {
		l   listen
		a   llm.Message
		err error
	}
	all := make(chan done)
	for range c.Parallel {
		go func() {
			var d done
			d.a, d.err = m.Chat(ctx, c.chat(), d.l.say)
			all <- d
		}()
	}
	for range c.Parallel {
		d := <-all
		if d.err != nil {
			t.Errorf("got error %v, want an answer", d.err)
			continue
		}
		wellFormed(t, d.a)
		same(t, d.l, d.a)
	}
}

func (c checks) empty(t *testing.T, m llm.Model) {
	ctx, cancel := c.context(t)
	defer cancel()
	a, err := m.Chat(ctx, llm.Request{}, nil)
	switch {
	case c.Empty != nil:
		if !errors.Is(err, c.Empty) {
			t.Errorf("got error %v, want one that wraps %v", err, c.Empty)
		}
	case err == nil:
		wellFormed(t, a)
	case !known(err):
		t.Errorf("got error %v, want one of package llm", err)
	}
}

// known reports whether an error wraps a sentinel of package llm.
func known(err error) bool {
	for _, e := range []error{
		llm.ErrDown, llm.ErrUnknownModel, llm.ErrNoTools, llm.ErrNoThinking, llm.ErrNoEmbedding, llm.ErrCutOff, llm.ErrNoDone, llm.ErrEmpty,
		llm.ErrSchema, llm.ErrBadSchema, llm.ErrContext, llm.ErrQueueFull, llm.ErrMemory, llm.ErrServer, llm.ErrNoMatch, llm.ErrDiffers,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (c checks) fails(t *testing.T, model func(*testing.T) llm.Model, f Failure) {
	ctx, cancel := c.context(t)
	defer cancel()
	if f.Model != nil {
		model = f.Model
	}
	if len(f.Request.Messages) == 0 {
		f.Request = c.chat()
	}
	a, err := model(t).Chat(ctx, f.Request, nil)
	if !errors.Is(err, f.Want) {
		t.Fatalf("got %+v and error %v, want one that wraps %q", a, err, f.Want)
	}
	if s := err.Error(); strings.ContainsAny(s, "\n\r") {
		t.Errorf("the error has several lines: %q", s)
	}
	if a.Text != "" || len(a.Calls) > 0 {
		t.Errorf("got an answer beside the error: %+v", a)
	}
}

func (c checks) describes(t *testing.T, m llm.Model) {
	ctx, cancel := c.context(t)
	defer cancel()
	i, err := llm.Describe(ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		what      string
		says, has bool
	}{
		{"tools", i.Tools, len(c.Call.Tools) > 0},
		{"schema", i.Schema, len(c.Form.Schema) > 0},
		{"embed", i.Embed, c.Embeds},
	} {
		if row.has && !row.says {
			t.Errorf("says that it has no %s, but it is to be checked: %+v", row.what, i)
		}
	}
	ended, stop := context.WithCancel(ctx)
	stop()
	if again, err := llm.Describe(ended, m); err == nil && fmt.Sprint(again) != fmt.Sprint(i) {
		t.Errorf("says %+v the second time, first %+v", again, i)
	}
}
