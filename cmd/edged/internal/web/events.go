package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"edged/bus"
	"edged/cmd/edged/internal/control"
)

// Events as they come. One tap for all who look puts events into a bounded
// list; ten times a second they become text in a ring, and whoever looks sends
// itself what it has not sent yet. Who is slow finds the ring gone on, and is
// told how much it missed. Nobody who looks holds up an event, and while nobody
// does there is no tap.

const (
	maxStreams = 16
	maxPending = 1024 // events between two rounds
	maxFrames  = 2000 // in the ring
	maxBytes   = 1 << 20
	maxPayload = 4 << 10
	round      = 100 * time.Millisecond
	linger     = time.Minute // the ring is kept after the last one left
	beat       = 15 * time.Second
	maxBatch   = 500 // events at once
	batchBytes = 64 << 10
)

// frame is an event as text.
type frame struct {
	seq   uint64
	topic string
	text  []byte
	lost  uint64 // events just before this one that are not in the ring
}

// stream is the ring and what feeds it.
type stream struct {
	bus *bus.Bus
	run string

	writing sync.Mutex // one round at a time; taken before mu

	mu      sync.Mutex // guards the rest
	users   int
	tap     *bus.Subscription
	flush   *time.Timer
	leave   *time.Timer
	pending []bus.Event // once it is full it is a ring, the oldest at next
	next    int
	lost    uint64 // events that pending lost since the last round
	frames  []frame
	bytes   int
	begin   uint64 // everything after it is in the ring, or counted as lost there
	last    uint64 // of the ring
	wake    chan struct{}
}

func newStream(b *bus.Bus, run string) *stream {
	s := &stream{bus: b, run: run, wake: make(chan struct{})}
	s.flush = time.AfterFunc(time.Hour, s.encode)
	s.flush.Stop()
	s.leave = time.AfterFunc(time.Hour, s.idle)
	s.leave.Stop()
	return s
}

func (s *stream) clients() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.users
}

// join begins listening if nobody did; ok is false if too many look already.
func (s *stream) join() (ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users >= maxStreams {
		return false, nil
	}
	s.leave.Stop()
	if s.tap == nil {
		tap, err := s.bus.Tap("*", s.take)
		if err != nil {
			return false, err
		}
		s.tap = tap
		s.begin = s.bus.Seq() // take waits until this is known
		s.last = s.begin
	}
	s.users++
	return true, nil
}

func (s *stream) quit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users == 0 {
		s.leave.Reset(linger)
	}
}

// idle forgets everything when nobody has come back.
func (s *stream) idle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users > 0 || s.tap == nil {
		return
	}
	s.tap.Close()
	s.tap, s.frames, s.pending = nil, nil, nil
	s.bytes, s.next, s.lost = 0, 0, 0
	s.flush.Stop()
}

// end is idle for good.
func (s *stream) end() {
	s.mu.Lock()
	s.users = 0
	s.mu.Unlock()
	s.leave.Stop()
	s.idle()
}

// take is called by whoever publishes.
func (s *stream) take(e bus.Event) {
	e = s.bus.Stamp(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(s.pending) < maxPending:
		if s.pending = append(s.pending, e); len(s.pending) == 1 {
			s.flush.Reset(round)
		}
	default:
		s.pending[s.next] = e
		s.next = (s.next + 1) % maxPending
		s.lost++
	}
}

