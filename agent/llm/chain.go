package llm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// A Link is one model of a [Chain].
type Link struct {
	Name  string // as scripts write it: "ollama:qwen2.5:1.5b"
	Model Model
}

// ChainOptions of a [Chain].
type ChainOptions struct {
	// Backoff is how long a model that was found down is not asked again; it
	// doubles each time up to MaxBackoff. 0 is 2 s, and 30 s at most.
	Backoff, MaxBackoff time.Duration
	// Skipped is told about each model that was passed over and why, on the
	// goroutine of the request, before the next one is asked.
	Skipped func(ctx context.Context, s Skip)
}

// A Skip says why a model of a chain did not answer.
type Skip struct {
	Model string
	Err   error     // wraps a sentinel of this package
	Asked bool      // false: its state or what it can do was reason enough
	Until time.Time // if not zero it is not asked before
}

func (s Skip) String() string {
	t := s.Model + ": " + s.Err.Error()
	if !s.Asked && !s.Until.IsZero() {
		t += ", asked again in " + max(time.Until(s.Until), 0).Round(100*time.Millisecond).String()
	}
	return t
}

// A Chain is a list of models that acts as one: the first that is healthy and
// able answers. A model is passed over
//
//   - if it can't do what the request needs: tools, a schema, thinking;
//   - if it was found down ([ErrDown], [ErrMemory], [ErrUnknownModel]) and its
//     backoff is not over;
//   - if it answers with one of those, or with [ErrServer], [ErrNoDone],
//     [ErrNoTools], [ErrNoThinking], [ErrContext], [ErrQueueFull] or
//     [ErrNoMatch], before it said anything.
//
// Every other error is the answer of the chain: the end of the context, an
// error of say, [ErrCutOff], [ErrEmpty] and [ErrSchema], which the agent mends
// with the same model, [ErrBadSchema], which no model mends, [ErrDiffers],
// which must be seen, and everything nobody has thought of. Once a model has
// said a piece its error is final too, because it can't be unsaid.
//
// If none is left the error is a [NoneLeft]. A Chain may be used concurrently.
type Chain struct {
	opt   ChainOptions
	links []*link
	mu    sync.Mutex // guards embeds and what changes of the links
	// embeds is the model that has given vectors: those of another one can't
	// be compared with them.
	embeds *link
}

type link struct {
	Link
	known bool // info was read
	info  Info
	fails int
	until time.Time
	why   error // it was found down
}

// NewChain makes a chain of models, the best first.
func NewChain(o ChainOptions, links ...Link) *Chain {
	if o.Backoff <= 0 {
		o.Backoff = 2 * time.Second
	}
	if o.MaxBackoff <= 0 {
		o.MaxBackoff = 30 * time.Second
	}
	c := &Chain{opt: o}
	for _, l := range links {
		c.links = append(c.links, &link{Link: l})
	}
	return c
}

var (
	_ Model     = (*Chain)(nil)
	_ Describer = (*Chain)(nil)
	_ Embedder  = (*Chain)(nil)
	_ Warmer    = (*Chain)(nil)
)

// Chat lets the first model answer that is healthy and able.
func (c *Chain) Chat(ctx context.Context, r Request, say func(string) error) (Message, error) {
	spoken := false
	heard := say
	if say != nil {
		heard = func(text string) error { spoken = true; return say(text) }
	}
	var answer Message
	err := c.first(ctx, need(r), func(l *link) (final bool, err error) {
		answer, err = l.Model.Chat(ctx, r, heard)
		return spoken, err
	})
	if err != nil {
		return Message{}, err
	}
	return answer, nil
}

// Embed lets the first model that can turn the texts into vectors, and from
// then on only that one.
func (c *Chain) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	c.mu.Lock()
	only := c.embeds
	c.mu.Unlock()
	var vectors [][]float32
	able := func(l *link, i Info) error {
		if only != nil && l != only {
			return fmt.Errorf("%w that go with those of %s", ErrNoEmbedding, only.Name)
		}
		if _, ok := l.Model.(Embedder); !ok || !i.Embed {
			return ErrNoEmbedding
		}
		return nil
	}
	err := c.first(ctx, able, func(l *link) (final bool, err error) {
		vectors, err = l.Model.(Embedder).Embed(ctx, texts)
		if err == nil {
			c.mu.Lock()
			if c.embeds == nil {
				c.embeds = l
			}
			final = c.embeds != l // another request was first, with another model
			c.mu.Unlock()
			if final {
				err = fmt.Errorf("%w that go with those of another model", ErrNoEmbedding)
			}
		}
		return final, err
	})
	if err != nil {
		return nil, err
	}
	return vectors, nil
}

// Warm loads the first model that is healthy.
func (c *Chain) Warm(ctx context.Context) error {
	any := func(*link, Info) error { return nil }
	return c.first(ctx, any, func(l *link) (bool, error) {
		if w, ok := l.Model.(Warmer); ok {
			return false, w.Warm(ctx)
		}
		return false, nil
	})
}

