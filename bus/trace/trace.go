// Package trace keeps the timeline of a robot and reads it back as a tree:
// what happened, and because of what.
//
// Its one rule: recording never holds up an event. The recorder's tap puts the
// event into a bounded list and returns; writing happens later, many events at
// once, at a bounded rate. What it can't keep is counted in the next record.
//
//	rec, err := trace.Record(b, trace.Options{Dir: "data/trace"})
//	defer rec.Close()
//	…
//	lines, err := trace.Read("data/trace")
//	tree := trace.Build(lines)
//	fmt.Println(tree.Last("hw/motor/set").Reason()) // hw/motor/set because board/motor because sensor/lidar, from mqtt
//
// The files are JSON lines in a ring of segments. Nothing is synced: after a
// power cut the last moments may be missing, and half a line at the end is
// skipped.
package trace

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"edged/bus"
	"edged/bus/origin"
)

// Options of a recorder; the zero value but for Dir works.
type Options struct {
	Dir     string        // folder of the segments, made (0700) if missing
	Size    int64         // bytes of all segments; 8 MiB
	Keep    time.Duration // how far back; 10 minutes
	Window  time.Duration // how long an event may wait to be written; 1 s
	Payload int           // longest payload that is written out; 4 KiB
	Rate    int64         // bytes a second in the long run; 256 KiB. Bursts of 2 MiB pass
}

func (o Options) filled() Options {
	set(&o.Size, 8<<20)
	set(&o.Keep, 10*time.Minute)
	set(&o.Window, time.Second)
	set(&o.Payload, 4<<10)
	set(&o.Rate, 256<<10)
	return o
}

func set[T int | int64 | time.Duration](p *T, v T) {
	if *p <= 0 {
		*p = v
	}
}

// A Line is one event as it was recorded.
type Line struct {
	Time    time.Time       `json:"time"`
	Seq     uint64          `json:"seq"`
	Cause   uint64          `json:"cause,omitempty"`
	Source  string          `json:"source"`
	Origin  origin.Label    `json:"origin,omitempty"` // whose words, if not the source's alone
	Topic   string          `json:"topic"`
	Payload json.RawMessage `json:"payload,omitempty"`
	Keep    bool            `json:"keep,omitempty"` // it is the last of its topic until the next
	Old     *bus.Old        `json:"old,omitempty"`  // why it is no order, if it itself is none
	Copy    bool            `json:"copy,omitempty"` // it is a retained copy
	Cut     int             `json:"cut,omitempty"`  // bytes of a payload that is too long to be recorded
	Lost    uint64          `json:"lost,omitempty"` // events just before this one that were not recorded
	Run     string          `json:"run,omitempty"`  // of the process, by its start; numbers are unique in a run
}

// Stats is what a recorder has counted.
type Stats struct {
	Recorded uint64 `json:"recorded"`
	Lost     uint64 `json:"lost,omitempty"`    // too many at once
	Trouble  string `json:"trouble,omitempty"` // why nothing can be written now
}

// pendingEvents is how many events may wait to be written.
const pendingEvents = 1024

// burst is how many bytes may be written at once.
const burst = 2 << 20

// A Recorder writes the events of a bus. All methods may be called
// concurrently.
type Recorder struct {
	opt  Options
	bus  *bus.Bus
	run  string
	tap  *bus.Subscription
	wake *time.Timer

	mu      sync.Mutex // guards the next five
	pending []bus.Event
	spare   []bus.Event // empty: the other one in turns
	lost    uint64      // since the last event that was taken
	gaps    map[uint64]uint64
	stats   Stats

	writing sync.Mutex // guards the rest; taken before mu
	ring    ring
	budget  float64 // bytes
	filled  time.Time
	closed  bool
}

// Record starts recording everything that is published from now on. Nothing
// is opened or made before the first event is written.
func Record(b *bus.Bus, o Options) (*Recorder, error) {
	o = o.filled()
	now := time.Now()
	r := &Recorder{
		opt: o, bus: b, run: now.UTC().Format("20060102T150405.000") + fmt.Sprintf("-%d", os.Getpid()),
		ring: ring{dir: o.Dir, size: o.Size, keep: o.Keep}, budget: burst, filled: now,
		gaps: map[uint64]uint64{},
	}
	r.wake = time.AfterFunc(time.Hour, r.write)
	r.wake.Stop()
	var err error
	r.tap, err = b.Tap("*", r.take)
	return r, err
}

