package fault

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
)

// A disk with a volatile cache, as a model: files of one folder, what the
// system sees of them and what is on the medium. fuse_test.go mounts it.
//
// A write goes to the cache; a sync of the file moves what is pending to the
// medium. When the power is cut any subset of the pending 512-byte sectors may
// have reached the medium, and any first part of the changes to the folder
// since its last sync, whatever was synced of the files.

const sector = 512

type disk struct {
	mu      sync.Mutex // guards everything below
	ids     uint64
	seen    map[string]*node
	kept    map[string]*node // the folder on the medium
	changes []func(map[string]*node)
	acks    *node

	rng  *rand.Rand
	ops  int    // writes, syncs and changes so far
	next int    // the operation at which the power is cut next; 0 = never
	gap  int    // the most operations until the one after
	hook func() // called once at that operation instead of cutting the power
	cuts chan image
	stop chan struct{} // closed: nobody takes images any more
	faults
	hits int // faults that happened
}

// faults are the ways in which the disk fails.
type faults struct {
	Sync     float64 // share of syncs that return EIO; a part of what was pending is lost for good
	Write    float64 // share of writes that return EIO
	Lie      float64 // share of syncs that do nothing and say they did
	Space    int64   // bytes of all files; 0 = no limit
	ReadOnly bool    // writing returns EROFS
}

// node is a file.
type node struct {
	id      uint64
	cache   []byte
	medium  []byte
	pending []change
}

// change is a write, or with data nil a new size.
type change struct {
	off  int64
	data []byte
	size int64
}

// image is what a power cut leaves, and what had been acknowledged before it.
type image struct {
	files   map[string][]byte
	acks    string
	pending int // writes and changes that were not on the medium
}

func newDisk(rng *rand.Rand, files map[string][]byte) *disk {
	d := &disk{
		seen: map[string]*node{}, kept: map[string]*node{}, ids: 2, acks: &node{id: 2},
		rng: rng, cuts: make(chan image), stop: make(chan struct{}),
	}
	for name, text := range files {
		n := d.node()
		n.cache, n.medium = bytes.Clone(text), bytes.Clone(text)
		d.seen[name], d.kept[name] = n, n
	}
	return d
}

// node makes a file; the caller holds mu.
func (d *disk) node() *node {
	d.ids++
	return &node{id: d.ids}
}

// cutEvery makes the power fail again and again, each time within gap operations.
func (d *disk) cutEvery(gap int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gap = gap
	d.next = d.ops + 1 + d.rng.IntN(gap)
}

// call makes the disk call hook at one of the next operations, which must not
// use the disk.
func (d *disk) call(within int, hook func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hook = hook
	d.next = d.ops + 1 + d.rng.IntN(within)
}

// fail sets the faults.
func (d *disk) fail(f faults) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = f
}

// failed counts the faults that happened.
func (d *disk) failed() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hits
}

func (d *disk) acknowledged() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return string(d.acks.cache)
}

// soon cuts the power shortly after a fault, when cuts are wanted at all.
func (d *disk) soon() {
	d.hits++
	if d.next > 0 {
		d.next = min(d.next, d.ops+1+d.rng.IntN(10))
	}
}

// operation counts one and takes an image if its time has come. The disk
// stands still until somebody has the image.
func (d *disk) operation() {
	d.ops++
	if d.next == 0 || d.ops < d.next {
		return
	}
	if d.hook != nil {
		d.hook()
		d.hook, d.next = nil, 0
		return
	}
	d.next = d.ops + 1 + d.rng.IntN(d.gap)
	select {
	case d.cuts <- d.image():
	case <-d.stop:
	}
}

// image cuts the power.
func (d *disk) image() image {
	folder := maps.Clone(d.kept)
	for _, change := range d.changes[:d.rng.IntN(len(d.changes)+1)] {
		change(folder)
	}
	img := image{files: map[string][]byte{}, acks: string(d.acks.cache)}
	img.pending = len(d.changes)
	for _, name := range slices.Sorted(maps.Keys(folder)) {
		img.files[name] = folder[name].survive(d.rng)
		img.pending += len(folder[name].pending)
	}
	return img
}

