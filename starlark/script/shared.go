package script

import (
	"runtime"
	"weak"

	"go.starlark.net/starlark"
)

// Some attributes are dicts to write into: ctx.state, floor.state. Nobody but
// scripts reads them, so those of an isolated script live in its host, each under
// a number that stands for the runtime's, and go when that one does.

// shared is such a dict on its way.
type shared struct{ *starlark.Dict }

// share gives an attribute's value as it is to be sent.
func share(v starlark.Value) starlark.Value {
	if d, ok := v.(*starlark.Dict); ok && mutable(d) {
		return shared{d}
	}
	return v
}

// mutable reports whether a dict is not frozen: what is frozen refuses to delete
// what is not in it.
func mutable(d *starlark.Dict) bool {
	_, _, err := d.Delete(starlark.String("\x00edged"))
	return err == nil
}

func (s *session) sendShared(e *encoder, d *starlark.Dict) {
	s.mu.Lock()
	key := weak.Make(d)
	id, known := s.shared[key]
	if !known {
		s.nextID++
		id = s.nextID
		if s.shared == nil {
			s.shared = make(map[weak.Pointer[starlark.Dict]]uint64)
		}
		s.shared[key] = id
		runtime.AddCleanup(d, s.unshare, key)
	}
	s.mu.Unlock()
	e.byte(wireShared)
	e.uint(id)
	e.value(d, 1)
}

// unshare is told that a dict is gone.
func (s *session) unshare(key weak.Pointer[starlark.Dict]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgotten = append(s.forgotten, s.shared[key])
	delete(s.shared, key)
}

// receiveShared gives the host's dict of a number, made when it is first seen.
func (h *host) receiveShared(d *decoder, depth int) (starlark.Value, error) {
	id := d.uint()
	first, ok := d.value(depth + 1).(*starlark.Dict)
	if !ok {
		return nil, errWire
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if own := h.shared[id]; own != nil {
		return own, nil
	}
	h.shared[id] = first
	h.own[first] = true
	return first, nil
}

// freeze freezes what came as an attribute, unless it is to be written into.
func (h *host) freeze(v starlark.Value) {
	if d, ok := v.(*starlark.Dict); ok {
		h.mu.Lock()
		own := h.own[d]
		h.mu.Unlock()
		if own {
			return
		}
	}
	v.Freeze()
}
