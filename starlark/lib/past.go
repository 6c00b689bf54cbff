package lib

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"edged/background"
	"edged/bus"
)

// pastRecord is the window of restarts of an agent or a tree, as it is kept,
// and that it gave up. Ages are counted as in countdown.go: what passed while
// the robot was off is added if the wall clock can be believed.
type pastRecord struct {
	Restarts   []time.Duration `json:"restarts,omitempty"` // how long before At
	At         time.Time       `json:"at"`
	GiveUps    int             `json:"give_ups,omitempty"`
	LastGiveUp time.Time       `json:"last_give_up,omitzero"`
	GaveUp     string          `json:"gave_up,omitempty"`
}

// mostRestarts is how many restarts a record holds, the newest ones.
const mostRestarts = 1000

// past is what an agent or a tree is known for after a restart of the process.
// Records are written within the board's window, not at once: a supervisor must
// not wait for the disk before it stops what failed.
type past struct {
	b     *Behaviour
	key   string
	stays bool        // a give-up lasts; that of an inner tree is its parent's affair
	fresh atomic.Bool // somebody starts it
}

var _ background.Memory = (*past)(nil)

func (b *Behaviour) pastOf(kind, name string) *past {
	return &past{b: b, key: kind + "/" + name, stays: kind == "agent"}
}

// anew lets the next start be one with an empty window, whatever was before.
func (p *past) anew() { p.fresh.Store(true) }

// Recall implements background.Memory.
func (p *past) Recall() (was background.Past) {
	text, ok := p.b.room("background").Get(p.key)
	if !ok {
		return was
	}
	var rec pastRecord
	if err := json.Unmarshal(text, &rec); err != nil {
		p.b.drop("background", p.key, fmt.Errorf("the record of %q can't be read: %w", p.key, err))
		return was
	}
	was.GiveUps, was.LastGiveUp = rec.GiveUps, rec.LastGiveUp
	if p.fresh.Load() || p.b.before.Load() != nil { // a person, a script, a reload
		p.Keep(was)
		return was
	}
	off, _ := offFor(p.b.wall().Sub(rec.At))
	for _, age := range rec.Restarts {
		was.Restarts = append(was.Restarts, age+off)
	}
	was.GaveUp = rec.GaveUp
	return was
}

// Keep implements background.Memory.
func (p *past) Keep(now background.Past) {
	if p.b.old.Load() {
		return
	}
	rec := pastRecord{Restarts: now.Restarts, At: p.b.wall(), GiveUps: now.GiveUps, LastGiveUp: now.LastGiveUp}
	switch {
	case now.GaveUp == "":
	case p.stays:
		rec.GaveUp = now.GaveUp
	default:
		rec.Restarts = nil // who starts it, or the whole process, again, is the cure
	}
	if more := len(rec.Restarts) - mostRestarts; more > 0 {
		rec.Restarts = rec.Restarts[more:]
	}
	text, err := json.Marshal(rec)
	if err == nil {
		err = p.b.room("background").Put(context.WithoutCancel(p.b.life), p.key, text, false)
	}
	p.b.noted(err)
}

// rootOptions are those of the supervisor of everything in the folder.
func (b *Behaviour) rootOptions() background.Options {
	kept := b.pastOf("root", b.folder)
	return background.Options{Bus: b.host.Bus, Memory: kept, OnGiveUp: func(e *background.GaveUpError) {
		kept.stays = b.host.GaveUp == nil || b.host.GaveUp(e)
	}}
}

// startRoot starts what is supervised, unless the robot goes on without it
// since before the process was started.
func (b *Behaviour) startRoot() error {
	err := b.root.Start(b.life)
	if e := (*background.GaveUpError)(nil); errors.As(err, &e) && !e.Since.IsZero() {
		b.report(b.life, "script:"+b.folder, err, bus.Event{})
		return nil
	}
	return err
}

// Failed reports whether something that runs by itself is down for good, and a
// reload of the same scripts would start it again.
func (b *Behaviour) Failed() bool {
	b.mu.Lock()
	pools := b.pools
	b.mu.Unlock()
	for _, p := range pools {
		for _, a := range p.p.Status().Agents {
			if a.Background != nil && a.Background.State == background.Failed {
				return true
			}
		}
	}
	return failed(b.root.Status())
}

func failed(t background.Status) bool {
	return t.State == background.Failed || slices.ContainsFunc(t.Children, failed)
}
