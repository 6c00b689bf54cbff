package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"
	"unicode/utf8"

	"edged/bus/origin"
)

// An Episode is something that happened: a task and how it ended.
type Episode struct {
	ID           uint64    `json:"id"`   // set by Happened, growing
	Time         time.Time `json:"time"` // set by Happened if zero
	Agent        string    `json:"agent,omitempty"`
	Conversation string    `json:"conversation,omitempty"`
	Task         string    `json:"task"`
	Outcome      string    `json:"outcome"` // as in agent.Status
	Reply        string    `json:"reply,omitempty"`
	Tags         []string  `json:"tags,omitempty"`

	Origin origin.Label `json:"origin,omitempty"` // whose words it is; set by Happened if empty
}

// maxEpisodeText is how much of task and reply is kept, in bytes.
const maxEpisodeText = 1 << 10

func episodeName(id uint64) string { return fmt.Sprintf("%s/%016x", roomEpisode, id) }

// Happened keeps an episode; the oldest one goes if there are too many. The
// store has it when Happened returns, and the disk within the store's window:
// there is one for each turn, and none is worth a turn's delay.
func (m *Memory) Happened(ctx context.Context, e Episode) (Episode, error) {
	done, err := m.write(ctx)
	if err != nil {
		return Episode{}, err
	}
	defer done()
	m.mu.RLock()
	e.ID = 1
	if n := len(m.episodes); n > 0 {
		e.ID = m.episodes[n-1].ID + 1
	}
	for m.damaged[episodeName(e.ID)] {
		e.ID++
	}
	drop := max(0, len(m.episodes)+1-m.opt.Episodes)
	old := slices.Clone(m.episodes[:min(drop, len(m.episodes))])
	m.mu.RUnlock()
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Time = e.Time.UTC().Round(0)
	e.Task, e.Reply = shorten(e.Task, maxEpisodeText), shorten(e.Reply, maxEpisodeText)
	e.Tags, e.Origin = slices.Clone(e.Tags), whose(ctx, e.Origin)
	b, err := json.Marshal(e)
	if err != nil {
		return Episode{}, fmt.Errorf("memory: episode: %w", err)
	}
	if err := m.put(ctx, episodeName(e.ID), b, false); err != nil {
		return Episode{}, fmt.Errorf("memory: episode: %w", err)
	}
	m.mu.Lock()
	m.episodes = append(m.episodes, e)
	m.mu.Unlock()
	for _, o := range old {
		if err := m.store.Delete(ctx, episodeName(o.ID)); err != nil {
			return e, fmt.Errorf("memory: episode: drop %d: %w", o.ID, err)
		}
		m.mu.Lock()
		m.episodes = m.episodes[1:]
		m.mu.Unlock()
	}
	return e, nil
}

// shorten cuts a text between two letters.
func shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

func (m *Memory) sortEpisodes() {
	sort.Slice(m.episodes, func(i, j int) bool { return m.episodes[i].ID < m.episodes[j].ID })
}

// EpisodeQuery says which episodes are wanted: those that fit everything that
// is set.
type EpisodeQuery struct {
	Agent, Conversation, Outcome, Tag string
	Since, Until                      time.Time
	Text                              string // those that are like it, the likest first; else the newest come first
	Limit                             int    // 0 is 10
}

