// Package memory is what agents know from before: facts, preferences, episodes
// and notes.
//
// Its one rule: what was acknowledged is in the store. A call returns when the
// store has taken the change, and on an error nothing has changed. Nothing
// that was damaged is thrown away or written over: it is counted and set aside.
//
// A fact holds for a span of time in the world, and was known from some moment
// on; both are kept, so "where was the cup at noon" and "what did we believe
// at noon" are different questions with answers.
//
//	m, err := memory.Open(ctx, board.Records("memory"), memory.Options{})
//	m.Remember(ctx, memory.Fact{Scope: "home", Key: "cup", Value: "kitchen"})
//	hits, err := m.Recall(ctx, memory.Query{Text: "where is the cup"})
//	m.Forget(ctx, "home", "cup")
package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"edged/agent/llm"
	"edged/agent/llm/recall"
)

// A Store keeps small named records; the blackboard's Records are one. With
// sync a record is on disk when Put returns, without it within the store's own
// time.
type Store interface {
	Put(ctx context.Context, name string, v []byte, sync bool) error
	Get(name string) ([]byte, bool)
	Delete(ctx context.Context, name string) error
	All() iter.Seq2[string, []byte]
}

// What callers decide on.
var (
	ErrName  = errors.New("not a name")     // or one that a file can't have
	ErrValue = errors.New("not a value")    // too long, or not JSON
	ErrFull  = errors.New("memory is full") // forget something, or raise the limit
	ErrTime  = errors.New("ends before it begins")
	ErrNone  = errors.New("nothing is known") // nothing to forget
)

// Options of a [Memory]; the zero value is right for a robot.
type Options struct {
	Facts    int // keys of facts and of preferences, all scopes; 0 is 4096 each
	Versions int // kept of one key; 0 is 50, the oldest go first
	Episodes int // kept; 0 is 500, the oldest go first
	Notes    int // texts; 0 is 256
	NoteSize int // bytes of one; 0 is 64 KiB, the oldest lines go first
	// Embedder makes recall by text see meaning; nil compares words.
	Embedder llm.Embedder
	// Vector and Words are how alike a text must be, as in [recall.Options].
	Vector, Words float64
}

// Memory is facts, preferences, episodes and notes in one store, which nobody
// else writes to. It may be used concurrently.
type Memory struct {
	store   Store
	opt     Options
	similar *recall.Similar
	writing chan struct{} // holds one token: who has it may write

	mu       sync.RWMutex        // guards the rest; never held while the store works
	keys     map[string]*history // by name in the store
	count    map[string]int      // of histories, by kind
	episodes []Episode           // oldest first
	notes    map[string]note     // by name in the store
	damaged  map[string]bool     // names of records that can't be read
	aside    int                 // set aside before
}

// Status is how much is known.
type Status struct {
	Facts       int `json:"facts"`
	Preferences int `json:"preferences"`
	Episodes    int `json:"episodes"`
	Notes       int `json:"notes"`
	Damaged     int `json:"damaged"` // records that can't be read; they are kept
}

// Rooms of the store. What stands behind a slash is a name of valid, which has
// none.
const (
	roomFact    = "fact"
	roomPrefer  = "prefer"
	roomEpisode = "episode"
	roomNote    = "note"
	roomAside   = "aside" // damaged records, under their old name
)

// Open reads what the store holds.
func Open(ctx context.Context, s Store, o Options) (*Memory, error) {
	o.Facts = cmp.Or(o.Facts, 4096)
	o.Versions = max(cmp.Or(o.Versions, 50), 1)
	o.Episodes = cmp.Or(o.Episodes, 500)
	o.Notes = cmp.Or(o.Notes, 256)
	o.NoteSize = cmp.Or(o.NoteSize, 64<<10)
	m := &Memory{
		store: s, opt: o, writing: make(chan struct{}, 1),
		similar: recall.NewSimilar(recall.Options{Embedder: o.Embedder, Vector: o.Vector, Words: o.Words, Cache: 2*o.Facts + o.Episodes}),
		keys:    map[string]*history{}, count: map[string]int{}, notes: map[string]note{}, damaged: map[string]bool{},
	}
	for name, v := range s.All() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if room, _, _ := strings.Cut(name, "/"); room == roomAside {
			m.aside++
		} else if !m.load(room, name, v) {
			m.damaged[name] = true
		}
	}
	m.sortEpisodes()
	return m, nil
}

