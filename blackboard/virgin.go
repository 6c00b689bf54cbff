package blackboard

import (
	"bytes"
	"encoding/binary"
	"hash/fnv"
	"os"
)

// A new file is four pages that bbolt writes before the first commit. Power
// that fails meanwhile leaves some of it; so may a failed sync, after which
// the kernel shows all of it. Such a file is begun again.

const virginPages = 4

// unwritten reports whether nothing was ever committed to a file: it is empty,
// or all that is in it is from its making. Zeros alone may have been anything.
func unwritten(f *os.File, size int64) (bool, error) {
	if size == 0 {
		return true, nil
	}
	if size > virginPages*pageSize {
		return false, nil
	}
	got := make([]byte, size)
	if _, err := f.ReadAt(got, 0); err != nil {
		return false, err
	}
	const sector = 512
	made, zeros := virgin(), make([]byte, sector)
	some := false
	for at := 0; at < len(got); at += sector {
		end := min(at+sector, len(got))
		switch {
		case bytes.Equal(got[at:end], made[at:end]):
			some = some || !bytes.Equal(got[at:end], zeros[:end-at])
		case !bytes.Equal(got[at:end], zeros[:end-at]):
			return false, nil
		}
	}
	return some, nil
}

// virgin is a file as bbolt makes it: two meta pages, a free list and a leaf.
func virgin() []byte {
	b := make([]byte, virginPages*pageSize)
	for id, kind := range []uint16{flagMeta, flagMeta, flagFreelist, flagLeaf} {
		p := b[id*pageSize:]
		binary.LittleEndian.PutUint64(p, uint64(id))
		binary.LittleEndian.PutUint16(p[8:], kind)
		if kind != flagMeta {
			continue
		}
		m := p[pageHeader:]
		binary.LittleEndian.PutUint32(m, boltMagic)
		binary.LittleEndian.PutUint32(m[4:], boltVersion)
		binary.LittleEndian.PutUint32(m[8:], pageSize)
		binary.LittleEndian.PutUint64(m[16:], 3) // the leaf
		binary.LittleEndian.PutUint64(m[32:], 2) // the free list
		binary.LittleEndian.PutUint64(m[40:], virginPages)
		binary.LittleEndian.PutUint64(m[48:], uint64(id))
		h := fnv.New64a()
		h.Write(m[:56])
		binary.LittleEndian.PutUint64(m[56:], h.Sum64())
	}
	return b
}
