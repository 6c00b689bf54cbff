package blackboard

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
)

// store is the file: it opens it guarded, writes commits, and tells what kind
// of trouble an error is. It knows nothing of values.
type store struct {
	path string
	opt  *Options
	db   *bbolt.DB // nil while nothing can be written
	file *os.File  // db's own file, closed when db itself can't be

	// broken says that a panic went through db: its locks may be held.
	broken bool
	txid   uint64 // of the last commit
}

// put is one key of one bucket to write; a nil value removes it.
type put struct {
	bucket string
	key    string
	value  []byte
}

// record names what a put writes.
type record struct{ bucket, key string }

// opened says what opening found out.
type opened struct {
	torn  bool // one of the two meta pages was damaged
	fresh bool // there was no file, or nothing in it
	made  bool // there was no file
	txid  uint64
}

const (
	pageSize  = 4096
	openLimit = 5 * time.Second
)

// visitor gets what is in the file; begin is called before a first or another
// try, with what came so far being void.
type visitor struct {
	begin func()
	visit func(bucket string, key, value []byte) error
}

// open reads and checks the whole file and makes it ready for commits. An
// empty file is damage if there are snapshots of it, unless begin says that
// none of them is any good; so is a file without a commit if one is good.
func (s *store) open(v visitor, begin bool) (o opened, err error) {
	type result struct {
		db   *bbolt.DB
		file *os.File
		o    opened
	}
	r, err := within(s.limit(), func() (result, error) {
		var r result
		options := &bbolt.Options{
			Timeout: s.opt.LockTimeout, PageSize: pageSize, FreelistType: bbolt.FreelistMapType,
			MaxSize: int(s.opt.MaxSize),
			OpenFile: func(name string, flag int, perm fs.FileMode) (*os.File, error) {
				f, err := s.openChecked(name, flag, perm, v, begin, &r.o)
				r.file = f
				return f, err
			},
		}
		if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
			return r, err
		}
		_, err := os.Lstat(s.path)
		r.o.made = errors.Is(err, fs.ErrNotExist)
		db, err := bbolt.Open(s.path, 0o600, options)
		if err != nil {
			return r, err
		}
		r.db = db
		// Whoever made the file may have failed before its name was on disk.
		dir := filepath.Dir(s.path)
		_ = syncDir(filepath.Dir(dir)) // for a folder just made; not every parent may be read
		if err = syncDir(dir); err == nil && !r.o.fresh {
			err = check(db)
		}
		if err != nil {
			closeDB(db, r.file)
			return r, err
		}
		return r, nil
	}, func(r result) { // came too late
		if r.db != nil {
			closeDB(r.db, r.file)
		}
	})
	if err != nil {
		return r.o, s.classify(err)
	}
	s.db, s.file, s.txid = r.db, r.file, r.o.txid
	return r.o, nil
}

// limit is how long opening may take: longer for large files.
func (s *store) limit() time.Duration {
	if fi, err := os.Stat(s.path); err == nil {
		return openLimit + time.Duration(fi.Size()>>25)*time.Second
	}
	return openLimit
}

// openChecked opens and locks the file for bbolt and walks it first.
func (s *store) openChecked(name string, flag int, perm fs.FileMode, v visitor, begin bool, o *opened) (_ *os.File, err error) {
	f, err := s.opt.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if err := lock(f, true, s.opt.LockTimeout); err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	v.begin()
	virgin, err := unwritten(f, fi.Size())
	if err != nil {
		return nil, err
	}
	if virgin {
		better := holds
		if fi.Size() > 0 { // begun because no snapshot was good, perhaps
			better = func(snap string) bool { return checkFile(snap) == nil }
		}
		if !begin && slices.ContainsFunc(snapshots(name), better) {
			return nil, fmt.Errorf("%w: it is empty, but there are snapshots of it", ErrCorrupt)
		}
		o.fresh = true
		return f, f.Truncate(0)
	}
	m, torn, err := walk(f, fi.Size(), v.visit)
	o.torn, o.txid = torn, m.txid
	if err != nil {
		return nil, damage(err)
	}
	if err := healMeta(f, m); err != nil {
		return nil, err
	}
	// What a killed process wrote and never synced must not reach the disk
	// after pages that this process is going to write.
	return f, f.Sync()
}

