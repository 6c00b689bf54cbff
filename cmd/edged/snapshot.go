package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"time"

	"edged/agent/llm"
	"edged/bus/origin"
	"edged/bus/trace"
	"edged/hw"
)

// What a robot knows at a moment: a record begins with it, since its events say
// only what changed.

// snapshotFormat is the first word of a record.
const snapshotFormat = "edged record 1"

// Topics that say when scripts ran.
const (
	startTopic = "edged/run/start"
	endTopic   = "edged/run/end"
)

// snapshot is the first line of a record.
type snapshot struct {
	Record   string                     `json:"record"`
	Name     string                     `json:"name,omitempty"`
	Version  string                     `json:"version,omitempty"`
	Time     time.Time                  `json:"time,omitzero"`
	Loaded   time.Time                  `json:"loaded,omitzero"` // when the scripts were, if they run
	Sim      bool                       `json:"sim,omitempty"`
	Stopped  *hw.StopRecord             `json:"stopped,omitempty"`
	Board    map[string]json.RawMessage `json:"board,omitempty"`
	Origins  map[string]origin.Label    `json:"origins,omitempty"`  // of keys whose words are not the scripts' own
	Readings map[string]json.RawMessage `json:"readings,omitempty"` // the last of each sensor
	Retained []kept                     `json:"retained,omitempty"`
	Memory   map[string][]byte          `json:"memory,omitempty"` // what agents remember
}

// kept is a retained event.
type kept struct {
	Topic   string          `json:"topic"`
	Source  string          `json:"source"`
	Origin  origin.Label    `json:"origin,omitempty"`
	Time    time.Time       `json:"time"`
	Payload json.RawMessage `json:"payload"`
}

// snapshot is what the robot knows now.
func (r *robot) snapshot() snapshot {
	s := snapshot{
		Record: snapshotFormat, Name: r.cfg.Name, Version: version, Time: time.Now().UTC(), Sim: r.sim,
		Board: map[string]json.RawMessage{}, Readings: map[string]json.RawMessage{},
	}
	for _, k := range r.board.Keys("") {
		if v, ok := r.board.Get(k); ok {
			if b, err := json.Marshal(v); err == nil {
				s.Board[k] = b
				if _, whose, _ := r.board.Read(k); !whose.Trusted(llm.Trusted) {
					if s.Origins == nil {
						s.Origins = map[string]origin.Label{}
					}
					s.Origins[k] = whose
				}
			}
		}
	}
	for name, b := range r.board.Records("memory").All() {
		if s.Memory == nil {
			s.Memory = map[string][]byte{}
		}
		s.Memory[name] = bytes.Clone(b)
	}
	for _, e := range r.bus.Retained("*") {
		if b, err := e.JSON(); err == nil {
			s.Retained = append(s.Retained, kept{e.Topic, e.Source, trace.Others(e), e.Time(), b})
		}
	}
	if r.rig == nil {
		return s
	}
	r.scripts.mu.Lock()
	s.Loaded = r.scripts.loaded.UTC()
	r.scripts.mu.Unlock()
	if stop, ok := r.rig.Stopped(); ok {
		s.Stopped = &stop
	}
	for _, d := range r.rig.Devices() {
		if rd, ok := r.rig.Last(d.Name); ok && d.Kind == "sensor" {
			if b, err := json.Marshal(rd.Tree()); err == nil {
				s.Readings[d.Name] = b
			}
		}
	}
	return s
}

// handleSnapshot sends what the robot knows and then what its models were asked
// and said lately, line by line.
func (r *robot) handleSnapshot(_ context.Context, _ json.RawMessage, send func(any) error) error {
	if err := send(r.snapshot()); err != nil {
		return nil // the client is gone
	}
	for l := range bytes.Lines(readModels(traceDir(r.cfg))) {
		if err := send(json.RawMessage(bytes.TrimSpace(l))); err != nil {
			return nil
		}
	}
	return nil
}

