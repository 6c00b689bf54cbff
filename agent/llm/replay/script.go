package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"edged/agent/llm"
)

// An Answer is one line of a [Script].
type Answer struct {
	When string // the answer is for requests whose last message of a user holds this; empty: any
	// Always: the answer is given as often as it fits, after those that are
	// given once.
	Always bool

	Text   string
	Pieces []string // how Text is said; nil: word by word. Without Text it is their sum
	Calls  []llm.Call
	Err    error         // said after the pieces
	Delay  time.Duration // how long it takes; a cancelled request ends at once
	// Do makes the answer from the request, in place of all above but Delay.
	Do func(ctx context.Context, r llm.Request) (llm.Message, error)
}

// Say makes an answer in words.
func Say(text string) Answer { return Answer{Text: text} }

// Call makes an answer that calls a tool; args is made JSON.
func Call(name string, args any) Answer {
	b, err := json.Marshal(args)
	if err != nil {
		return Fail(fmt.Errorf("replay: script: arguments of %s: %w", name, err))
	}
	return Answer{Calls: []llm.Call{{Name: name, Args: b}}}
}

// Fail makes an answer that is an error.
func Fail(err error) Answer { return Answer{Err: err} }

// For makes the answer one for requests whose last message of a user holds a
// text.
func (a Answer) For(text string) Answer { a.When = text; return a }

// A Script is a model whose answers are given beforehand: each request gets
// the first answer that fits and was not given, and [llm.ErrDiffers] if there
// is none. It keeps the requests it saw. It may be used concurrently.
type Script struct {
	mu      sync.Mutex // guards the rest
	once    []Answer
	always  []Answer
	seen    []llm.Request
	info    llm.Info
	vectors func(text string) []float32
}

var (
	_ llm.Model     = (*Script)(nil)
	_ llm.Describer = (*Script)(nil)
	_ llm.Embedder  = (*Script)(nil)
)

// NewScript makes a model that gives these answers.
func NewScript(answers ...Answer) *Script {
	s := &Script{info: llm.Info{Name: "script", Tools: true, Thinking: true, Schema: true, Warm: true}}
	s.Add(answers...)
	return s
}

// Add adds answers at the end.
func (s *Script) Add(answers ...Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range answers {
		if a.Always {
			s.always = append(s.always, a)
		} else {
			s.once = append(s.once, a)
		}
	}
}

// Is sets what the model says of itself; the default is that it can do all
// but embed.
func (s *Script) Is(i llm.Info) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info = i
}

// Vectors lets the model embed: vector gives that of a text.
func (s *Script) Vectors(vector func(text string) []float32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.vectors = vector
	s.info.Embed = vector != nil
}

// Seen gives the requests so far, in order.
func (s *Script) Seen() []llm.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// Left gives how many answers were not asked for; those given always don't count.
func (s *Script) Left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.once)
}

// Chat gives the next answer that fits.
func (s *Script) Chat(ctx context.Context, r llm.Request, say func(string) error) (llm.Message, error) {
	if err := ctx.Err(); err != nil {
		return llm.Message{}, err
	}
	a, n, err := s.take(r)
	if err != nil {
		return llm.Message{}, err
	}
	if a.Delay > 0 {
		if err := wait(ctx, a.Delay); err != nil {
			return llm.Message{}, err
		}
	}
	if a.Do != nil {
		return s.made(ctx, r, a, n, say)
	}
	if a.Text == "" {
		a.Text = strings.Join(a.Pieces, "")
	}
	if len(a.Pieces) == 0 {
		a.Pieces = strings.SplitAfter(a.Text, " ")
	}
	if a.Text == "" {
		a.Pieces = nil
	}
	if err := utter(ctx, a.Pieces, say); err != nil {
		return llm.Message{}, err
	}
	if a.Err != nil {
		return llm.Message{}, a.Err
	}
	return finish(llm.Message{Text: a.Text, Calls: slices.Clone(a.Calls)}, n), nil
}

// made is an answer of a function.
func (s *Script) made(ctx context.Context, r llm.Request, a Answer, n int, say func(string) error) (llm.Message, error) {
	m, err := a.Do(ctx, r)
	if err == nil && m.Text != "" {
		err = utter(ctx, []string{m.Text}, say)
	}
	if err != nil {
		return llm.Message{}, err
	}
	m.Calls = slices.Clone(m.Calls)
	return finish(m, n), nil
}

// finish fills in what every answer has.
func finish(m llm.Message, n int) llm.Message {
	m.Role = llm.Assistant
	m.Finish = llm.FinishStop
	for i := range m.Calls {
		m.Finish = llm.FinishCall
		if m.Calls[i].ID == "" {
			m.Calls[i].ID = fmt.Sprintf("script-%d-%d", n, i+1)
		}
		if len(m.Calls[i].Args) == 0 {
			m.Calls[i].Args = json.RawMessage("{}")
		}
	}
	if m.Usage.Calls == 0 {
		m.Usage.Calls = 1
	}
	return m
}

func (s *Script) take(r llm.Request) (Answer, int, error) {
	last := ""
	for _, m := range slices.Backward(r.Messages) {
		if m.Role == llm.User {
			last = m.Text
			break
		}
	}
	fits := func(a Answer) bool { return a.When == "" || strings.Contains(last, a.When) }
	keep := r
	keep.Messages = slices.Clone(r.Messages)
	keep.Tools = slices.Clone(r.Tools)

	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, keep)
	n := len(s.seen)
	if i := slices.IndexFunc(s.once, fits); i >= 0 {
		a := s.once[i]
		s.once = slices.Delete(s.once, i, i+1)
		return a, n, nil
	}
	if i := slices.IndexFunc(s.always, fits); i >= 0 {
		return s.always[i], n, nil
	}
	return Answer{}, n, fmt.Errorf("replay: script: %w: request %d, whose user says %s, has none of the %d answers left",
		llm.ErrDiffers, n, clip(last), len(s.once))
}

// Describe gives what Is set.
func (s *Script) Describe(ctx context.Context) (llm.Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info, ctx.Err()
}

// Embed gives the vectors of the function that Vectors set.
func (s *Script) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	vector := s.vectors
	s.mu.Unlock()
	if vector == nil {
		return nil, fmt.Errorf("replay: script: %w", llm.ErrNoEmbedding)
	}
	out := make([][]float32, len(texts))
	for i, t := range texts {
		out[i] = vector(t)
	}
	return out, nil
}
