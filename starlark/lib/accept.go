package lib

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"edged/bus"
	"edged/bus/origin"
	"edged/starlark/script"
	"edged/starlark/value"
)

// What the top level does beyond declaring, it does only if its version is
// accepted: publishing, setting keys, writing files are collected while it
// loads and done, in order, when the version takes over, before any of its
// handlers hears anything. A version that is refused has done nothing. Whatever
// gives a result that only the doing knows is refused at the top level.

// draft is what a load has collected.
type draft struct {
	mu      sync.Mutex // guards the rest
	effects []func(ctx context.Context) error
	keys    map[string]any // what the board will hold; nil is absent
}

// later collects an effect of the top level; false elsewhere: then it is to be
// done now. Its error names the place.
func (b *Behaviour) later(c *value.Call, f func(ctx context.Context) error) bool {
	if !script.Loading(c.Thread) {
		return false
	}
	at, whose := where(c), origin.From(c.Context())
	b.draft.mu.Lock()
	defer b.draft.mu.Unlock()
	b.draft.effects = append(b.draft.effects, func(ctx context.Context) error {
		if err := f(origin.With(ctx, whose)); err != nil {
			return errors.Join(errors.New(at.String()+": "+c.Name()), err)
		}
		return nil
	})
	return true
}

// accepted does what the top level asked for. The bus is paused.
func (b *Behaviour) accepted() {
	b.draft.mu.Lock()
	effects := b.draft.effects
	b.draft.effects, b.draft.keys = nil, nil
	b.draft.mu.Unlock()
	for _, f := range effects {
		if err := f(b.life); err != nil {
			b.report(b.life, "script:"+b.folder, err, bus.Event{})
		}
	}
}

// drafted notes what the top level sets, for what it reads later on; absent is
// a deleted key.
func (d *draft) drafted(key string, v any, absent bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.keys == nil {
		d.keys = make(map[string]any)
	}
	if absent {
		v = gone{}
	}
	d.keys[key] = v
}

type gone struct{}

// get gives what the top level has set; known is false if it has not.
func (d *draft) get(key string) (v any, has, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v, known = d.keys[key]; !known {
		return nil, false, false
	}
	if _, is := v.(gone); is {
		return nil, false, true
	}
	return v, true, true
}

// over puts what the top level has set on top of what the board holds.
func (d *draft) over(prefix string, board map[string]any) map[string]any {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.keys) == 0 {
		return board
	}
	out := maps.Clone(board)
	for k, v := range d.keys {
		if _, is := v.(gone); is {
			delete(out, k)
		} else if strings.HasPrefix(k, prefix) {
			out[k] = v
		}
	}
	return out
}

// keysOver is over for the keys alone.
func (d *draft) keysOver(prefix string, keys []string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.keys) == 0 {
		return keys
	}
	all := make(map[string]bool)
	for _, k := range keys {
		all[k] = true
	}
	for k, v := range d.keys {
		if _, is := v.(gone); is {
			delete(all, k)
		} else if strings.HasPrefix(k, prefix) {
			all[k] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}
