// Package blackboard is the memory that all agents and scripts share: key →
// JSON value, ordered, versioned, durable.
//
// Its one rule: a change that is committed is an event, board/<key>, and events
// come in the order of the commits. Readers see a change at once (modes Memory
// and Group) or when it is on disk (Sync); if a change is on disk, every
// earlier one of the process is.
//
//	b := bus.New(bus.Options{})
//	board, err := blackboard.Open(b, blackboard.Options{Path: "robot.db"})
//	board.Watch("battery", blackboard.WatchOptions{}, func(ctx context.Context, c blackboard.Change) error {
//		fmt.Println(c.Key, c.Old, "→", c.New)
//		return nil
//	})
//	board.Set(ctx, "hw:battery", "battery", 0.72, blackboard.SetOptions{})
//
// Work is asked for and taken on the board too: see [Board.Post] and
// [Board.Volunteer]. Values that the board gives out are shared and must not be
// changed.
package blackboard

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"edged/bus"
	"edged/bus/origin"
	"edged/bus/timer"
)

// Mode says how durable a change is.
type Mode uint8

// The modes. Default means what [Board.Declare] says for the key, or Group.
const (
	Default Mode = iota
	Memory       // visible at once, never on disk
	Group        // visible at once, on disk within Options.Window
	Sync         // on disk before it is visible and before the call returns
)

func (m Mode) String() string {
	return [...]string{"default", "memory", "group", "sync"}[m&3]
}

// Options of a board; the zero value is a board in memory.
type Options struct {
	Path        string        // the file; "" keeps everything in memory. Its folder is made (0700) if missing
	Window      time.Duration // how long a Group change may wait for its commit; 1 s
	MaxValue    int           // bytes of one value; 1 MiB
	MaxSize     int64         // bytes of the file, 0 = no limit
	MaxRequests int           // requests that may wait for an answer; 65,536
	Snapshot    time.Duration // how often a changed file is copied aside; 1 h
	LockTimeout time.Duration // how long to wait for another process to let go of the file; 1 s
	Log         *slog.Logger

	// Hold keeps the events of opening, that the file was damaged say, until
	// [Board.Release]: whoever opens a board first has nobody yet who listens.
	Hold bool

	// OpenFile opens the file, os.OpenFile by default. It is how a test puts
	// a disk with faults beneath.
	OpenFile func(name string, flag int, perm fs.FileMode) (*os.File, error)
}

