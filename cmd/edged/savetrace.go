package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"edged/bus"
	"edged/bus/trace"
	"edged/cmd/edged/internal/config"
	"edged/hw/replay"
	"edged/starlark/value"
)

// What the verb trace writes: a record as it is, for replay, or a test made of
// it.

// setting is what belongs to lines of a record: what the robot knew before, and
// what its models were asked.
func (c *cli) setting(ctx context.Context, o traceFlags, lines []trace.Line) (s snapshot, models []byte, err error) {
	if o.from != "" {
		text, err := os.ReadFile(o.from)
		if err != nil {
			return s, nil, fmt.Errorf("trace: %w", err)
		}
		s, _ = headOf(text)
		models, err = os.ReadFile(o.from + ".models")
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if o.last == 0 && s.Record != "" {
			return s, models, err
		}
		return s.before(lines), models, err
	}
	cl, cfg, err := c.meant("trace", o.dir)
	if err != nil {
		return s, nil, err
	}
	if cl == nil { // it ended, and the record is all there is
		s = snapshot{Record: snapshotFormat, Name: cfg.Name, Version: version}
		return s.before(lines), readModels(traceDir(cfg)), nil
	}
	defer cl.Close()
	first := true
	err = cl.Stream(ctx, "snapshot", nil, func(b json.RawMessage) error {
		if first {
			first = false
			return json.Unmarshal(b, &s)
		}
		models = append(append(models, b...), '\n')
		return nil
	})
	return s.before(lines), models, err
}

// saveTrace writes lines with all that replay needs.
func (c *cli) saveTrace(ctx context.Context, o traceFlags, lines []trace.Line) (err error) {
	lines = lastRun(lines)
	s, models, err := c.setting(ctx, o, lines)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	if err := e.Encode(s); err != nil {
		return fmt.Errorf("trace: save: %w", err)
	}
	for _, l := range lines {
		if err := e.Encode(l); err != nil {
			return fmt.Errorf("trace: save: %w", err)
		}
	}
	err = os.WriteFile(o.save, text.Bytes(), 0o600)
	if err == nil && len(models) > 0 {
		err = os.WriteFile(o.save+".models", models, 0o600)
	}
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	return c.print(map[string]any{"file": o.save, "events": len(lines)}, func(w io.Writer) {
		fmt.Fprintf(w, "saved %s in %s\n", count(len(lines), "event"), o.save)
	})
}