// Run names this process in the record.
func (r *Recorder) Run() string { return r.run }

// take is called on the publisher's goroutine.
func (r *Recorder) take(e bus.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.pending) >= pendingEvents {
		r.lost++
		r.stats.Lost++
		return
	}
	if r.lost > 0 {
		r.gaps[e.Seq] = r.lost
		r.lost = 0
	}
	r.pending = append(r.pending, r.bus.Stamp(e))
	switch len(r.pending) {
	case 1:
		r.wake.Reset(r.opt.Window)
	case pendingEvents / 2:
		r.wake.Reset(0)
	}
}

// Flush writes what waits.
func (r *Recorder) Flush() { r.write() }

// Close stops recording and writes what waits.
func (r *Recorder) Close() error {
	r.tap.Close()
	r.wake.Stop()
	r.write()
	r.writing.Lock()
	defer r.writing.Unlock()
	r.closed = true
	return r.ring.close()
}

// Stats gives the counters.
func (r *Recorder) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats
}

// write writes what waits, as far as the rate allows.
func (r *Recorder) write() {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.mu.Lock()
	events, gaps := r.pending, map[uint64]uint64(nil)
	r.pending, r.spare = r.spare, nil
	if len(r.gaps) > 0 {
		gaps, r.gaps = r.gaps, map[uint64]uint64{}
	}
	r.mu.Unlock()
	if len(events) == 0 || r.closed {
		return
	}
	defer r.reuse(events)
	now := time.Now()
	r.budget = min(burst, r.budget+now.Sub(r.filled).Seconds()*float64(r.opt.Rate))
	r.filled = now
	var text []byte
	var lost, recorded uint64
	for _, e := range events {
		lost += gaps[e.Seq]
		if float64(len(text)) >= r.budget {
			lost++
			continue
		}
		if b, err := json.Marshal(r.line(e, lost)); err == nil {
			text = append(append(text, b...), '\n')
			recorded, lost = recorded+1, 0
		}
	}
	r.budget -= float64(len(text))
	err := r.ring.write(text, now)
	r.mu.Lock()
	was := r.stats.Trouble
	r.stats.Recorded += recorded
	r.stats.Lost += lost
	r.lost += lost
	r.stats.Trouble = ""
	if err != nil {
		r.stats.Trouble = err.Error()
	}
	r.mu.Unlock()
	if err != nil && was == "" { // once, until it works again
		r.bus.Report(trouble, "trace", err, bus.Event{})
	}
}

// reuse keeps the list of what has been written for what comes, unless it is
// quiet: then a long one is given back.
func (r *Recorder) reuse(events []bus.Event) {
	if cap(events) > 64 && len(events) < 64 {
		return
	}
	clear(events)
	r.mu.Lock()
	r.spare = events[:0]
	r.mu.Unlock()
}

func (r *Recorder) line(e bus.Event, lost uint64) Line {
	l := Line{Time: e.Time(), Seq: e.Seq, Cause: e.Cause, Source: e.Source, Origin: Others(e), Topic: e.Topic, Keep: e.Keep, Lost: lost, Run: r.run}
	if e.Queued || e.Retained {
		l.Old, l.Copy = e.Old(), e.Retained
	}
	b, err := e.JSON()
	switch {
	case err != nil:
	case len(b) > r.opt.Payload:
		l.Cut = len(b)
	default:
		l.Payload = b
	}
	return l
}

// Others is the origin of an event that is not of its source alone, else empty.
func Others(e bus.Event) origin.Label {
	if l := e.Origin(); l != origin.Of(e.Source) {
		return l
	}
	return ""
}

// Whose is whose words the line is.
func (l *Line) Whose() origin.Label {
	if l.Origin == "" && l.Source != "" {
		return origin.Of(l.Source)
	}
	return l.Origin
}
