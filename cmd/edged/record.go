package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"edged/bus"
	"edged/bus/trace"
)

// The flag --record of run: a file with every event in full, for as long as
// the robot runs. 'edged trace --from FILE' reads it.

// recording writes events from a queue of its own, so that a slow disk delays
// nobody; what the queue loses is counted in the line after it.
type recording struct {
	bus  *bus.Bus
	sub  *bus.Subscription
	file *os.File
	head []byte // the first line
	done chan error
}

// recordQueue is how many events may wait for the disk.
const recordQueue = 1 << 16

// startRecording begins a new file; it does nothing if none was asked for.
func (r *robot) startRecording() (*recording, error) {
	if r.runOptions.record == "" {
		return nil, nil
	}
	f, err := os.OpenFile(r.runOptions.record, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("run: --record: %w", err)
	}
	sub, err := r.bus.Subscribe("*", bus.Queue{Limit: recordQueue, Taken: true, Name: "record"})
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &recording{bus: r.bus, sub: sub, file: f}, nil
}

// begin writes what the robot knew before the first event, and the events from
// then on.
func (c *recording) begin(known func() snapshot) {
	if c == nil || c.done != nil {
		return
	}
	c.head, _ = json.Marshal(known()) // it was made of JSON
	c.done = make(chan error, 1)
	go func() {
		err := c.write()
		if err != nil { // the rest of the file would have a hole
			c.sub.Close()
			c.bus.Report(context.Background(), "record", err, bus.Event{})
		}
		c.done <- err
	}()
}

// write ends when the bus is closed and the queue empty. The file is complete
// up to the last event whenever there is nothing more to write.
func (c *recording) write() error {
	w := bufio.NewWriterSize(c.file, 64<<10)
	if _, err := w.Write(append(c.head, '\n')); err != nil {
		return err
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	var lost uint64
	for ev := range c.sub.All(context.Background()) {
		l, now := recordLine(ev), c.sub.Dropped()
		l.Lost = now - lost
		if err := e.Encode(l); err != nil {
			return err
		}
		lost = now
		if c.sub.Len() == 0 {
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}

// close waits for the last event; the bus must be closed before.
func (c *recording) close() error {
	if c == nil {
		return nil
	}
	if c.done == nil {
		return c.file.Close() // the robot never began
	}
	return errors.Join(<-c.done, c.file.Sync(), c.file.Close())
}

// recordLine is an event as a line of a record.
func recordLine(e bus.Event) trace.Line {
	l := lineOf(e)
	t := trace.Line{Time: l.Time, Seq: l.Seq, Cause: l.Cause, Source: l.Source, Origin: trace.Others(e), Topic: l.Topic, Payload: l.Payload, Keep: e.Keep}
	if e.Queued || e.Retained {
		t.Old, t.Copy = e.Old(), e.Retained
	}
	return t
}