// saveTest writes a test that does again what came in, and runs it: what is
// done then is its golden file. It ends the process.
func (c *cli) saveTest(ctx context.Context, o traceFlags, lines []trace.Line) error {
	file := o.test
	if !strings.HasSuffix(file, "_test.star") {
		return usagef("trace: %s: the name of a test ends in _test.star", file)
	}
	lines = lastRun(lines)
	s, models, err := c.setting(ctx, o, lines)
	if err != nil {
		return err
	}
	name := strings.TrimSuffix(filepath.Base(file), "_test.star")
	said := ""
	if len(models) > 0 {
		said = filepath.Join(filepath.Dir(file), "testdata", name+".models.jsonl")
	}
	dir := robotOf(file)
	cfg, err := config.Load(dir, environ(), nil)
	if err != nil {
		return err
	}
	script, steps := testOf(lines, s, name, relative(dir, said), hasApartment(cfg))
	if steps == 0 {
		return errors.New("trace: nothing came in from outside, so there is nothing to test")
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	_, err = f.WriteString(script)
	err = errors.Join(err, f.Close())
	if err == nil && said != "" {
		err = errors.Join(os.MkdirAll(filepath.Dir(said), 0o755), os.WriteFile(said, models, 0o600))
	}
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	virtual(func(b bubble) int { return c.golden(cfg, dir, file, steps, lines, b) })
	return nil
}

// golden runs a new test twice: once for its golden file, once to see that it
// passes.
func (c *cli) golden(cfg *config.Config, dir, file string, steps int, lines []trace.Line, b bubble) int {
	folder, done, err := openFolder(dir)
	if err != nil {
		fmt.Fprintln(c.err, text(err))
		return exitProblem
	}
	defer done()
	quiet := &cli{out: io.Discard, err: io.Discard, json: true}
	for _, update := range []bool{true, false} {
		t := testOptions(cfg, folder)
		t.File, t.Func = filepath.ToSlash(relative(dir, file)), "test_"+testFunc(file)
		goldenFiles(&t, dir, update)
		if res := quiet.testOne(t.Func, t, testFlags{}, b); !res.OK {
			fmt.Fprintf(c.err, "edged: trace: %s is saved, but does not pass: %s\n", file, res.Error)
			return exitProblem
		}
	}
	did := trace.Settled(trace.Actions(lines, lines[0].Time))
	golden := filepath.Join(filepath.Dir(file), "testdata", testFunc(file)+".golden")
	expected := 0
	if text, err := os.ReadFile(golden); err == nil {
		expected = bytes.Count(text, []byte("\n"))
	}
	err = c.print(map[string]any{"file": file, "golden": golden, "steps": steps, "actions": expected, "recorded": len(did)}, func(w io.Writer) {
		fmt.Fprintf(w, "saved %s in %s, and what the robot does then (%s; %d in the record) in %s\n",
			count(steps, "step"), file, count(expected, "action"), len(did), golden)
	})
	if err != nil {
		return exitProblem
	}
	return exitOK
}

// testFunc is what a test in a file is called.
func testFunc(file string) string {
	name := strings.TrimSuffix(filepath.Base(file), "_test.star")
	return strings.Map(func(r rune) rune {
		if r == '_' || '0' <= r && r <= '9' || 'a' <= r|0x20 && r|0x20 <= 'z' {
			return r
		}
		return '_'
	}, name)
}

// relative is a file as seen from a folder.
func relative(dir, file string) string {
	if file == "" {
		return ""
	}
	rel, err := filepath.Rel(dir, file)
	if err != nil {
		return file
	}
	return filepath.ToSlash(rel)
}

// testOf writes the test and counts its steps.
func testOf(lines []trace.Line, s snapshot, name, models string, apartment bool) (text string, steps int) {
	var b strings.Builder
	var seen map[string]float64
	if apartment {
		seen = map[string]float64{}
	}
	name = testFunc(name)
	fmt.Fprintf(&b, "\"\"\"Saved from a record: what came in, and what the robot does then.\"\"\"\n\ndef test_%s():\n", name)
	if models != "" {
		fmt.Fprintf(&b, "    model.replays(%q)\n", models)
	}
	for _, key := range slices.Sorted(maps.Keys(s.Board)) {
		fmt.Fprintf(&b, "    bb.set(%q, %s)\n", key, literal(s.Board[key]))
	}
	t := trace.Build(lines)
	var last time.Time
	for _, l := range lines {
		step := stimulus(t.Event(l.Seq), seen)
		if l.Topic == startTopic {
			last = l.Time
		}
		if step == "" {
			continue
		}
		if gap := l.Time.Sub(last).Round(time.Millisecond); !last.IsZero() && gap > 0 {
			fmt.Fprintf(&b, "    clock.advance(%q)\n", gap)
		}
		fmt.Fprintf(&b, "    %s\n", step)
		steps++
		last = l.Time
	}
	if len(lines) > 0 {
		rest := lines[len(lines)-1].Time.Sub(last).Round(time.Millisecond)
		fmt.Fprintf(&b, "    clock.advance(%q)\n    actions(golden = %q)\n", rest+time.Second, name+".golden")
	}
	return b.String(), steps
}

// ours reports whether a topic is one that only the runtime publishes.
func ours(topic string) bool {
	first, _, _ := strings.Cut(topic, "/")
	switch first {
	case "edged", "board", "request", "message":
		return true
	}
	return false
}

// stimulus is the line of a test that brings an event about again, empty for
// what didn't come from outside. With seen there is an apartment that has
// readings of its own; seen has those that the test gave it.
func stimulus(n *trace.Node, seen map[string]float64) string {
	kind, _, _ := strings.Cut(n.Source, ":")
	name, rd, reading := replay.Reading(n.Line)
	switch {
	case seen != nil && reading && inApartment(name):
		return furnish(name, rd.Value, seen)
	case n.Cause != 0, trace.Acts(n.Source), kind == "hw" && len(n.Then) == 0:
		return ""
	case strings.HasPrefix(n.Topic, "board/") && person(n.Source):
		var change struct{ New json.RawMessage }
		if json.Unmarshal(n.Payload, &change) != nil {
			return ""
		}
		return fmt.Sprintf("bb.set(%q, %s)", strings.TrimPrefix(n.Topic, "board/"), literal(change.New))
	case ours(n.Topic):
		return ""
	case n.Cut > 0:
		return fmt.Sprintf("publish(%q)  # its payload of %d bytes is not in the record", n.Topic, n.Cut)
	}
	return fmt.Sprintf("publish(%q, %s)", n.Topic, literal(n.Payload))
}

// hasApartment reports whether the tests of a robot are in the apartment.
func hasApartment(cfg *config.Config) bool {
	for _, name := range config.Names(cfg.Devices) {
		if driver(cfg, name) == "sim.apartment" {
			return true
		}
	}
	return len(cfg.Devices) == 0
}

// inApartment reports whether a sensor is one of the apartment's.
func inApartment(sensor string) bool {
	switch sensor {
	case "pose", "lidar", "bump", "charging", "battery":
		return true
	}
	return strings.HasPrefix(sensor, "temp_")
}

// furnish makes the apartment as a reading says it was, if it isn't about that
// anyway. Where the robot is it finds out by driving.
func furnish(sensor string, v any, seen map[string]float64) string {
	f, ok := v.(float64)
	if n, whole := v.(int64); whole {
		f, ok = float64(n), true
	}
	was, known := seen[sensor]
	near, usual := 2.0, 80.0
	room, temp := strings.CutPrefix(sensor, "temp_")
	if temp {
		near, usual = 1, 21
	}
	if !known {
		was = usual
	}
	if !ok || sensor != "battery" && !temp || math.Abs(f-was) < near {
		return ""
	}
	seen[sensor] = f
	if temp {
		return fmt.Sprintf("hw.sim.set_temp(%q, %v)", room, f)
	}
	return fmt.Sprintf("hw.sim.set_battery(%v)", f)
}

// literal is JSON as scripts write it.
func literal(b json.RawMessage) string {
	v, err := bus.DecodeJSON(b)
	if err != nil {
		return "None"
	}
	s, err := value.FromGo(v)
	if err != nil {
		return "None"
	}
	return s.String()
}