// load takes a record in; false: it can't be read.
func (m *Memory) load(room, name string, v []byte) bool {
	switch room {
	case roomFact, roomPrefer:
		var h history
		if decode(v, &h) != nil || !h.sound(name) {
			return false
		}
		if !h.gone() {
			m.keys[name] = &h
			m.count[room]++
		}
	case roomEpisode:
		var e Episode
		if decode(v, &e) != nil || episodeName(e.ID) != name {
			return false
		}
		m.episodes = append(m.episodes, e)
	case roomNote:
		if !utf8.Valid(v) {
			return false
		}
		if len(v) > 0 { // else only its deletion is missing
			m.notes[name] = readNote(v)
		}
	default:
		return false
	}
	return true
}

// Status tells how much is known.
func (m *Memory) Status() Status {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return Status{m.count[roomFact], m.count[roomPrefer], len(m.episodes), len(m.notes), len(m.damaged) + m.aside}
}

// write waits for its turn, as long as ctx lasts; done ends it. So changes
// come one after the other, and no lock is held while the store works.
func (m *Memory) write(ctx context.Context) (done func(), err error) {
	select {
	case m.writing <- struct{}{}:
		return func() { <-m.writing }, ctx.Err()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// put stores a record. A damaged one of that name is set aside first. The
// caller has its turn to write.
func (m *Memory) put(ctx context.Context, name string, v []byte, sync bool) error {
	m.mu.RLock()
	damaged := m.damaged[name]
	m.mu.RUnlock()
	if damaged {
		if old, ok := m.store.Get(name); ok {
			if err := m.store.Put(ctx, roomAside+"/"+name, old, true); err != nil {
				return err
			}
		}
		m.mu.Lock()
		delete(m.damaged, name)
		m.aside++
		m.mu.Unlock()
	}
	return m.store.Put(ctx, name, v, sync)
}

// maxName is in bytes; room, scope and name together fit into a record's name.
const maxName = 144

// valid checks a name that a person or a model chose. It goes into names of
// records, so it holds no path: no slash of either kind, no control
// characters, no dot in front, no space around.
func valid(what, s string) error {
	bad := func(why string) error {
		if len(s) > 40 {
			s = strings.ToValidUTF8(s[:40], "") + "…"
		}
		return fmt.Errorf("memory: %s %q: %w: %s", what, s, ErrName, why)
	}
	switch {
	case s == "":
		return bad("it is empty")
	case len(s) > maxName:
		return bad(fmt.Sprintf("%d bytes, at most %d are allowed", len(s), maxName))
	case !utf8.ValidString(s):
		return bad("it is not UTF-8")
	case s[0] == '.':
		return bad("it begins with a dot")
	case strings.TrimSpace(s) != s:
		return bad("it has space around it")
	}
	for _, r := range s {
		if r == '/' || r == '\\' || unicode.IsControl(r) || !unicode.IsGraphic(r) {
			return bad(fmt.Sprintf("it holds %q", r))
		}
	}
	return nil
}

func name(room, scope, key string) string { return room + "/" + scope + "/" + key }

// decode reads JSON with whole numbers as int64, as values are elsewhere.
func decode(b []byte, v any) error {
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return errors.New("more than one value")
	}
	return nil
}

// tree turns numbers of decode into int64 and float64.
func tree(v any) any {
	switch x := v.(type) {
	case json.Number:
		if i, err := x.Int64(); err == nil {
			return i
		}
		f, err := x.Float64()
		if err != nil {
			return x.String()
		}
		return f
	case []any:
		for i := range x {
			x[i] = tree(x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = tree(x[k])
		}
	}
	return v
}
