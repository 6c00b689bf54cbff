package lib

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"edged/bus"
)

// A Takeover is what became of the version before when this one took its place.
type Takeover struct {
	Taken     int `json:"taken"`               // events, changes and firings that waited, and wait here now
	Lost      int `json:"lost,omitempty"`      // that nothing here listens for any more; each is told
	Dropped   int `json:"dropped,omitempty"`   // tasks that waited for background agents, which begin empty
	Cancelled int `json:"cancelled,omitempty"` // runs that did not end in time
}

// Takeover tells what became of the version before; nil if there was none.
func (b *Behaviour) Takeover() *Takeover { return b.takeover.Load() }

// standing is a part with a queue. When a version is replaced the part of the
// next one that stands for the same takes over what waits in it.
type standing interface {
	part
	stands() stance
	// handTo ends the listening and hands over what waits; to may be nil. It
	// names what nobody took.
	handTo(to standing) (moved int, lost []string)
	// hold lets the part begin nothing before release is called.
	hold() (release func())
	// idle reports whether nothing that it has begun is going on.
	idle() bool
}

// stance is what a part stands for.
type stance struct{ kind, hears, fn string }

// heirs finds for each part of a version the one of the next that stands for
// the same: what listens to the same and calls a function of the same name,
// else what listens to the same, else what calls the same named function and
// listens to other topics now. Each is the heir of one.
func heirs(old, next []part) map[standing]standing {
	var from, to []standing
	for _, p := range old {
		if s, ok := p.(standing); ok {
			from = append(from, s)
		}
	}
	for _, p := range next {
		if s, ok := p.(standing); ok {
			to = append(to, s)
		}
	}
	found := make(map[standing]standing)
	for _, alike := range []func(a, b stance) bool{
		func(a, b stance) bool { return a == b },
		func(a, b stance) bool { return a.hears == b.hears },
		func(a, b stance) bool { return a.fn == b.fn && a.fn != "lambda" },
	} {
		for _, s := range from {
			if found[s] != nil {
				continue
			}
			mine := s.stands()
			at := slices.IndexFunc(to, func(t standing) bool {
				theirs := t.stands()
				return mine.kind == theirs.kind && alike(mine, theirs)
			})
			if at >= 0 {
				found[s] = to[at]
				to = slices.Delete(to, at, at+1)
			}
		}
	}
	return found
}

// handQueue hands over the queue of one subscription to another, which may be
// nil.
func handQueue(from, to *bus.Subscription) (moved int, lost []string) {
	if from == nil {
		return 0, nil
	}
	for _, e := range from.Hand() {
		if to != nil && to.Push(e) {
			moved++
		} else {
			lost = append(lost, e.Topic)
		}
	}
	return moved, lost
}

// Swap puts one behaviour in the place of another, between two events: none is
// lost and none is heard twice. If the new one can't start, the old one goes
// on. What waits in the queues of the old one goes over to the new one, and so
// do durable waits and timers. What the old one has begun it may finish until
// ctx ends; a part of the new one begins when the one it stands for is through.
// Background agents begin empty. What nobody takes over is counted and told,
// see [Behaviour.Takeover].
func Swap(ctx context.Context, old, next *Behaviour) error {
	resume := next.host.Bus.Pause()
	old.clock.note()
	next.before.Store(old)
	defer next.before.Store(nil)
	if err := next.begin(old.base); err != nil {
		next.detach()
		resume()
		_ = next.finish(ctx) // the error that counts is why it did not start
		return err
	}
	next.live.Store(true)
	old.live.Store(false)
	old.old.Store(true)
	t, held, told := old.handOver(next)
	next.accepted()
	stay := old.handoff()
	next.resume(stay, true)
	next.resumeTimers(true)
	resume()
	for _, err := range told {
		next.report(next.life, "reload", err, bus.Event{})
	}
	stopped := make(chan error, 1)
	if !old.spawn(func() { stopped <- old.stopBackground(ctx) }) {
		stopped <- nil // finish does it
	}
	held.drain(ctx, old)
	if t.Cancelled = old.runs.len(); ctx.Err() == nil {
		t.Cancelled = 0
	}
	old.detach()
	err := errors.Join(<-stopped, old.finish(ctx))
	held.release()
	next.takeover.Store(t)
	next.resume(nil, true) // what the old runs left
	next.resumeTimers(true)
	next.resumeRuns()
	return err
}

