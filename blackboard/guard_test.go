package blackboard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"syscall"
	"testing"
)

func TestClassify(t *testing.T) {
	path := func(op string, err error) error { return &fs.PathError{Op: op, Path: "b.db", Err: err} }
	for _, c := range []struct {
		err  error
		want error
	}{
		{path("write", syscall.ENOSPC), ErrFull},
		{fmt.Errorf("file resize error: %s", path("truncate", syscall.ENOSPC)), ErrFull},
		{fmt.Errorf("file resize error: %s", path("truncate", syscall.EDQUOT)), ErrFull},
		{fmt.Errorf("file resize error: %s", path("truncate", syscall.EIO)), ErrReadOnly},
		{path("open", syscall.EROFS), ErrReadOnly},
		{&faultError{"fault"}, ErrCorrupt},
		{ErrLocked, ErrLocked},
	} {
		if e := (&store{path: "b.db"}).classify(c.err); e.Kind != c.want {
			t.Errorf("%v: %v, want %v", c.err, e.Kind, c.want)
		}
	}
}

// A meta page with a right checksum and a wrong page size is damage: bbolt
// would believe it.
func TestMetaPageLies(t *testing.T) {
	o, snap := withSnapshot(t)
	for _, size := range []uint32{0, 1 << 31, 8192} {
		for page := range 2 {
			b := bytes.Clone(snap)
			m := b[page*pageSize+pageHeader:]
			binary.LittleEndian.PutUint32(m[8:], size)
			h := fnv.New64a()
			h.Write(m[:56])
			binary.LittleEndian.PutUint64(m[56:], h.Sum64())
			if err := os.WriteFile(o.Path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := checkFile(o.Path); !errors.Is(damage(err), ErrCorrupt) {
				t.Errorf("page size %d in meta page %d: %v", size, page, err)
			}
			want(t, openShut(t, o), "k", "kept")
		}
	}
}

// openShut opens a file and closes it again.
func openShut(t *testing.T, o Options) *Board {
	t.Helper()
	d := open(t, o)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	return d
}
