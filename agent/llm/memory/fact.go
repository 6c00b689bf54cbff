package memory

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"edged/bus/origin"
)

// A Fact is something that holds for a span of time.
type Fact struct {
	Scope string    `json:"scope"` // whose it is: "home", "agent:butler"; empty is "home"
	Key   string    `json:"key"`
	Value any       `json:"value"` // a JSON tree: nil, bool, int64, float64, string, []any, map[string]any
	Tags  []string  `json:"tags,omitempty"`
	From  time.Time `json:"from,omitzero"`  // it holds since; zero when remembered is now
	Until time.Time `json:"until,omitzero"` // it holds no more; zero is open
	Known time.Time `json:"known"`          // since when we know; set by Remember
	By    string    `json:"by,omitempty"`   // who said so

	Origin origin.Label `json:"origin,omitempty"` // whose words it is; set by Remember if empty
}

// version is one thing that was said about a key. Later ones outdo earlier
// ones for the time they speak of.
type version struct {
	Value json.RawMessage `json:"value,omitempty"` // none: nothing holds
	Tags  []string        `json:"tags,omitempty"`
	From  time.Time       `json:"from"`
	Until time.Time       `json:"until,omitzero"`
	Known time.Time       `json:"known"`
	By    string          `json:"by,omitempty"`

	Origin origin.Label `json:"origin,omitempty"`
}

// whose is whose words a version is. One that doesn't say is of a time when
// nothing was remembered of what others said.
func (v *version) whose() origin.Label {
	if v.Origin == "" {
		return ours
	}
	return v.Origin
}

// ours is what was kept before origins were.
const ours origin.Label = "script"

// history is the record of a key: what was said of it, oldest first. It is
// never changed, but replaced.
type history struct {
	Scope    string    `json:"scope"`
	Key      string    `json:"key"`
	Versions []version `json:"versions"`
}

// maxValue is in bytes of JSON.
const maxValue = 4 << 10

const maxTags = 8

// Home is the scope of facts that name none.
const Home = "home"

func (h *history) sound(at string) bool {
	room, _, _ := strings.Cut(at, "/")
	return name(room, h.Scope, h.Key) == at && len(h.Versions) > 0
}

// gone reports whether the key was erased and only its deletion is missing.
func (h *history) gone() bool { return len(h.Versions) == 1 && h.Versions[0].Value == nil }

func (v *version) holds(at time.Time) bool {
	return !at.Before(v.From) && (v.Until.IsZero() || at.Before(v.Until))
}

// at gives what held at a time, as it was known at another; nil if nothing.
func (h *history) at(valid, known time.Time) *version {
	for i := range slices.Backward(h.Versions) {
		if v := &h.Versions[i]; !v.Known.After(known) && v.holds(valid) {
			if v.Value == nil {
				return nil
			}
			return v
		}
	}
	return nil
}

// span is the time around a moment for which the version that holds then
// does, given what was said later.
func (h *history) span(valid, known time.Time) (from, until time.Time) {
	borders := []time.Time{}
	for _, v := range h.Versions {
		borders = append(borders, v.From)
		if !v.Until.IsZero() {
			borders = append(borders, v.Until)
		}
	}
	sort.Slice(borders, func(i, j int) bool { return borders[i].Before(borders[j]) })
	holds := h.at(valid, known)
	for _, b := range borders {
		if b.After(valid) {
			if h.at(b, known) != holds {
				return from, b
			}
		} else if h.at(b, known) == holds && (from.IsZero() || h.at(b.Add(-1), known) != holds) {
			from = b
		}
	}
	return from, time.Time{}
}

func (h *history) fact(v *version, from, until time.Time) Fact {
	var value any
	if err := decode(v.Value, &value); err != nil {
		value = string(v.Value)
	}
	return Fact{h.Scope, h.Key, tree(value), slices.Clone(v.Tags), from, until, v.Known, v.By, v.whose()}
}

// Remember keeps a fact and gives it as it is kept. What was known of its key
// before ends where the new fact begins. The same fact again changes nothing.
// It is on disk when Remember returns. Errors wrap [ErrName], [ErrValue],
// [ErrTime], [ErrFull], ctx's error or the store's.
func (m *Memory) Remember(ctx context.Context, f Fact) (Fact, error) {
	f.Scope = cmp.Or(f.Scope, Home)
	return m.remember(ctx, roomFact, f)
}

func (m *Memory) remember(ctx context.Context, room string, f Fact) (Fact, error) {
	value, err := check(&f)
	if err != nil {
		return Fact{}, err
	}
	return m.say(ctx, room, f.Scope, f.Key, version{Value: value, Tags: f.Tags, From: f.From, Until: f.Until, By: f.By, Origin: whose(ctx, f.Origin)})
}

// whose is the origin of what is kept: as it is given, else that of the run.
func whose(ctx context.Context, given origin.Label) origin.Label {
	if given == "" {
		given = origin.From(ctx)
	}
	if given == "" {
		return origin.Unknown
	}
	return given
}

// check looks at a fact that comes from outside.
func check(f *Fact) (json.RawMessage, error) {
	if err := valid("scope", f.Scope); err != nil {
		return nil, err
	}
	if err := valid("key", f.Key); err != nil {
		return nil, err
	}
	if len(f.Tags) > maxTags {
		return nil, fmt.Errorf("memory: remember %s: %w: %d tags, at most %d are allowed", f.Key, ErrValue, len(f.Tags), maxTags)
	}
	f.Tags = slices.Clone(f.Tags)
	for i, t := range f.Tags {
		f.Tags[i] = strings.ToLower(t)
		if err := valid("tag", t); err != nil {
			return nil, err
		}
	}
	value, err := json.Marshal(f.Value)
	if err != nil {
		return nil, fmt.Errorf("memory: remember %s: %w: %w", f.Key, ErrValue, err)
	}
	if len(value) > maxValue {
		return nil, fmt.Errorf("memory: remember %s: %w: %d bytes, at most %d are allowed", f.Key, ErrValue, len(value), maxValue)
	}
	return value, nil
}

