package blackboard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"edged/bus"
)

// model is a board without anything: keys and versions.
type model struct {
	values   map[string]any
	versions map[string]uint64
	events   []string
}

func (m *model) put(key string, v any) {
	old, had := m.values[key]
	if !had || !same(old, v) {
		m.versions[key]++
	}
	m.values[key] = v
	m.events = append(m.events, fmt.Sprintf("%s %v %v %d", key, old, v, m.versions[key]))
}

func (m *model) delete(key string) bool {
	old, had := m.values[key]
	if had {
		delete(m.values, key)
		m.versions[key]++
		m.events = append(m.events, fmt.Sprintf("%s %v deleted %d", key, old, m.versions[key]))
	}
	return had
}

var (
	drawKey   = rapid.SampledFrom([]string{"a", "b", "a/b", "a/c", "#+", "ü"})
	drawMode  = rapid.SampledFrom([]Mode{Default, Group, Sync})
	drawValue = rapid.OneOf(
		rapid.Just[any](nil), rapid.Just[any](int64(0)), rapid.Just[any](0.0), rapid.Just[any](""), rapid.Just[any]("0"),
		rapid.Just[any]([]byte{}), rapid.Just[any]([]any{}), rapid.Just[any](map[string]any{}),
		rapid.Custom(func(t *rapid.T) any { return rapid.Int64().Draw(t, "int") }),
		rapid.Custom(func(t *rapid.T) any { return rapid.String().Draw(t, "text") }),
		rapid.Custom(func(t *rapid.T) any {
			return map[string]any{"k": []any{rapid.Bool().Draw(t, "bool"), rapid.Float64Range(-1, 1).Draw(t, "float")}}
		}),
	)
)

// Whatever is done, in whatever mode: the board equals the model, watchers see
// exactly the committed sequence, and so does who opens the file again.
func TestBoardEqualsModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		o := file(t)
		hub := bus.New(bus.Options{})
		d, err := Open(hub, o)
		if err != nil {
			rt.Fatal(err)
		}
		m := &model{values: map[string]any{}, versions: map[string]uint64{}}
		var told []string
		watch := func() {
			_, err := d.Watch("*", WatchOptions{Sync: true}, func(_ context.Context, c Change) error {
				if c.Deleted {
					told = append(told, fmt.Sprintf("%s %v deleted %d", c.Key, c.Old, c.Version))
				} else {
					told = append(told, fmt.Sprintf("%s %v %v %d", c.Key, c.Old, c.New, c.Version))
				}
				return nil
			})
			if err != nil {
				rt.Fatal(err)
			}
		}
		watch()
		step := modelSteps(d, m)
		step["reopen"] = func(rt *rapid.T) {
			if err := d.Close(); err != nil {
				rt.Fatal(err)
			}
			next, err := Open(hub, o)
			if err != nil {
				rt.Fatal(err)
			}
			d = next
			watch()
			maps.DeleteFunc(m.versions, func(k string, _ uint64) bool { _, ok := m.values[k]; return !ok })
			maps.Copy(step, modelSteps(d, m))
		}
		step[""] = func(rt *rapid.T) {
			if got := d.Snapshot(""); !reflect.DeepEqual(got, m.values) {
				rt.Fatalf("board %v, model %v", got, m.values)
			}
			for k := range m.values {
				if e, _ := d.Entry(k); e.Version != m.versions[k] {
					rt.Fatalf("%s: version %d, model %d", k, e.Version, m.versions[k])
				}
			}
			if !slices.Equal(told, m.events) {
				rt.Fatalf("told  %q\nmodel %q", told, m.events)
			}
		}
		rt.Repeat(step)
		r := copyOf2(rt, d)
		if got := r.Snapshot(""); !reflect.DeepEqual(got, m.values) {
			rt.Fatalf("copy of the file %v, model %v", got, m.values)
		}
		_ = r.Close()
		_ = d.Close()
		_ = hub.Close(ctx)
	})
}

// copyOf2 opens a copy of the board's file after a flush.
func copyOf2(rt *rapid.T, d *Board) *Board {
	if err := d.Flush(ctx); err != nil {
		rt.Fatal(err)
	}
	to := d.opt.Path + ".copy"
	if err := copyFile(d.opt.Path, to); err != nil {
		rt.Fatal(err)
	}
	r, err := Open(bus.New(bus.Options{}), Options{Path: to})
	if err != nil {
		rt.Fatal(err)
	}
	return r
}

