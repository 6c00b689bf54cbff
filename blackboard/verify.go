package blackboard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// This file reads a bbolt file (format 2) the slow and safe way: with plain
// reads, every number checked before it is used, every page visited at most
// once. bbolt itself maps the file and believes it: a damaged one can make it
// panic, fault in a goroutine of its own, recurse without end. So nothing is
// mapped before it has been walked here, and the walk loads the values too.

const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2
	pageHeader  = 16
	elemSize    = 16 // of branch and of leaf elements
	bucketSize  = 16
	noFreelist  = ^uint64(0)

	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagMeta     = 0x04
	flagFreelist = 0x10
	flagBucket   = 0x01 // of a leaf element
)

// meta is what a meta page says.
type meta struct {
	page           int64 // 0 or 1
	pageSize       int64
	root, freelist uint64
	pages          uint64 // high water mark
	txid           uint64
}

func parseMeta(b []byte) (meta, error) {
	if len(b) < pageHeader+64 {
		return meta{}, errors.New("meta page is cut")
	}
	m := b[pageHeader:]
	h := fnv.New64a()
	h.Write(m[:56])
	switch {
	case binary.LittleEndian.Uint32(m) != boltMagic:
		return meta{}, errors.New("not a database")
	case binary.LittleEndian.Uint32(m[4:]) != boltVersion:
		return meta{}, fmt.Errorf("format %d is unknown", binary.LittleEndian.Uint32(m[4:]))
	case h.Sum64() != binary.LittleEndian.Uint64(m[56:]):
		return meta{}, errors.New("meta page: checksum mismatch")
	}
	out := meta{
		pageSize: int64(binary.LittleEndian.Uint32(m[8:])), root: binary.LittleEndian.Uint64(m[16:]), freelist: binary.LittleEndian.Uint64(m[32:]),
		pages: binary.LittleEndian.Uint64(m[40:]), txid: binary.LittleEndian.Uint64(m[48:]),
	}
	if s := out.pageSize; s < 1024 || s > 64<<10 || s&(s-1) != 0 {
		return meta{}, fmt.Errorf("%w: page size %d", errLies, s)
	}
	return out, nil
}

// errLies is of a meta page with a right checksum and a wrong page size. bbolt
// looks at the checksum only and would believe it.
var errLies = errors.New("meta page is wrong")

// readMeta finds the meta page that counts. torn says that the other one is
// damaged, as after a power cut in the middle of a commit.
func readMeta(f io.ReaderAt, size int64) (m meta, torn bool, err error) {
	buf := make([]byte, pageHeader+64)
	read := func(page, pageSize int64) (meta, error) {
		if _, err := f.ReadAt(buf, page*pageSize); err != nil {
			return meta{}, fmt.Errorf("meta page %d: %w", page, err)
		}
		m, err := parseMeta(buf)
		m.page = page
		if err == nil && m.pageSize != pageSize && page == 1 {
			err = fmt.Errorf("%w: page size %d", errLies, m.pageSize)
		}
		return m, err
	}
	m0, err0 := read(0, 0)
	sizes := []int64{m0.pageSize}
	if err0 != nil {
		sizes = []int64{4096, 1024, 2048, 8192, 16384, 32768, 65536}
	}
	var m1 meta
	var err1 error
	for _, s := range sizes {
		if m1, err1 = read(1, s); err1 == nil {
			break
		}
	}
	switch {
	case err0 != nil && err1 != nil:
		return meta{}, true, err0
	case errors.Is(err0, errLies), errors.Is(err1, errLies):
		return meta{}, true, errors.Join(err0, err1)
	case err0 != nil:
		m = m1
	case err1 != nil || m0.txid >= m1.txid:
		m = m0
	default:
		m = m1
	}
	if m.pages < 3 || int64(m.pages) < 0 || m.pages > uint64(size/m.pageSize) {
		return m, torn, fmt.Errorf("the file should have %d pages of %d bytes but has %d bytes: it was cut", m.pages, m.pageSize, size)
	}
	return m, err0 != nil || err1 != nil, nil
}

// walker walks one tree of pages.
type walker struct {
	f     io.ReaderAt
	meta  meta
	seen  []bool // page is in use
	visit func(bucket string, key, value []byte) error
}

// walk checks the whole file and calls visit for every key of every bucket.
// Bucket names of nested buckets are joined with a slash. Slices are valid
// during the call only.
func walk(f io.ReaderAt, size int64, visit func(bucket string, key, value []byte) error) (m meta, torn bool, err error) {
	m, torn, err = readMeta(f, size)
	if err != nil {
		return m, torn, err
	}
	w := &walker{f: f, meta: m, seen: make([]bool, m.pages), visit: visit}
	if _, err := w.page(m.root, "", nil, nil, 0); err != nil {
		return m, torn, err
	}
	return m, torn, w.freelist()
}

// load reads a page with its overflow and marks it as used.
func (w *walker) load(id uint64) ([]byte, uint16, error) {
	if id < 2 || id >= w.meta.pages {
		return nil, 0, fmt.Errorf("page %d is outside the file", id)
	}
	if w.seen[id] {
		return nil, 0, fmt.Errorf("page %d is used twice", id)
	}
	buf := make([]byte, w.meta.pageSize)
	if _, err := w.f.ReadAt(buf, int64(id)*w.meta.pageSize); err != nil {
		return nil, 0, fmt.Errorf("page %d: %w", id, err)
	}
	over := uint64(binary.LittleEndian.Uint32(buf[12:]))
	if got := binary.LittleEndian.Uint64(buf); got != id || over >= w.meta.pages-id {
		return nil, 0, fmt.Errorf("page %d says it is page %d with %d more", id, got, over)
	}
	for i := id; i <= id+over; i++ {
		if w.seen[i] {
			return nil, 0, fmt.Errorf("page %d is used twice", i)
		}
		w.seen[i] = true
	}
	if over > 0 {
		buf = append(buf, make([]byte, int64(over)*w.meta.pageSize)...)
		if _, err := w.f.ReadAt(buf[w.meta.pageSize:], int64(id+1)*w.meta.pageSize); err != nil {
			return nil, 0, fmt.Errorf("page %d: %w", id, err)
		}
	}
	return buf, binary.LittleEndian.Uint16(buf[8:]), nil
}