func (o *Options) fill() {
	if o.Window <= 0 {
		o.Window = time.Second
	}
	if o.MaxValue <= 0 {
		o.MaxValue = 1 << 20
	}
	if o.MaxRequests <= 0 {
		o.MaxRequests = 65536
	}
	if o.Snapshot <= 0 {
		o.Snapshot = time.Hour
	}
	if o.LockTimeout <= 0 {
		o.LockTimeout = time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.OpenFile == nil {
		o.OpenFile = os.OpenFile
	}
}

// A Board holds the values. All methods may be called concurrently and from
// watchers and volunteers. Whoever opened it closes it.
type Board struct {
	opt   Options
	bus   *bus.Bus
	wheel *timer.Wheel
	store *store // nil in memory
	done  bool   // the file is closed for good; guarded by committer.running

	mu      sync.Mutex // guards everything below but the counters; never held while calling out
	entries map[string]*entry
	rules   []declared
	closed  bool

	commits committer
	gone    graves
	watches watches
	reqs    requests
	logs    logs
	held    []news // events of opening, while holding
	holding bool
	damaged map[record]*defect // records that are not what had been written
	found   []record           // of them those that reading has found, until reportDamage
	ruins   []Damage           // files that were moved aside
	sets    uint64
	repeats uint64

	count counters
}

// An entry is one key. It stays in the map while the key is absent but its
// removal is not on disk yet.
type entry struct {
	key  string
	line *bus.Line // of its events; made at the first
	state
	rule    *Rule        // what Declare says, nil for the defaults
	flight  *batch       // a running commit that changes this key
	dirty   bool         // in committer.dirty
	disk    bool         // the file holds a record of it, or will after the running commit
	expiry  *timer.Timer // of a ttl
	due     time.Time    // when it is over, by the monotonic clock
	history []state      // newest last
	unsaved int          // how many at the end of history are not on disk
	forget  []uint64     // versions that left history and are still on disk
	syncs   []*Watch     // sync watches that match, as of syncGen
	syncGen uint64
}

// state is what a key holds.
type state struct {
	value   any
	version uint64
	at      int64 // Unix nanoseconds
	ttl     time.Duration
	writer  string
	present bool
	keep    bool         // belongs on disk
	origin  origin.Label // whose words it is; "" = the writer's
}

// whose is the origin of the value.
func (s *state) whose() origin.Label {
	if s.origin == "" {
		return origin.Of(s.writer)
	}
	return s.origin
}

// by is what a state keeps of an origin: nothing, if it is its writer's.
func by(whose origin.Label, writer string) origin.Label {
	if string(whose) == writer {
		return ""
	}
	return whose
}

// Entry is a key with all that is known about its value.
type Entry struct {
	Key     string
	Value   any
	Version uint64 // grows by one for each change
	Time    time.Time
	Writer  string
	Origin  origin.Label  // whose words the value is: of the run that wrote it, with all that it had read
	TTL     time.Duration // 0 = stays
	Durable bool          // it is kept on disk
}

func (s *state) entry(key string) Entry {
	return Entry{Key: key, Value: s.value, Version: s.version, Time: time.Unix(0, s.at).UTC(), Writer: s.writer, Origin: s.whose(), TTL: s.ttl, Durable: s.keep}
}

// Open opens the board's file, or makes it, or with no Path makes a board in
// memory. A damaged file is moved aside and the newest good snapshot taken in
// its place, or a new file begun if none is good; an empty or missing file is
// damaged if there are snapshots of it. A medium that can't be written gives a
// board that reads it and keeps Memory keys. Both publish an edged/blackboard
// event. A file that another process has open is an error, ErrLocked.
func Open(b *bus.Bus, o Options) (*Board, error) {
	o.fill()
	d := &Board{opt: o, bus: b, wheel: b.Timers(), entries: map[string]*entry{}, holding: o.Hold}
	d.gone.init()
	d.reqs.init()
	d.logs.init(d)
	if o.Path == "" {
		return d, nil
	}
	err := d.openFile()
	d.publish(d.commits.news)
	d.commits.news = nil
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Close writes what is not on disk yet, takes a snapshot if something has
// changed, and closes the file. Futures of requests that nobody answered get
// ErrClosed. Calling it again does nothing.
func (b *Board) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	open := b.reqs.drop()
	for _, e := range b.entries {
		if e.expiry != nil {
			e.expiry.Stop()
		}
	}
	b.mu.Unlock()
	for _, r := range open {
		r.future.Resolve(nil, ErrClosed)
	}
	b.watches.close()
	b.bus.Deliver()
	if b.store == nil {
		return nil
	}
	return b.closeFile()
}

// Get gives the value of a key and whether there is one.
func (b *Board) Get(key string) (any, bool) {
	b.mu.Lock()
	e := b.entries[key]
	if e == nil || !e.present {
		b.mu.Unlock()
		return nil, false
	}
	v := e.value
	b.mu.Unlock()
	return v, true
}

// Read gives the value of a key and whose words it is.
func (b *Board) Read(key string) (v any, whose origin.Label, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[key]
	if e == nil || !e.present {
		return nil, "", false
	}
	return e.value, e.whose(), true
}

// Origin is whose words the keys are that begin with a prefix; with values, it
// is whose words those are. It is "" where there are none.
func (b *Board) Origin(prefix string, values bool) (whose origin.Label) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k, e := range b.entries {
		if !e.present || !strings.HasPrefix(k, prefix) || values && origin.Wordless(e.value) {
			continue
		}
		if l := e.whose(); whose == "" {
			whose = l
		} else {
			whose = whose.Join(l)
		}
	}
	return whose
}

// Entry gives a key with version, time and writer.
func (b *Board) Entry(key string) (Entry, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[key]
	if e == nil || !e.present {
		return Entry{}, false
	}
	return e.entry(key), true
}

// Has reports whether a key has a value; nil is one.
func (b *Board) Has(key string) bool {
	_, ok := b.Get(key)
	return ok
}

type counters struct {
	commits, failed, bytes, records, snapshots atomic.Uint64
	checksum, corrupt                          atomic.Uint64
	expired, late                              atomic.Uint64
}

// news is what happened to the board itself, to be published when no lock is held.
type news struct {
	what   string
	fields map[string]any
}

// tell keeps news for the next publish; the caller holds running.
func (b *Board) tell(what string, fields map[string]any) {
	b.commits.news = append(b.commits.news, news{what, fields})
}

// Release publishes what [Options].Hold has kept back.
func (b *Board) Release() {
	b.mu.Lock()
	list := b.held
	b.held, b.holding = nil, false
	b.mu.Unlock()
	b.publish(list)
}

func (b *Board) publish(list []news) {
	b.mu.Lock()
	if b.holding {
		b.held, list = append(b.held, list...), nil
	}
	b.mu.Unlock()
	for _, n := range list {
		if _, err := b.bus.Publish(context.Background(), "blackboard", "edged/blackboard/"+n.what, n.fields); err != nil && !errors.Is(err, bus.ErrClosed) {
			b.opt.Log.Error("blackboard event lost", "event", n.what, "err", err)
		}
	}
}
