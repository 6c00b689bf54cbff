package background

import (
	"container/list"

	"edged/bus"
)

// A KeyFunc says which events share a window. An error is a crash of the agent.
type KeyFunc func(e bus.Event) (string, error)

// ByTopic gives each topic its own window.
func ByTopic(e bus.Event) (string, error) { return e.Topic, nil }

// maxKeys is how many keys a trigger remembers unless it is told otherwise.
const maxKeys = 4096

// keyed is a bounded map of what a trigger remembers per key, in the order of
// last use.
type keyed[T any] struct {
	limit int
	m     map[string]*list.Element // of *entry[T]
	order list.List                // least recently used first
}

type entry[T any] struct {
	key   string
	value T
}

func newKeyed[T any](limit int) *keyed[T] {
	if limit <= 0 {
		limit = maxKeys
	}
	return &keyed[T]{limit: limit, m: map[string]*list.Element{}}
}

// get finds a key and counts as a use of it, or gives nil.
func (k *keyed[T]) get(key string) *T {
	el, ok := k.m[key]
	if !ok {
		return nil
	}
	k.order.MoveToBack(el)
	return &el.Value.(*entry[T]).value
}

// add remembers a new key. If there are too many, the least recently used one
// is forgotten and given back.
func (k *keyed[T]) add(key string, v T) (at *T, lost *T) {
	if len(k.m) >= k.limit {
		_, lost = k.oldest()
		k.drop(k.order.Front())
	}
	e := &entry[T]{key, v}
	k.m[key] = k.order.PushBack(e)
	return &e.value, lost
}

func (k *keyed[T]) oldest() (string, *T) {
	el := k.order.Front()
	if el == nil {
		return "", nil
	}
	e := el.Value.(*entry[T])
	return e.key, &e.value
}

func (k *keyed[T]) drop(el *list.Element) {
	delete(k.m, el.Value.(*entry[T]).key)
	k.order.Remove(el)
}

func (k *keyed[T]) remove(key string) {
	if el, ok := k.m[key]; ok {
		k.drop(el)
	}
}
