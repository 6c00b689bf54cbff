// Package workflowtest is what durable workflows are tested with: a disk that
// dies when it is told to.
//
// Its one rule: what it has said to have written is there after the reboot, and
// nothing else is; what it was not told to have on disk is lost with the power.
//
//	d := workflowtest.NewDisk()
//	d.Die, d.Through, d.Power = 3, false, cancel // before the third write
//	runs := workflow.NewRuns(d, workflow.RunsOptions{})
//	… // a run ends there
//	runs = workflow.NewRuns(d.Reboot(), workflow.RunsOptions{}) // the next process
package workflowtest

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"

	"edged/workflow"
)

// ErrDead is the error of whatever comes after the power cut.
var ErrDead = errors.New("power cut")

// Disk is a store in memory that can die once. Its exported fields are set
// before it is used.
type Disk struct {
	Die     int    // at which write the power is cut; 0 is never
	Through bool   // that write still gets through
	Power   func() // is called then: the process goes with the disk

	mu   sync.Mutex // guards the rest
	recs map[string][]byte
	kept map[string][]byte // as of the last write that was to be on disk
	n    int
	dead bool
}

var _ workflow.Store = (*Disk)(nil)

// NewDisk makes an empty disk.
func NewDisk() *Disk { return &Disk{recs: map[string][]byte{}, kept: map[string][]byte{}} }

// Writes counts the writes so far, those that failed included.
func (d *Disk) Writes() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.n
}

// Dead reports whether the power was cut.
func (d *Disk) Dead() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dead
}

// Records gives what is on the disk.
func (d *Disk) Records() map[string][]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.recs)
}

// Reboot gives the disk as the next process finds it. After a power cut that is
// what was to be on disk, and what was written before that.
func (d *Disk) Reboot() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return &Disk{recs: maps.Clone(d.kept), kept: d.kept}
	}
	return &Disk{recs: maps.Clone(d.recs), kept: maps.Clone(d.recs)}
}

func (d *Disk) write(change func()) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return ErrDead
	}
	d.n++
	if d.n == d.Die {
		d.dead = true
		if d.Through {
			change()
		}
		d.Power()
		return ErrDead
	}
	change()
	return nil
}

// Put implements workflow.Store.
func (d *Disk) Put(_ context.Context, name string, v []byte, sync bool) error {
	return d.write(func() {
		d.recs[name] = slices.Clone(v)
		if sync {
			d.kept = maps.Clone(d.recs)
		}
	})
}

// Delete implements workflow.Store.
func (d *Disk) Delete(_ context.Context, name string) error {
	return d.write(func() { delete(d.recs, name) })
}

// Get implements workflow.Store.
func (d *Disk) Get(name string) ([]byte, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v, ok := d.recs[name]
	return v, ok
}

// All implements workflow.Store.
func (d *Disk) All() iter.Seq2[string, []byte] {
	recs := d.Records()
	return func(yield func(string, []byte) bool) {
		for _, k := range slices.Sorted(maps.Keys(recs)) {
			if !yield(k, recs[k]) {
				return
			}
		}
	}
}