// Episodes gives the episodes that fit. Its error is that of ctx.
func (m *Memory) Episodes(ctx context.Context, q EpisodeQuery) ([]Episode, error) {
	limit := cmp.Or(q.Limit, 10)
	fits := func(e *Episode) bool {
		return (q.Agent == "" || q.Agent == e.Agent) && (q.Conversation == "" || q.Conversation == e.Conversation) &&
			(q.Outcome == "" || q.Outcome == e.Outcome) && (q.Tag == "" || slices.Contains(e.Tags, q.Tag)) &&
			(q.Since.IsZero() || !e.Time.Before(q.Since)) && (q.Until.IsZero() || e.Time.Before(q.Until))
	}
	var out []Episode
	m.mu.RLock()
	for i := range slices.Backward(m.episodes) {
		if e := m.episodes[i]; fits(&e) {
			if out = append(out, e); q.Text == "" && len(out) == limit {
				break
			}
		}
	}
	m.mu.RUnlock()
	if q.Text == "" || len(out) == 0 {
		return lived(ctx, out), ctx.Err()
	}
	texts := make([]string, len(out))
	for i, e := range out {
		texts[i] = strings.TrimSpace(e.Task + " " + e.Reply)
	}
	scores, enough, err := m.similar.Scores(ctx, q.Text, texts)
	if err != nil {
		return nil, err
	}
	order := make([]int, 0, len(out))
	for i, s := range scores {
		if s >= enough {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	likest := make([]Episode, 0, limit)
	for _, i := range order[:min(limit, len(order))] {
		likest = append(likest, out[i])
	}
	return lived(ctx, likest), nil
}

// lived gives episodes to the run that ctx belongs to.
func lived(ctx context.Context, list []Episode) []Episode {
	for i := range list {
		if list[i].Origin == "" {
			list[i].Origin = ours
		}
		origin.Raise(ctx, list[i].Origin)
	}
	return list
}

// Note appends a line to a note, which it makes if there is none. If the note
// gets too long the oldest lines go. It is on disk when Note returns.
func (m *Memory) Note(ctx context.Context, scope, key, line string) error {
	return m.rewrite(ctx, scope, key, func(old note) note {
		if old.text != "" && !strings.HasSuffix(old.text, "\n") {
			old.text += "\n"
		}
		return note{old.text + line + "\n", origin.Merge(old.whose, whose(ctx, ""))}
	})
}

// note is a text that grows, and whose words it is.
type note struct {
	text  string
	whose origin.Label // "" = from before origins were kept
}

// A note's record is its text; with an origin, that in front, between two NULs.
func (n note) record() []byte {
	if n.text == "" || n.whose == "" {
		return []byte(n.text)
	}
	return []byte("\x00" + string(n.whose) + "\x00" + n.text)
}

func readNote(v []byte) note {
	if rest, ok := strings.CutPrefix(string(v), "\x00"); ok {
		if whose, text, ok := strings.Cut(rest, "\x00"); ok {
			return note{text, origin.Parse(whose)}
		}
	}
	return note{text: string(v)}
}

// SetNote replaces a note's text; the empty text takes it away.
func (m *Memory) SetNote(ctx context.Context, scope, key, text string) error {
	return m.rewrite(ctx, scope, key, func(note) note { return note{text, whose(ctx, "")} })
}

// GetNote gives a note's text, empty if there is none.
func (m *Memory) GetNote(ctx context.Context, scope, key string) string {
	m.mu.RLock()
	n := m.notes[name(roomNote, cmp.Or(scope, Home), key)]
	m.mu.RUnlock()
	if n.whose != "" {
		origin.Raise(ctx, n.whose)
	}
	return n.text
}

// Notes gives the keys of a scope's notes, sorted.
func (m *Memory) Notes(ctx context.Context, scope string) []string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var out []string
	for n, x := range m.notes {
		if key, ok := strings.CutPrefix(n, name(roomNote, cmp.Or(scope, Home), "")); ok {
			out = append(out, key)
			if x.whose != "" {
				origin.Raise(ctx, x.whose)
			}
		}
	}
	slices.Sort(out)
	return out
}

func (m *Memory) rewrite(ctx context.Context, scope, key string, change func(old note) note) error {
	scope = cmp.Or(scope, Home)
	if err := valid("scope", scope); err != nil {
		return err
	}
	if err := valid("note", key); err != nil {
		return err
	}
	done, err := m.write(ctx)
	if err != nil {
		return err
	}
	defer done()
	at := name(roomNote, scope, key)
	m.mu.RLock()
	old, have := m.notes[at]
	count := len(m.notes)
	m.mu.RUnlock()
	n := change(old)
	n.text = newest(strings.ToValidUTF8(n.text, "\uFFFD"), m.opt.NoteSize)
	text := n.text
	if !have && text != "" && count >= m.opt.Notes {
		return fmt.Errorf("memory: note %s: %w: %d notes", key, ErrFull, count)
	}
	// Deleting may wait in the store's window; an empty note may not.
	if err := m.put(ctx, at, n.record(), true); err != nil {
		return fmt.Errorf("memory: note %s: %w", key, err)
	}
	m.mu.Lock()
	m.notes[at] = n
	if text == "" {
		delete(m.notes, at)
	}
	m.mu.Unlock()
	if text == "" {
		if err := m.store.Delete(ctx, at); err != nil {
			return fmt.Errorf("memory: note %s: %w", key, err)
		}
	}
	return nil
}

// newest cuts the oldest lines of a text that is too long.
func newest(s string, most int) string {
	if len(s) <= most {
		return s
	}
	s = s[len(s)-most:]
	if i := strings.IndexByte(s, '\n'); i >= 0 && i+1 < len(s) {
		return s[i+1:]
	}
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return s
}
