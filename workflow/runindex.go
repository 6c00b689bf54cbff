package workflow

import (
	"cmp"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// The law of this file: it knows of every record that this process has written
// or deleted, and of all that were there before. So listing, ending and
// forgetting runs reads the records that they are about, and no others.

// runIndex is what there is in a store. [Runs.mu] guards it.
type runIndex struct {
	heads map[string]*runHead
	over  []*runHead // whose end is known, the oldest end first
}

// runHead is one run. Its header is not changed any more: another one takes its
// place.
type runHead struct {
	id    string
	h     *header // nil: it has none, or none that can be read
	bad   error   // why it can't be read
	paths map[string]struct{}
}

func (h *runHead) ended() time.Time {
	if h.h == nil {
		return time.Time{}
	}
	return h.h.Ended
}

// index gives what is known of the store, which is read the first time. The
// caller holds mu, so that nothing is written meanwhile and not noted.
func (r *Runs) index() *runIndex {
	if r.known != nil {
		return r.known
	}
	x := &runIndex{heads: map[string]*runHead{}}
	var list []*runHead
	var texts [][]byte
	for name, text := range r.store.All() {
		id, path, step := strings.Cut(name, "/")
		if step {
			x.at(id).step(path)
			continue
		}
		list, texts = append(list, x.at(id)), append(texts, text)
	}
	readHeads(list, texts)
	for _, h := range list {
		if !h.ended().IsZero() {
			x.over = append(x.over, h)
		}
	}
	slices.SortFunc(x.over, byEnd)
	r.known = x
	return x
}

// readHeads reads headers: most of the time that a long list takes, so all
// processors do it.
func readHeads(list []*runHead, texts [][]byte) {
	part := max(len(list)/runtime.GOMAXPROCS(0)+1, 64)
	var all sync.WaitGroup
	for from := 0; from < len(list); from += part {
		all.Go(func() {
			for i := from; i < min(from+part, len(list)); i++ {
				h := &header{}
				if list[i].bad = decodeInto(texts[i], h); list[i].bad == nil {
					h.ID = list[i].id
					list[i].h = h
				}
			}
		})
	}
	all.Wait()
}

func byEnd(a, b *runHead) int {
	return cmp.Or(a.ended().Compare(b.ended()), cmp.Compare(a.id, b.id))
}

func byStart(a, b *runHead) int {
	var x, y time.Time
	if a.h != nil {
		x = a.h.Started
	}
	if b.h != nil {
		y = b.h.Started
	}
	return cmp.Or(x.Compare(y), cmp.Compare(a.id, b.id))
}

// at gives the place of a run.
func (x *runIndex) at(id string) *runHead {
	h := x.heads[id]
	if h == nil {
		h = &runHead{id: id}
		x.heads[id] = h
	}
	return h
}

func (h *runHead) step(path string) {
	if h.paths == nil {
		h.paths = map[string]struct{}{}
	}
	h.paths[path] = struct{}{}
}

// leave takes a run out of those that are over.
func (x *runIndex) leave(h *runHead) {
	if h.ended().IsZero() {
		return
	}
	if i, ok := slices.BinarySearchFunc(x.over, h, byEnd); ok {
		x.over = slices.Delete(x.over, i, i+1)
	}
}

// noteHead notes that the record of a run itself was written.
func (r *Runs) noteHead(h *header) {
	now := *h
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		return // it is read from the store
	}
	head := r.known.at(h.ID)
	r.known.leave(head)
	head.h, head.bad = &now, nil
	if !now.Ended.IsZero() {
		i, _ := slices.BinarySearchFunc(r.known.over, head, byEnd)
		r.known.over = slices.Insert(r.known.over, i, head)
	}
}

// noteStep notes that the record of a step was written.
func (r *Runs) noteStep(id, path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known != nil {
		r.known.at(id).step(path)
	}
}

// noteDropped notes that the record of a step was deleted.
func (r *Runs) noteDropped(id, path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known != nil && r.known.heads[id] != nil {
		delete(r.known.heads[id].paths, path)
	}
}

// noteForgotten notes that all records of a run were deleted.
func (r *Runs) noteForgotten(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil || r.known.heads[id] == nil {
		return
	}
	r.known.leave(r.known.heads[id])
	delete(r.known.heads, id)
}

// paths gives the steps of a run that have records, in the order of their
// names.
func (r *Runs) paths(id string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.index().heads[id]; h != nil {
		return slices.Sorted(maps.Keys(h.paths))
	}
	return nil
}

// spare names the runs that are over and more than are kept, the oldest first.
func (r *Runs) spare() (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	over := r.index().over
	for _, h := range over[:max(len(over)-r.keep, 0)] {
		ids = append(ids, h.id)
	}
	return ids
}