// healMeta writes the newest meta page once more. After a failed sync, of this
// process or of one before it, the kernel may hold the page as clean though it
// never reached the disk, and the next commit would reuse pages that the older
// one on disk still needs.
func healMeta(f *os.File, m meta) error {
	buf := make([]byte, m.pageSize)
	if _, err := f.ReadAt(buf, m.page*m.pageSize); err != nil {
		return err
	}
	_, err := f.WriteAt(buf, m.page*m.pageSize)
	return err
}

// readOnly reads the file without opening it for writing.
func (s *store) readOnly(v visitor) error {
	_, err := within(s.limit(), func() (struct{}, error) {
		f, err := s.opt.OpenFile(s.path, os.O_RDONLY, 0)
		if err != nil {
			return struct{}{}, err
		}
		defer f.Close()
		if err := lock(f, false, s.opt.LockTimeout); err != nil {
			return struct{}{}, err
		}
		fi, err := f.Stat()
		if err != nil {
			return struct{}{}, err
		}
		v.begin()
		if _, _, err = walk(f, fi.Size(), v.visit); err != nil {
			err = damage(err)
		}
		return struct{}{}, err
	}, nil)
	if err != nil {
		return s.classify(err)
	}
	return nil
}

// commit writes puts in one transaction and tells how many bytes that took;
// anew empties the file first.
func (s *store) commit(puts []put, anew bool) (written int64, err error) {
	if s.db == nil {
		return 0, &StoreError{Path: s.path, Kind: ErrReadOnly}
	}
	before := s.db.Stats()
	var id int
	err = guard(func() error {
		tx, err := s.db.Begin(true)
		if err != nil {
			return err
		}
		id = tx.ID()
		if anew {
			err = empty(tx)
		}
		for i := 0; i < len(puts) && err == nil; i++ {
			err = puts[i].write(tx)
		}
		if err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	})
	if err != nil {
		var p *faultError
		s.broken = errors.As(err, &p)
		return 0, s.classify(err)
	}
	s.txid = uint64(id)
	after := s.db.Stats()
	return after.TxStats.GetPageAlloc() - before.TxStats.GetPageAlloc() + pageSize, nil
}

// remove commits removals one by one. A commit needs new pages before it frees
// old ones; on a full disk a small one may find them where a large one does not.
func (s *store) remove(puts []put) (written int64, err error) {
	for i := range puts {
		n, err := s.commit(puts[i:i+1], false)
		if err != nil {
			return written, err
		}
		written += n
	}
	return written, nil
}

func empty(tx *bbolt.Tx) error {
	var names [][]byte
	err := tx.ForEach(func(name []byte, _ *bbolt.Bucket) error {
		names = append(names, bytes.Clone(name))
		return nil
	})
	for _, n := range names {
		err = errors.Join(err, tx.DeleteBucket(n))
	}
	return err
}

func (p put) write(tx *bbolt.Tx) error {
	b := tx.Bucket([]byte(p.bucket))
	if b == nil {
		if p.value == nil {
			return nil
		}
		var err error
		if b, err = tx.CreateBucket([]byte(p.bucket)); err != nil {
			return err
		}
	}
	if p.value == nil {
		return b.Delete([]byte(p.key))
	}
	return b.Put([]byte(p.key), p.value)
}

// close gives the file back. After an error the handle is no longer used.
func (s *store) close() error {
	if s.db == nil {
		return nil
	}
	db, f, broken := s.db, s.file, s.broken
	s.db, s.file, s.broken = nil, nil, false
	if broken {
		letGo(f)
		return nil
	}
	return closeDB(db, f)
}

// closeDB closes a database even if the disk hangs.
func closeDB(db *bbolt.DB, f *os.File) error {
	_, err := within(openLimit, func() (struct{}, error) { return struct{}{}, db.Close() }, nil)
	if errors.Is(err, errSlow) {
		letGo(f)
	}
	return err
}

// letGo closes a file beneath its database. The map of it stays until the
// process ends and would keep the lock, so that is given up first.
func letGo(f *os.File) {
	_ = unlock(f)
	_ = f.Close()
}

// syncDir brings the names in a folder to the disk, where that can be asked
// for: not every folder may be read, not every file system syncs folders.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); !errors.Is(err, syscall.EINVAL) {
		return err
	}
	return nil
}
