package lib

import (
	"context"
	"fmt"
	"sync"

	"edged/bus"
	"edged/starlark/value"
)

// What an isolated folder may keep on the blackboard: the board is in memory,
// and such scripts are not to fill the robot's.
const (
	boardBytes = 16 << 20
	boardKeys  = 10_000
)

// boardShare counts what a behaviour keeps on the board: the keys it set, and
// those of its folder that were there.
type boardShare struct {
	mu      sync.Mutex // guards the rest
	size    map[string]int
	bytes   int
	refused uint64
}

// fits checks that values fit, and counts them. Nil deletes.
func (b *Behaviour) fits(values map[string]any) error {
	if b.remote == nil && b.child == nil {
		return nil
	}
	err, first := b.kept.fit(b, values)
	if first { // the script may not tell it
		b.host.Bus.Report(context.Background(), "script:"+b.folder, err, bus.Event{})
	}
	return err
}

// fit is fits; first says that it is the first refusal.
func (r *boardShare) fit(b *Behaviour, values map[string]any) (err error, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size == nil {
		r.size = map[string]int{}
		for k, v := range b.host.Board.Snapshot(b.folder + "/") {
			r.put(k, v)
		}
	}
	before := map[string]int{}
	for k, v := range values {
		before[k] = r.size[k]
		r.put(k, v)
	}
	if r.bytes <= boardBytes && len(r.size) <= boardKeys {
		return nil, false
	}
	for k, n := range before {
		r.bytes += n - r.size[k]
		if r.size[k] = n; n == 0 {
			delete(r.size, k)
		}
	}
	r.refused++
	return &value.Error{
		Msg:  fmt.Sprintf("%s keeps %d keys and %d KiB on the board; isolated scripts may keep %d and %d KiB", b.folder, len(r.size), r.bytes>>10, boardKeys, boardBytes>>10),
		Hint: "delete what is not needed any more, or keep less of it",
	}, r.refused == 1
}

// count is how many writes were refused.
func (r *boardShare) count() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

// put counts one value; the caller holds mu.
func (r *boardShare) put(key string, v any) {
	r.bytes -= r.size[key]
	delete(r.size, key)
	if v == nil {
		return
	}
	text, err := value.EncodeJSON(v)
	if err != nil { // the board will say what is wrong with it
		return
	}
	r.size[key] = len(key) + len(text)
	r.bytes += r.size[key]
}