// before makes of a snapshot from the end of a record one from its beginning:
// what the record says of a key or a sensor came later, and what a key held
// before is in the first event about it.
func (s snapshot) before(lines []trace.Line) snapshot {
	begun := s.Time
	if len(lines) > 0 {
		begun = lines[0].Time
	}
	out := s
	out.Time, out.Stopped = begun, nil
	if s.Stopped != nil && s.Stopped.Time.Before(begun) {
		out.Stopped = s.Stopped
	}
	out.Board, out.Readings, out.Retained = map[string]json.RawMessage{}, map[string]json.RawMessage{}, nil
	seen := map[string]bool{}
	for _, l := range lines {
		key, ok := strings.CutPrefix(l.Topic, "board/")
		if !ok || seen[key] {
			continue
		}
		seen[key] = true
		var c struct {
			Old json.RawMessage `json:"old"`
		}
		if json.Unmarshal(l.Payload, &c) == nil && len(c.Old) > 0 && string(c.Old) != "null" {
			out.Board[key] = c.Old
		}
	}
	for k, v := range s.Board {
		if !seen[k] {
			out.Board[k] = v
		}
	}
	for name, v := range s.Readings {
		var rd struct{ Time time.Time }
		if json.Unmarshal(v, &rd) == nil && rd.Time.Before(begun) {
			out.Readings[name] = v
		}
	}
	for _, e := range s.Retained {
		if e.Time.Before(begun) {
			out.Retained = append(out.Retained, e)
		}
	}
	return out
}

// headOf reads the first line of a record, if it is one.
func headOf(text []byte) (s snapshot, ok bool) {
	first, _, _ := bytes.Cut(text, []byte("\n"))
	ok = json.Unmarshal(first, &s) == nil && s.Record != ""
	return s, ok
}

// tellStart says in the record that the scripts begin, and with what.
func (r *robot) tellStart(ctx context.Context) {
	b, _ := r.scripts.behaviour()
	// The bus is open: it can't fail.
	_, _ = r.bus.Publish(ctx, "edged", startTopic, map[string]any{
		"name": r.cfg.Name, "hash": b.Hash(), "sim": r.sim, "dry": r.dry, "version": version,
	})
	r.tellAside()
}

// stageEnd says in the record that the robot ends: what happens from here on is
// the end's doing. It waits for nobody.
func (r *robot) stageEnd() {
	_, _ = r.bus.Stage(context.Background(), "edged", endTopic, nil) // a closed bus has no record
}

// modelRing keeps what models are asked and say in two files that take turns,
// each as old as the record may be, so that what is younger is always there.
// The lock of the traffic orders its calls.
type modelRing struct {
	dir   string
	size  int64
	keep  time.Duration
	f     *os.File
	wrote int64
	since time.Time
}

const (
	modelsNow    = "models.now"
	modelsBefore = "models.before"
)

// Write adds a line.
func (m *modelRing) Write(b []byte) (int, error) {
	now := time.Now()
	if m.f != nil && (m.wrote+int64(len(b)) > m.size/2 || now.Sub(m.since) > m.keep) {
		_ = m.f.Close() // it was only written to; the next is a new one
		m.f = nil
		if err := os.Rename(m.path(modelsNow), m.path(modelsBefore)); err != nil {
			return 0, err
		}
	}
	if m.f == nil {
		if err := m.open(now); err != nil {
			return 0, err
		}
	}
	n, err := m.f.Write(b)
	m.wrote += int64(n)
	return n, err
}

func (m *modelRing) open(now time.Time) (err error) {
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return err
	}
	m.f, err = os.OpenFile(m.path(modelsNow), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	st, err := m.f.Stat()
	if err != nil {
		return err
	}
	m.wrote, m.since = st.Size(), now
	if st.Size() > 0 {
		m.since = st.ModTime()
	}
	return nil
}

func (m *modelRing) path(name string) string { return m.dir + string(os.PathSeparator) + name }

// close ends it.
func (m *modelRing) close() error {
	if m == nil || m.f == nil {
		return nil
	}
	return m.f.Close()
}

// readModels gives what models were asked lately; nothing if they weren't.
func readModels(dir string) []byte {
	var text []byte
	for _, name := range []string{modelsBefore, modelsNow} {
		b, _ := os.ReadFile(dir + string(os.PathSeparator) + name)
		text = append(text, b...)
	}
	return text
}

// ringModels begins to keep what models are asked, as long as the record of
// events goes back. While none is asked it costs nothing.
func (r *robot) ringModels() {
	if r.cfg.Trace.Off {
		return
	}
	r.models = &modelRing{dir: traceDir(r.cfg), size: int64(r.cfg.Trace.Size), keep: time.Duration(r.cfg.Trace.Keep)}
	r.traffic.add(r.models, func(err error) { r.log.Error("models are recorded no more", "err", err) })
}