// encode is one round: what is pending becomes text in the ring.
func (s *stream) encode() {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	events, next, lost := s.pending, s.next, s.lost
	s.pending, s.next, s.lost = nil, 0, 0
	s.mu.Unlock()
	if len(events) == 0 {
		return
	}
	fresh := make([]frame, 0, len(events))
	size := 0
	for i := range events {
		f := frameOf(events[(next+i)%len(events)])
		f.lost, lost = lost, 0
		size += len(f.text)
		fresh = append(fresh, f)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tap == nil {
		return
	}
	s.frames = append(s.frames, fresh...)
	s.bytes += size
	gone := 0
	for len(s.frames)-gone > maxFrames || s.bytes > maxBytes && len(s.frames)-gone > 1 {
		s.bytes -= len(s.frames[gone].text)
		s.begin = s.frames[gone].seq
		gone++
	}
	s.frames = slices.Delete(s.frames, 0, gone)
	s.last = fresh[len(fresh)-1].seq
	close(s.wake)
	s.wake = make(chan struct{})
}

func frameOf(e bus.Event) frame {
	l := control.Line{Time: e.Time(), Seq: e.Seq, Cause: e.Cause, Source: e.Source, Topic: e.Topic, Retained: e.Retained, Queued: e.Queued}
	var b []byte
	err := safely(func() (err error) { b, err = e.JSON(); return err }) // the payload may be of anybody's type
	switch {
	case err != nil:
	case len(b) > maxPayload:
		l.Cut = len(b)
	default:
		l.Payload = b
	}
	text, err := json.Marshal(l)
	if err != nil {
		text = []byte("{}")
	}
	return frame{seq: e.Seq, topic: e.Topic, text: text}
}

// after gives what came after a number, up to a batch, and where that ends;
// lost is how much before it is gone. wake is closed when there is more.
func (s *stream) after(pos uint64, filters []string) (batch [][]byte, upto, lost uint64, more bool, wake <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pos < s.begin {
		lost, pos = s.begin-pos, s.begin
	}
	size := 0
	i := sort.Search(len(s.frames), func(i int) bool { return s.frames[i].seq > pos })
	for ; i < len(s.frames); i++ {
		f := s.frames[i]
		if len(batch) == maxBatch || size > batchBytes {
			return batch, pos, lost, true, s.wake
		}
		lost += f.lost
		pos = f.seq
		if slices.ContainsFunc(filters, func(want string) bool { return bus.Match(want, f.topic) }) {
			batch = append(batch, f.text)
			size += len(f.text)
		}
	}
	return batch, max(pos, s.last), lost, false, s.wake
}

// place reads the id of the event that a client saw last.
func (s *stream) place(id string) (seq uint64, restarted, known bool) {
	at := strings.LastIndexByte(id, ':')
	if at < 0 {
		return 0, false, false
	}
	seq, err := strconv.ParseUint(id[at+1:], 10, 64)
	return seq, id[:at] != s.run, err == nil
}

// events is one who looks.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	filters := r.URL.Query()["filter"]
	if len(filters) == 0 {
		filters = []string{"*"}
	}
	for _, f := range filters {
		if err := bus.ValidFilter(f); err != nil {
			s.refuse(w, r, http.StatusBadRequest, "page: "+err.Error())
			return
		}
	}
	if r.Method == http.MethodHead {
		w.Header().Set("Content-Type", "text/event-stream")
		return
	}
	ok, err := s.stream.join()
	switch {
	case err != nil:
		s.refuse(w, r, http.StatusServiceUnavailable, "page: "+err.Error())
		return
	case !ok:
		s.refuse(w, r, http.StatusServiceUnavailable, fmt.Sprintf("page: %d look at events already; close one", maxStreams))
		return
	}
	defer s.stream.quit()
	v := &viewer{w: w, rc: http.NewResponseController(w), s: s.stream, filters: filters, slow: s.o.slow}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	id := r.Header.Get("Last-Event-ID")
	if id == "" {
		id = r.URL.Query().Get("after")
	}
	v.watch(r, id)
}

// viewer is one who looks.
type viewer struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	s       *stream
	filters []string
	slow    time.Duration
	pos     uint64
}

func (v *viewer) watch(r *http.Request, id string) {
	pos, restarted, known := v.s.place(id)
	if v.pos = v.s.bus.Seq(); known && !restarted && pos <= v.pos {
		v.pos = pos
	}
	if v.write("retry: 1000\n") != nil || v.send("hello", map[string]any{"run": v.s.run, "seq": v.pos}) != nil {
		return
	}
	if known && restarted && v.send("gap", map[string]any{"why": "restarted"}) != nil {
		return
	}
	alive := time.NewTicker(beat)
	defer alive.Stop()
	for {
		batch, upto, lost, more, wake := v.s.after(v.pos, v.filters)
		v.pos = upto
		if lost > 0 && v.send("gap", map[string]any{"lost": lost, "why": "too many, or too long ago"}) != nil {
			return
		}
		if len(batch) > 0 && v.batch(batch) != nil {
			return
		}
		if more {
			continue
		}
		select {
		case <-wake:
		case <-alive.C:
			if v.write(fmt.Sprintf("id: %s:%d\n\n", v.s.run, v.pos)) != nil { // no event, but the place is kept
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

func (v *viewer) send(event string, data any) error {
	b, err := json.Marshal(data)
	if err != nil {
		return err
	}
	return v.write(fmt.Sprintf("event: %s\nid: %s:%d\ndata: %s\n\n", event, v.s.run, v.pos, b))
}

func (v *viewer) batch(list [][]byte) error {
	var b strings.Builder
	fmt.Fprintf(&b, "event: events\nid: %s:%d\ndata: [", v.s.run, v.pos)
	for i, text := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(text)
	}
	b.WriteString("]\n\n")
	return v.write(b.String())
}

// write gives a client that takes nothing up after a while.
func (v *viewer) write(text string) error {
	_ = v.rc.SetWriteDeadline(time.Now().Add(v.slow)) // a connection that has none fails at the write
	if _, err := v.w.Write([]byte(text)); err != nil {
		return err
	}
	return v.rc.Flush()
}