// handOver moves what waits. The bus is paused.
func (b *Behaviour) handOver(next *Behaviour) (t *Takeover, held handovers, told []error) {
	t = &Takeover{Dropped: b.backlog()}
	parts := b.all()
	to := heirs(parts, next.all())
	for _, p := range parts {
		s, ok := p.(standing)
		if k, is := p.(*ticker); is && !k.loaded {
			if err := k.carry(next); err != nil {
				t.Lost++
				told = append(told, err)
			}
		}
		if !ok {
			p.close()
			continue
		}
		heir := to[s]
		if heir != nil && !s.idle() {
			held = append(held, handover{s, succeed(s, heir)})
		}
		moved, lost := s.handTo(heir)
		t.Taken += moved
		t.Lost += len(lost)
		if len(lost) > 0 {
			h := s.summary()
			told = append(told, fmt.Errorf("%s waited for %s (%s), and nothing in the new version listens for them: %s",
				plural(len(lost), "event"), h.Handler, h.At, counted(lost)))
		}
	}
	if t.Dropped > 0 {
		told = append(told, fmt.Errorf("background agents begin empty: %s dropped", plural(t.Dropped, "task")))
	}
	next.mu.Lock()
	next.lost = b.lostSoFar() + uint64(t.Lost+t.Dropped)
	next.mu.Unlock()
	return t, held, told
}

// succeed holds the heir of a part that has not finished.
func succeed(s, heir standing) (release func()) {
	begin := heir.hold()
	old, ok := s.(*listener)
	next, ok2 := heir.(*listener)
	if !ok || !ok2 {
		return begin
	}
	next.before.Store(old) // a newer event ends its run, in mode restart
	return func() {
		next.before.Store(nil)
		begin()
	}
}

// lostSoFar is what this version and those before it did not take over.
func (b *Behaviour) lostSoFar() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lost
}

// backlog is how many tasks wait for background agents.
func (b *Behaviour) backlog() (n int) {
	b.mu.Lock()
	units, pools := slices.Clone(b.units), slices.Clone(b.pools)
	b.mu.Unlock()
	for _, u := range units {
		if u.agent != nil {
			n += u.agent.Status().Queue
		}
	}
	for _, p := range pools {
		for _, a := range p.p.Status().Agents {
			if a.Background != nil {
				n += a.Background.Queue
			}
		}
	}
	return n
}

// handover is a part of the old version that has not finished, and what its heir
// waits for.
type handover struct {
	of      standing
	release func()
}

type handovers []handover

// drainLook is the time between two looks at whether a version that was
// replaced is through.
const drainLook = 5 * time.Millisecond

// drain waits until the old version is through with what it has begun, and lets
// the new one begin part by part.
func (h *handovers) drain(ctx context.Context, old *Behaviour) {
	t := time.NewTicker(drainLook)
	defer t.Stop()
	for {
		*h = slices.DeleteFunc(*h, func(k handover) bool {
			if !k.of.idle() {
				return false
			}
			k.release()
			return true
		})
		// Who is idle starts no more runs, so these are counted last.
		if len(*h) == 0 && old.idle() && old.runs.len() == 0 {
			return
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// idle reports whether no part has anything left that it took.
func (b *Behaviour) idle() bool {
	return !slices.ContainsFunc(b.all(), func(p part) bool {
		s, ok := p.(standing)
		return ok && !s.idle()
	})
}

// release lets all begin: what has not ended by now was cancelled.
func (h *handovers) release() {
	for _, k := range *h {
		k.release()
	}
	*h = nil
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// counted lists names, each once, with how often it is there.
func counted(names []string) string {
	n := make(map[string]int)
	var list []string
	for _, s := range names {
		if n[s]++; n[s] == 1 {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(n[b]-n[a], cmp.Compare(a, b)) })
	for i, s := range list {
		if i == 10 {
			list = append(list[:i], "…")
			break
		}
		if n[s] > 1 {
			list[i] = fmt.Sprintf("%s (%d times)", s, n[s])
		}
	}
	return strings.Join(list, ", ")
}