// survive gives what is on the medium after a power cut.
func (n *node) survive(rng *rand.Rand) []byte {
	out := bytes.Clone(n.medium)
	share := []float64{0, 1, 0.5, 0.1, 0.9}[rng.IntN(5)]
	most := len(n.pending)
	if rng.IntN(3) == 0 { // in order, and cut short
		share, most = 1, rng.IntN(most+1)
	}
	for i, c := range n.pending[:most] {
		last := i == most-1
		if c.data == nil {
			if rng.Float64() < share {
				out = resize(out, c.size)
			}
			continue
		}
		for at := 0; at < len(c.data); {
			end := min(len(c.data), at+sector-int(c.off+int64(at))%sector)
			if rng.Float64() < share || share == 1 && !last {
				out = put(out, c.off+int64(at), c.data[at:end])
			}
			if share == 1 && last && most < len(n.pending) && rng.IntN(4) == 0 {
				break // torn in the middle
			}
			at = end
		}
	}
	return out
}

func resize(b []byte, size int64) []byte {
	if size <= int64(len(b)) {
		return b[:size]
	}
	return append(b, make([]byte, size-int64(len(b)))...)
}

func put(b []byte, off int64, data []byte) []byte {
	if end := off + int64(len(data)); end > int64(len(b)) {
		b = resize(b, end)
	}
	copy(b[off:], data)
	return b
}

// used is the space all files take.
func (d *disk) used() (n int64) {
	for _, f := range d.seen {
		n += int64(len(f.cache))
	}
	return n
}

func (d *disk) write(n *node, data []byte, off int64) (int, syscall.Errno) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.operation()
	if n == d.acks {
		n.cache = append(n.cache, data...)
		return len(data), 0
	}
	if d.ReadOnly {
		d.soon()
		return 0, syscall.EROFS
	}
	if grow := off + int64(len(data)) - int64(len(n.cache)); grow > 0 && d.Space > 0 && d.used()+grow > d.Space {
		d.soon()
		return 0, syscall.ENOSPC
	}
	errno := syscall.Errno(0)
	if d.rng.Float64() < d.Write {
		d.soon()
		errno = syscall.EIO
		data = data[:d.rng.IntN(len(data)/sector+1)*sector]
	}
	n.cache = put(n.cache, off, data)
	if len(data) > 0 {
		n.pending = append(n.pending, change{off: off, data: bytes.Clone(data)})
	}
	return len(data), errno
}

func (d *disk) truncate(n *node, size int64) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if size == int64(len(n.cache)) {
		return 0
	}
	d.operation()
	switch {
	case d.ReadOnly:
		d.soon()
		return syscall.EROFS
	case d.Space > 0 && d.used()+size-int64(len(n.cache)) > d.Space:
		d.soon()
		return syscall.ENOSPC
	}
	n.cache = resize(n.cache, size)
	n.pending = append(n.pending, change{size: size})
	return 0
}

// sync moves what is pending to the medium. If it fails the system believes
// that what was pending is written, and never tries again, as Linux does.
func (d *disk) sync(n *node) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.operation()
	share := 1.0
	errno := syscall.Errno(0)
	switch r := d.rng.Float64(); {
	case r < d.Lie:
		d.soon()
		return 0
	case r < d.Lie+d.Sync:
		d.soon()
		errno, share = syscall.EIO, d.rng.Float64()
	}
	for _, c := range n.pending {
		if c.data == nil {
			n.medium = resize(n.medium, c.size) // sizes are in the journal of the file system
			continue
		}
		for at := 0; at < len(c.data); {
			end := min(len(c.data), at+sector-int(c.off+int64(at))%sector)
			if errno == 0 || d.rng.Float64() < share {
				n.medium = put(n.medium, c.off+int64(at), c.data[at:end])
			}
			at = end
		}
	}
	n.pending = nil
	return errno
}

// change alters the folder.
func (d *disk) change(f func(map[string]*node)) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.operation()
	if d.ReadOnly {
		d.soon()
		return syscall.EROFS
	}
	f(d.seen)
	d.changes = append(d.changes, f)
	return 0
}

func (d *disk) syncFolder() syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.operation()
	for _, f := range d.changes {
		f(d.kept)
	}
	d.changes = nil
	return 0
}
