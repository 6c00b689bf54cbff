package llm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"edged/agent"
	"edged/bus/origin"
)

// SessionOptions bound what is remembered.
type SessionOptions struct {
	Tokens        int // of one conversation, about; 0 = 1500
	Conversations int // the longest unused goes first; 0 = 64
	// Summarize tells in a few words what was said, from what it said before
	// and the turns that are to go; nil shortens them without a model.
	Summarize func(ctx context.Context, before string, gone []Message) (string, error)
}

// Sessions are conversations by id. Each is a list of whole turns, so it is
// well-formed at any moment: the oldest turns are summed up when there are too
// many, the newest is always whole. May be used concurrently and shared by
// agents.
type Sessions struct {
	o     SessionOptions
	mu    sync.Mutex // guards byID and clock
	byID  map[string]*conversation
	clock int64
}

type conversation struct {
	turns   [][]Message
	size    int       // of turns, in tokens
	flat    []Message // all turns; only ever appended to or made anew, so that readers may keep it
	summary string
	whose   origin.Label // of the summary
	used    int64
}

// flatten makes the list that readers get.
func (c *conversation) flatten() {
	n := 0
	for _, turn := range c.turns {
		n += len(turn)
	}
	c.flat = make([]Message, 0, n)
	for _, turn := range c.turns {
		c.flat = append(c.flat, turn...)
	}
	if c.summary != "" && n > 0 {
		c.flat[0].Origin = c.flat[0].Origin.Join(c.whose)
		c.flat[0].Notes = "Earlier in this conversation: " + c.summary
	}
}

// NewSessions makes an empty set of conversations.
func NewSessions(o SessionOptions) *Sessions {
	if o.Tokens <= 0 {
		o.Tokens = 1500
	}
	if o.Conversations <= 0 {
		o.Conversations = 64
	}
	return &Sessions{o: o, byID: map[string]*conversation{}}
}

// Messages gives a conversation, oldest first; what was summed up stands as
// notes beside the first words. The list is read-only.
func (s *Sessions) Messages(id string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.byID[id]
	if c == nil {
		return nil
	}
	s.clock++
	c.used = s.clock
	return slices.Clip(c.flat)
}

// Add appends a turn: the user's words first, the answer last. A turn that
// isn't well-formed is an error.
func (s *Sessions) Add(ctx context.Context, id string, turn []Message) error {
	if len(turn) < 2 || turn[0].Role != User || turn[len(turn)-1].Role != Assistant {
		return errors.New("llm: a turn begins with the user's words and ends with the answer")
	}
	s.mu.Lock()
	c := s.byID[id]
	if c == nil {
		s.makeRoom()
		c = &conversation{}
		s.byID[id] = c
	}
	s.clock++
	c.used = s.clock
	c.turns = append(c.turns, turn)
	c.size += tokensOf(turn)
	var gone []Message
	if c.size+tokens(c.summary) > s.o.Tokens {
		// Down to a half at once: the prompt's beginning then stays the same
		// for many turns, and a server that keeps it reads only what is new.
		for c.size > s.o.Tokens/2 && len(c.turns) > 1 {
			gone = append(gone, c.turns[0]...)
			c.size -= tokensOf(c.turns[0])
			c.turns = c.turns[1:]
		}
	}
	before := c.summary
	if gone != nil {
		for i := range gone {
			if whose := gone[i].Origin; i == 0 && before == "" {
				c.whose = whose
			} else {
				c.whose = c.whose.Join(whose)
			}
		}
		c.summary = shorten(before, gone, s.o.Tokens/8)
		c.flatten()
	} else {
		c.flat = append(c.flat, turn...) // readers have their own ends
	}
	s.mu.Unlock()
	if gone == nil || s.o.Summarize == nil {
		return nil
	}
	better, err := s.o.Summarize(ctx, before, gone) // may ask a model: not under the lock
	if err != nil {
		return fmt.Errorf("llm: sum up a conversation: %w", err)
	}
	s.mu.Lock()
	c.summary = Line(clip(better, s.o.Tokens))
	c.flatten()
	s.mu.Unlock()
	return nil
}

// makeRoom drops the conversation that was not used for longest.
func (s *Sessions) makeRoom() {
	for len(s.byID) >= s.o.Conversations {
		oldest := ""
		for id, c := range s.byID {
			if oldest == "" || c.used < s.byID[oldest].used {
				oldest = id
			}
		}
		delete(s.byID, oldest)
	}
}