// say appends a version to a key.
func (m *Memory) say(ctx context.Context, room, scope, key string, v version) (Fact, error) {
	done, err := m.write(ctx)
	if err != nil {
		return Fact{}, err
	}
	defer done()
	at := name(room, scope, key)
	m.mu.RLock()
	old, count := m.keys[at], m.count[room]
	m.mu.RUnlock()

	now := time.Now().UTC().Round(0)
	if v.From.IsZero() {
		v.From = now
	}
	v.From, v.Until, v.Known = v.From.UTC().Round(0), v.Until.UTC().Round(0), now
	if !v.Until.IsZero() && !v.From.Before(v.Until) {
		return Fact{}, fmt.Errorf("memory: remember %s: %w", key, ErrTime)
	}
	h := &history{Scope: scope, Key: key}
	if old != nil {
		if last := old.Versions[len(old.Versions)-1]; now.Before(last.Known) {
			v.Known = last.Known // the clock was set back; what is said later stays later
		}
		if have := old.at(v.From, v.Known); have != nil && have.same(v) {
			if from, until := old.span(v.From, v.Known); until.Equal(v.Until) {
				return old.fact(have, from, until), nil
			}
		}
		h.Versions = append(h.Versions, old.Versions[max(0, len(old.Versions)+1-m.opt.Versions):]...)
	} else if count >= m.opt.Facts {
		return Fact{}, fmt.Errorf("memory: remember %s: %w: %d keys", key, ErrFull, count)
	}
	h.Versions = append(h.Versions, v)
	b, err := json.Marshal(h)
	if err != nil {
		return Fact{}, fmt.Errorf("memory: remember %s: %w", key, err)
	}
	if err := m.put(ctx, at, b, true); err != nil {
		return Fact{}, fmt.Errorf("memory: remember %s: %w", key, err)
	}
	m.mu.Lock()
	m.keys[at] = h
	if old == nil {
		m.count[room]++
	}
	m.mu.Unlock()
	return h.fact(&h.Versions[len(h.Versions)-1], v.From, v.Until), nil
}

// same reports whether two versions say the same.
func (v *version) same(o version) bool {
	return bytes.Equal(v.Value, o.Value) && slices.Equal(v.Tags, o.Tags) && v.whose() == o.whose()
}

// Forget ends a fact now: it held until now, and it stays known that it did.
// [ErrNone] if nothing holds now.
func (m *Memory) Forget(ctx context.Context, scope, key string) error {
	return m.forget(ctx, roomFact, cmp.Or(scope, Home), key)
}

func (m *Memory) forget(ctx context.Context, room, scope, key string) error {
	if err := valid("scope", scope); err != nil {
		return err
	}
	if err := valid("key", key); err != nil {
		return err
	}
	now := time.Now().UTC()
	m.mu.RLock()
	h := m.keys[name(room, scope, key)]
	m.mu.RUnlock()
	if h == nil || h.at(now, now.Add(time.Hour)) == nil {
		return fmt.Errorf("memory: forget %s: %w", key, ErrNone)
	}
	_, err := m.say(ctx, room, scope, key, version{From: now})
	return err
}

// Erase takes a key away for good, with all it ever was, as if it had never
// been known: for what people do not want kept. It is off the disk when the
// store has written, which Erase waits for.
func (m *Memory) Erase(ctx context.Context, scope, key string) error {
	scope = cmp.Or(scope, Home)
	if err := valid("scope", scope); err != nil {
		return err
	}
	if err := valid("key", key); err != nil {
		return err
	}
	return m.drop(ctx, roomFact, name(roomFact, scope, key), key)
}

func (m *Memory) drop(ctx context.Context, room, at, key string) error {
	done, err := m.write(ctx)
	if err != nil {
		return err
	}
	defer done()
	m.mu.RLock()
	h := m.keys[at]
	m.mu.RUnlock()
	if h == nil {
		return fmt.Errorf("memory: erase %s: %w", key, ErrNone)
	}
	// Deleting may wait in the store's window; a history of nothing may not.
	gone, err := json.Marshal(history{h.Scope, h.Key, []version{{Known: time.Now().UTC()}}})
	if err == nil {
		err = m.store.Put(ctx, at, gone, true)
	}
	if err != nil {
		return fmt.Errorf("memory: erase %s: %w", key, err)
	}
	m.mu.Lock()
	delete(m.keys, at)
	m.count[room]--
	m.mu.Unlock()
	if err := m.store.Delete(ctx, at); err != nil {
		return fmt.Errorf("memory: erase %s: %w", key, err)
	}
	return nil
}

// History gives everything that was said of a key, oldest first, with nil as
// the value of what was forgotten.
func (m *Memory) History(ctx context.Context, scope, key string) []Fact {
	m.mu.RLock()
	h := m.keys[name(roomFact, cmp.Or(scope, Home), key)]
	m.mu.RUnlock()
	if h == nil {
		return nil
	}
	var out []Fact
	for i := range h.Versions {
		v := &h.Versions[i]
		if v.Value == nil {
			out = append(out, Fact{Scope: h.Scope, Key: h.Key, From: v.From, Until: v.Until, Known: v.Known, By: v.By})
			continue
		}
		out = append(out, h.fact(v, v.From, v.Until))
		origin.Raise(ctx, v.whose())
	}
	return out
}
