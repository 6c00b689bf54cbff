package blackboard

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Status is what the board is and has counted since it was opened.
type Status struct {
	Mode     string `json:"mode"` // "ok", "readonly" or "full": what the file takes; "damaged": it takes all, but see Damages; "memory": there is none
	Path     string `json:"path,omitempty"`
	Trouble  string `json:"trouble,omitempty"` // why it is not ok, and what to do
	Keys     int    `json:"keys"`
	Dirty    int    `json:"dirty"` // changes that are not on disk yet
	Watches  int    `json:"watches"`
	Requests int    `json:"requests"` // that wait for an answer

	Sets      uint64 `json:"sets"`
	Repeats   uint64 `json:"repeats"` // sets of the value a key had
	Commits   uint64 `json:"commits"`
	Failed    uint64 `json:"failed,omitempty"` // commits
	Records   uint64 `json:"records"`          // written by commits
	Bytes     uint64 `json:"bytes"`            // written by commits
	Snapshots uint64 `json:"snapshots"`
	Collapsed uint64 `json:"collapsed,omitempty"` // changes that a full queue merged
	Late      uint64 `json:"late,omitempty"`      // setters that did not wait for a sync watcher to its end
	Checksum  uint64 `json:"checksum,omitempty"`  // records that were not what had been written
	Corrupt   uint64 `json:"corrupt,omitempty"`   // files moved aside
	Expired   uint64 `json:"expired,omitempty"`   // keys and requests whose time was over
	Refused   uint64 `json:"refused,omitempty"`   // records beyond a journal's limits

	Damages []Damage `json:"damages,omitempty"` // what was stored and is lost: keys that nobody has written anew, and files moved aside
}

// Status gives the board's state and counters.
func (b *Board) Status() Status {
	c := &b.count
	st := Status{
		Mode: "memory", Path: b.opt.Path,
		Commits: c.commits.Load(), Failed: c.failed.Load(),
		Records: c.records.Load(), Bytes: c.bytes.Load(), Snapshots: c.snapshots.Load(), Late: c.late.Load(),
		Checksum: c.checksum.Load(), Corrupt: c.corrupt.Load(), Expired: c.expired.Load(),
	}
	st.Damages = b.Damages()
	b.watches.mu.Lock()
	watches := slices.Clone(b.watches.all)
	b.watches.mu.Unlock()
	st.Watches = len(watches)
	for _, w := range watches {
		st.Collapsed += w.Collapsed()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.entries {
		if e.present {
			st.Keys++
		}
	}
	for _, j := range b.logs.journals {
		st.Refused += j.full
	}
	st.Sets, st.Repeats, st.Requests = b.sets, b.repeats, b.reqs.open
	st.Dirty = len(b.commits.dirty) + len(b.commits.extra)
	if b.store != nil {
		st.Mode = "ok"
	}
	if len(st.Damages) > 0 {
		st.Mode = "damaged"
	}
	if t := b.commits.trouble; t != nil {
		st.Trouble, st.Mode = t.Error(), "readonly"
		if t.Kind == ErrFull {
			st.Mode = "full"
		}
	}
	return st
}

// Keys lists the keys with a prefix, sorted, those whose value is damaged among
// them.
func (b *Board) Keys(prefix string) []string {
	b.mu.Lock()
	keys := make([]string, 0, len(b.entries))
	for k, e := range b.entries {
		if e.present && strings.HasPrefix(k, prefix) {
			keys = append(keys, k)
		}
	}
	for r := range b.damaged {
		if r.bucket == bucketValues && strings.HasPrefix(r.key, prefix) {
			keys = append(keys, r.key)
		}
	}
	b.mu.Unlock()
	slices.Sort(keys)
	return keys
}

// Snapshot gives all values of the keys with a prefix as of one moment. The
// map is the caller's.
func (b *Board) Snapshot(prefix string) map[string]any {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := make(map[string]any)
	for k, e := range b.entries {
		if e.present && strings.HasPrefix(k, prefix) {
			m[k] = e.value
		}
	}
	return m
}

// lapse is called by the wheel when a key's time is over. The removal may have
// to wait for a commit and may call sync watches, which the wheel must not.
func (b *Board) lapse(e *entry) {
	time.AfterFunc(0, func() {
		err := b.mutate(context.Background(), "ttl", opExpire, Group, []string{e.key}, func(v *view) error {
			s := v.state(e.key)
			if v.entry(e.key) == e && s.present && s.ttl > 0 && !time.Now().Before(e.due) {
				v.delete(e.key)
				b.count.expired.Add(1)
			}
			return nil
		})
		if err != nil {
			b.opt.Log.Warn("blackboard key did not expire", "key", e.key, "err", err)
		}
	})
}

// graves remember the versions of keys that were removed lately, so that a key
// that comes back goes on counting. They are bounded: very old ones begin at 1.
type graves struct {
	version map[string]uint64
	order   []string
	next    int
}

const maxGraves = 4096

func (g *graves) init() { g.version = map[string]uint64{} }

func (g *graves) put(key string, version uint64) {
	if version == 0 {
		return
	}
	if _, ok := g.version[key]; !ok {
		if len(g.order) < maxGraves {
			g.order = append(g.order, key)
		} else {
			delete(g.version, g.order[g.next])
			g.order[g.next] = key
			g.next = (g.next + 1) % maxGraves
		}
	}
	g.version[key] = version
}

func (g *graves) take(key string) uint64 { return g.version[key] }