// page walks a subtree whose keys must lie in [lo, hi). It returns the last key.
func (w *walker) page(id uint64, bucket string, lo, hi []byte, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("page %d: tree is too deep", id)
	}
	buf, flags, err := w.load(id)
	if err != nil {
		return nil, err
	}
	return w.elements(buf, flags, id, bucket, lo, hi, depth)
}

func (w *walker) elements(buf []byte, flags uint16, id uint64, bucket string, lo, hi []byte, depth int) ([]byte, error) {
	if flags != flagBranch && flags != flagLeaf {
		return nil, fmt.Errorf("page %d: unexpected kind %#x", id, flags)
	}
	count := int(binary.LittleEndian.Uint16(buf[10:]))
	next := pageHeader + count*elemSize // where the next element's data must begin
	if next > len(buf) || count == 0 && flags == flagBranch {
		return nil, fmt.Errorf("page %d: %d elements", id, count)
	}
	if count == 0 && (lo != nil || len(bytes.Trim(buf[pageHeader:], "\x00")) > 0) {
		return nil, fmt.Errorf("page %d: it says it is empty", id) // bbolt keeps empty pages as roots only, and clears them
	}
	var children []child
	last := lo
	for i := range count {
		at := pageHeader + i*elemSize
		e := buf[at:]
		var pos, ksize, vsize int
		if flags == flagBranch {
			pos, ksize = at+int(binary.LittleEndian.Uint32(e)), int(binary.LittleEndian.Uint32(e[4:]))
		} else {
			pos, ksize, vsize = at+int(binary.LittleEndian.Uint32(e[4:])), int(binary.LittleEndian.Uint32(e[8:])), int(binary.LittleEndian.Uint32(e[12:]))
		}
		if pos != next || ksize <= 0 || vsize < 0 || ksize > len(buf)-pos || vsize > len(buf)-pos-ksize {
			return nil, fmt.Errorf("page %d: element %d is misplaced", id, i)
		}
		next = pos + ksize + vsize
		key := buf[pos : pos+ksize]
		if c := bytes.Compare(last, key); c > 0 || c == 0 && i > 0 || hi != nil && bytes.Compare(key, hi) >= 0 {
			return nil, fmt.Errorf("page %d: keys are out of order", id)
		}
		last = key
		if flags == flagBranch {
			children = append(children, child{key, binary.LittleEndian.Uint64(e[8:])})
			continue
		}
		if err := w.leaf(binary.LittleEndian.Uint32(e), id, bucket, key, buf[pos+ksize:next], depth); err != nil {
			return nil, err
		}
	}
	for i, c := range children {
		end := hi
		if i+1 < len(children) {
			end = children[i+1].key
		}
		var err error
		if last, err = w.page(c.page, bucket, c.key, end, depth+1); err != nil {
			return nil, err
		}
	}
	return last, nil
}

type child struct {
	key  []byte
	page uint64
}

func (w *walker) leaf(flags uint32, id uint64, bucket string, key, value []byte, depth int) error {
	switch {
	case flags == 0 && bucket == "":
		return fmt.Errorf("page %d: value outside a bucket", id)
	case flags == 0:
		return w.visit(bucket, key, value)
	case flags != flagBucket || len(value) < bucketSize:
		return fmt.Errorf("page %d: damaged bucket", id)
	}
	name := string(key)
	if bucket != "" {
		name = bucket + "/" + name
	}
	if root := binary.LittleEndian.Uint64(value); root != 0 {
		_, err := w.page(root, name, nil, nil, depth+1)
		return err
	}
	in := value[bucketSize:] // an inline page
	if len(in) < pageHeader || depth > maxDepth {
		return fmt.Errorf("page %d: damaged inline bucket", id)
	}
	if binary.LittleEndian.Uint16(in[8:]) != flagLeaf {
		return fmt.Errorf("page %d: damaged inline bucket", id)
	}
	_, err := w.elements(in, flagLeaf, id, name, nil, nil, depth+1)
	return err
}

// freelist checks the list of free pages, if the file has one.
func (w *walker) freelist() error {
	if w.meta.freelist == noFreelist {
		return nil
	}
	buf, flags, err := w.load(w.meta.freelist)
	if err != nil {
		return fmt.Errorf("free list: %w", err)
	}
	count, at := uint64(binary.LittleEndian.Uint16(buf[10:])), pageHeader
	if count == 0xFFFF {
		count, at = binary.LittleEndian.Uint64(buf[pageHeader:]), pageHeader+8
	}
	if flags != flagFreelist || count > uint64(len(buf)-at)/8 {
		return errors.New("free list is damaged")
	}
	for i := range int(count) {
		id := binary.LittleEndian.Uint64(buf[at+8*i:])
		if id < 2 || id >= w.meta.pages || w.seen[id] {
			return fmt.Errorf("free list: page %d is in use or outside the file", id)
		}
		w.seen[id] = true
	}
	for id := 2; id < len(w.seen); id++ {
		if !w.seen[id] {
			return fmt.Errorf("page %d belongs to nobody", id)
		}
	}
	return nil
}