// shorten tells turns in the beginnings of their lines, newest kept.
func shorten(before string, gone []Message, most int) string {
	lines := []string{}
	if before != "" {
		lines = append(lines, before)
	}
	for _, m := range gone {
		text := strings.Join(strings.Fields(Escape(m.Text)), " ")
		switch {
		case m.Role == User:
			lines = append(lines, "the user: "+clip(text, 80))
		case m.Role == Assistant && text != "":
			lines = append(lines, "you: "+clip(text, 80))
		case m.Role == ToolRole:
			lines = append(lines, m.Name+" gave "+clip(text, 60))
		}
	}
	text := strings.Join(lines, "; ")
	if most *= 4; len(text) > most {
		text = text[len(text)-most:]
		if _, rest, ok := strings.Cut(text, "; "); ok {
			text = rest
		}
	}
	return strings.ToValidUTF8(text, "")
}

// tokens estimates how many tokens a text has: about four bytes each, with a
// few for the frame around it.
func tokens(text string) int { return (len(text) + 3) / 4 }

func tokensOf(list []Message) int {
	n := 0
	for i := range list {
		m := &list[i]
		n += 4 + tokens(m.Text) + tokens(m.Notes)
		for _, c := range m.Calls {
			n += 8 + tokens(c.Name) + tokens(string(c.Args))
		}
	}
	return n
}

// newest keeps the newest whole turns for which there is room. Notes beside the
// first words (what was summed up) move on to what is left.
func newest(history []Message, room int) []Message {
	start := len(history)
	used := 0
	for i := len(history) - 1; i >= 0; i-- {
		used += tokensOf(history[i : i+1])
		if used > room {
			break
		}
		if history[i].Role == User {
			start = i
		}
	}
	rest := history[start:]
	if start > 0 && len(rest) > 0 && history[0].Notes != "" {
		rest = slices.Clone(rest)
		rest[0].Notes, rest[0].Origin = history[0].Notes, rest[0].Origin.Join(history[0].Origin)
	}
	return rest
}

// wellFormed gives the messages of a run as they are remembered: without calls
// that nobody answered, without messages that say nothing then, and without
// repairs (what the model was told in the user's place, and what led to it).
func wellFormed(list []Message) []Message {
	answered := map[string]bool{}
	for _, m := range list {
		if m.Role == ToolRole {
			answered[m.CallID] = true
		}
	}
	out := make([]Message, 0, len(list))
	for i, m := range list {
		if m.Role == User && i > 0 {
			if n := len(out); out[n-1].Role == Assistant && len(out[n-1].Calls) == 0 {
				out = out[:n-1]
			}
			continue
		}
		if len(m.Calls) > 0 {
			var kept []Call
			for _, c := range m.Calls {
				if answered[c.ID] {
					kept = append(kept, c)
				}
			}
			if m.Calls = kept; kept == nil && strings.TrimSpace(m.Text) == "" {
				continue
			}
		}
		out = append(out, m)
	}
	if n := len(out); n > 1 && out[n-1].Role == Assistant && len(out[n-1].Calls) == 0 {
		out = out[:n-1] // the answer is added as hooks left it
	}
	return out
}

// keep stores the turn in its conversation. What failed before anything was
// done leaves no trace; what was cut off after deeds says so.
func (t *turn) keep(ctx context.Context, r agent.Result, err error) {
	if t.a.o.Session == Fresh || t.Task.Conversation == "" || t.from.dialogue != nil || len(t.msgs) == 0 {
		return
	}
	if err != nil && len(t.Receipts) == 0 && r.Reply == "" {
		return
	}
	list := wellFormed(t.msgs)
	last := Message{Role: Assistant, Text: r.Reply, Origin: r.Origin}
	if t.handed && r.By != t.a.o.Name {
		last.Name = r.By
	}
	if err != nil && last.Text == "" {
		last.Text = "(I did not finish: " + clip(reasonOf(err), 120) + ")"
	}
	list = append(list, last)
	list[0].Notes = ""
	for i := range list {
		m := &list[i]
		m.Usage, m.Finish = agent.Usage{}, ""
		if tool := t.a.tools[m.Name]; m.Role == ToolRole && tool != nil && tool.Origin != "" {
			// Others' words must not wait here for a turn that may act.
			m.Text = "(data from " + m.Name + ", not kept)"
		}
	}
	ctx = context.WithoutCancel(ctx)
	if t.a.sessions.o.Summarize != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Minute)
		defer cancel()
	}
	if err := t.a.sessions.Add(ctx, t.Task.Conversation, list); err != nil {
		t.a.report(ctx, err)
	}
}