func modelSteps(d *Board, m *model) map[string]func(*rapid.T) {
	fail := func(rt *rapid.T, err error) {
		if err != nil {
			rt.Fatal(err)
		}
	}
	return map[string]func(*rapid.T){
		"set": func(rt *rapid.T) {
			k, v := drawKey.Draw(rt, "key"), drawValue.Draw(rt, "value")
			_, err := d.Set(ctx, "m", k, v, SetOptions{Mode: drawMode.Draw(rt, "mode")})
			fail(rt, err)
			m.put(k, v)
		},
		"delete": func(rt *rapid.T) {
			k := drawKey.Draw(rt, "key")
			had, err := d.Delete(ctx, "m", k)
			fail(rt, err)
			if had != m.delete(k) {
				rt.Fatalf("delete %s: %v", k, had)
			}
		},
		"update": func(rt *rapid.T) {
			up := rapid.MapOfN(drawKey, drawValue, 0, 4).Draw(rt, "values")
			fail(rt, d.Update(ctx, "m", up, SetOptions{Mode: drawMode.Draw(rt, "mode")}))
			for _, k := range slices.Sorted(maps.Keys(up)) {
				m.put(k, up[k])
			}
		},
		"cas": func(rt *rapid.T) {
			k, v := drawKey.Draw(rt, "key"), drawValue.Draw(rt, "value")
			version := rapid.Uint64Range(0, 4).Draw(rt, "version")
			done, err := d.CAS(ctx, "m", k, Compare{Version: &version}, v)
			fail(rt, err)
			_, had := m.values[k]
			expect := had && m.versions[k] == version || !had && version == 0
			if done != expect {
				rt.Fatalf("cas %s: %v, model %v", k, done, expect)
			}
			if done {
				m.put(k, v)
			}
		},
		"incr": func(rt *rapid.T) {
			k := drawKey.Draw(rt, "key")
			sum, err := d.Incr(ctx, "m", k, 1)
			old, had := m.values[k]
			switch n := old.(type) {
			case int64:
				if n == math.MaxInt64 { // there is no such number: nothing changes
					if !errors.Is(err, ErrNumber) {
						rt.Fatalf("incr of %d: %v %v", n, sum, err)
					}
					return
				}
				fail(rt, err)
				m.put(k, n+1)
			case float64:
				fail(rt, err)
				m.put(k, n+1)
			default:
				if !had {
					m.put(k, int64(1))
				} else if !errors.Is(err, ErrNumber) {
					rt.Fatalf("incr of %v: %v %v", old, sum, err)
				}
			}
		},
		"transact": func(rt *rapid.T) {
			from, to := drawKey.Draw(rt, "from"), drawKey.Draw(rt, "to")
			fail(rt, d.Transact(ctx, "m", func(x *Tx) error {
				v, ok := x.Get(from)
				x.Delete(from)
				if ok {
					return x.Set(to, v, SetOptions{})
				}
				return nil
			}))
			v, ok := m.values[from]
			if from == to {
				if ok {
					m.put(to, v)
				}
				return
			}
			m.delete(from)
			if ok {
				m.put(to, v)
			}
		},
	}
}

// Many writers of few keys in all modes, with watchers: each watcher sees
// every version of each key once, in order, and the last one is what is stored.
func TestConcurrentWriters(t *testing.T) {
	d := open(t, file(t))
	type seen struct {
		mu   sync.Mutex
		last map[string]uint64
		n    int
	}
	watch := func(o WatchOptions) *seen {
		s := &seen{last: map[string]uint64{}}
		_, err := d.Watch("k*", o, func(_ context.Context, c Change) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			if c.Version != s.last[c.Key]+1 {
				t.Errorf("%s: version %d after %d", c.Key, c.Version, s.last[c.Key])
			}
			s.last[c.Key] = c.Version
			s.n++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	all := []*seen{watch(WatchOptions{Sync: true}), watch(WatchOptions{Queue: 1 << 20, On: OnChange})}
	var wg sync.WaitGroup
	const writers, rounds = 6, 150
	for w := range writers {
		wg.Go(func() {
			for i := range rounds {
				k := fmt.Sprint("k", i%5)
				switch (w + i) % 5 {
				case 0, 1:
					set(t, d, k, fmt.Sprint(w, i), SetOptions{Mode: Memory})
				case 2:
					set(t, d, k, fmt.Sprint(w, i), SetOptions{Mode: Sync})
				case 3:
					if err := d.Update(ctx, "test", map[string]any{k: fmt.Sprint(w, i)}, SetOptions{}); err != nil {
						t.Error(err)
					}
				case 4:
					err := d.Transact(ctx, "test", func(x *Tx) error { x.Get(k); return x.Set(k, fmt.Sprint(w, i), SetOptions{}) })
					if err != nil {
						t.Error(err)
					}
				}
				d.Get(k)
				d.Snapshot("")
			}
		})
	}
	wg.Wait()
	for _, s := range all {
		for {
			s.mu.Lock()
			n := s.n
			s.mu.Unlock()
			if n == writers*rounds {
				break
			}
		}
		for k, version := range s.last {
			if e, _ := d.Entry(k); e.Version != version {
				t.Errorf("%s: last told version %d, stored %d", k, version, e.Version)
			}
		}
	}
}
