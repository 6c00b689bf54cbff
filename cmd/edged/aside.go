package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"edged/bus"
)

// What earlier runs left is never the reason not to start. What can't be taken
// up is kept in a file beside the board, and the robot says so.

// asideFile is a file of records, a line of JSON each.
type asideFile struct {
	path string
	f    *os.File
	w    *bufio.Writer
}

// openAside makes a new one in the data folder.
func (r *robot) openAside(what string) (*asideFile, error) {
	path := filepath.Join(dataDir(r.cfg), what+".aside-"+time.Now().UTC().Format("20060102T150405.000000")+".jsonl")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &asideFile{path, f, bufio.NewWriter(f)}, nil
}

// add writes a record, which is JSON itself.
func (a *asideFile) add(name string, record []byte) error {
	return json.NewEncoder(a.w).Encode(struct {
		Name   string          `json:"name"`
		Record json.RawMessage `json:"record"`
	}{name, record})
}

// close returns when all is on the disk.
func (a *asideFile) close() error { return errors.Join(a.w.Flush(), a.f.Sync(), a.f.Close()) }

// setAside notes what is not taken up.
func (r *robot) setAside(why, path string) {
	if path != "" {
		why += "; kept in " + path
	}
	r.aside = append(r.aside, why)
	r.log.Warn("the robot starts without some of what it kept", "why", why)
}

// tellAside says on the bus what was set aside, once somebody can hear it.
func (r *robot) tellAside() {
	for _, why := range r.aside {
		r.bus.Report(context.Background(), "edged", errors.New(why), bus.Event{})
	}
}