// Describe says what the chain can do: all that any of its models that are
// not down can, and the longest context among them.
func (c *Chain) Describe(ctx context.Context) (Info, error) {
	var names []string
	var all Info
	var skips []Skip
	for _, l := range c.links {
		names = append(names, l.Name)
		i, s := c.look(ctx, l)
		if s != nil {
			if err := ctx.Err(); err != nil {
				return Info{}, err
			}
			skips = append(skips, *s)
			continue
		}
		all.Tools = all.Tools || i.Tools
		all.Thinking = all.Thinking || i.Thinking
		all.Schema = all.Schema || i.Schema
		all.Embed = all.Embed || i.Embed
		all.Warm = all.Warm || i.Warm
		all.Context = max(all.Context, i.Context)
	}
	if len(skips) == len(c.links) {
		return Info{}, none(skips)
	}
	all.Name = strings.Join(names, ", ")
	return all, nil
}

// first asks one model after the other until one answers or fails for good.
func (c *Chain) first(ctx context.Context, able func(*link, Info) error, ask func(*link) (final bool, err error)) error {
	var skips []Skip
	for _, l := range c.links {
		if err := ctx.Err(); err != nil {
			return err
		}
		info, skip := c.look(ctx, l)
		if skip == nil {
			if err := able(l, info); err != nil {
				skip = &Skip{Model: l.Name, Err: err}
			}
		}
		if skip == nil {
			final, err := ask(l)
			if err == nil {
				c.well(l)
				return nil
			}
			if final || !passes(err) || ctx.Err() != nil {
				return err
			}
			skip = &Skip{Model: l.Name, Err: err, Asked: true, Until: c.down(l, err)}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if c.opt.Skipped != nil {
			c.opt.Skipped(ctx, *skip)
		}
		skips = append(skips, *skip)
	}
	return none(skips)
}

// look gives what a model can do, read once while it is healthy, or why it
// can't be asked.
func (c *Chain) look(ctx context.Context, l *link) (Info, *Skip) {
	c.mu.Lock()
	info, known, why, until := l.info, l.known, l.why, l.until
	c.mu.Unlock()
	if why != nil && time.Now().Before(until) {
		return Info{}, &Skip{Model: l.Name, Err: why, Until: until}
	}
	if known {
		return info, nil
	}
	info, err := Describe(ctx, l.Model)
	if err != nil {
		s := &Skip{Model: l.Name, Err: err, Asked: true}
		if ctx.Err() == nil {
			s.Until = c.down(l, err)
		}
		return Info{}, s
	}
	c.mu.Lock()
	l.info, l.known = info, true
	c.mu.Unlock()
	return info, nil
}

// down notes that a model is not there, if that is what its error means, and
// until when it is left alone. What it can do is read again then.
func (c *Chain) down(l *link, err error) time.Time {
	if !errors.Is(err, ErrDown) && !errors.Is(err, ErrMemory) && !errors.Is(err, ErrUnknownModel) {
		return time.Time{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); l.why == nil || !now.Before(l.until) { // else another request found it first
		wait := c.opt.Backoff << min(l.fails, 20)
		l.fails++
		l.until = now.Add(min(wait, c.opt.MaxBackoff))
	}
	l.why, l.known = err, false
	return l.until
}

func (c *Chain) well(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.fails, l.why, l.until = 0, nil, time.Time{}
}

// passes reports whether the next model is asked after an error. A connection
// that timed out is a model that is down; that the request's own time is over
// is seen at its context.
func passes(err error) bool {
	for _, e := range []error{
		ErrDown, ErrMemory, ErrUnknownModel, ErrServer, ErrNoDone, ErrNoTools,
		ErrNoThinking, ErrNoEmbedding, ErrContext, ErrQueueFull, ErrNoMatch,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// need is what a model must be able to do to answer a request.
func need(r Request) func(*link, Info) error {
	return func(_ *link, i Info) error {
		switch {
		case len(r.Tools) > 0 && r.Choice != ChoiceNone && !i.Tools:
			return ErrNoTools
		case len(r.Schema) > 0 && !i.Schema:
			return fmt.Errorf("%w by this model", ErrBadSchema)
		case r.Think && !i.Thinking:
			return ErrNoThinking
		}
		return nil
	}
}

// NoneLeft is the error of a chain of which no model answered. It wraps the
// errors of all.
type NoneLeft struct{ Skips []Skip }

func none(skips []Skip) error {
	if len(skips) == 0 {
		return fmt.Errorf("llm: chain: %w: it has no models", ErrUnknownModel)
	}
	return &NoneLeft{skips}
}

func (n *NoneLeft) Error() string {
	var b strings.Builder
	b.WriteString("llm: no model could answer")
	sep := ": "
	for _, s := range n.Skips {
		b.WriteString(sep + s.String())
		sep = "; "
	}
	return b.String()
}

// Unwrap gives the errors of all models, in order.
func (n *NoneLeft) Unwrap() []error {
	var errs []error
	for _, s := range n.Skips {
		errs = append(errs, s.Err)
	}
	return errs
}
