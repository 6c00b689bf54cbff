package blackboard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

const keepSnapshots = 3

// snapshots lists the names of the rolling copies, newest first.
func snapshots(path string) []string {
	var names []string
	for i := range keepSnapshots {
		names = append(names, fmt.Sprintf("%s.snapshot-%d", path, i+1))
	}
	return names
}

// scheduleSnapshot starts the clock at the first commit after a snapshot, so
// that a board nobody writes to does nothing. At open a copy is due when the
// newest one is not of this state of the file.
func (b *Board) scheduleSnapshot(atOpen bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := &b.commits
	if c.changed {
		return
	}
	if b.closed { // which takes it
		c.changed = !atOpen
		return
	}
	in := b.opt.Snapshot
	if atOpen {
		if b.store.txid == 0 || snapshotTx(snapshots(b.store.path)[0]) == b.store.txid {
			return
		}
		in = 0
	}
	c.changed = true
	if c.snapshot == nil {
		c.snapshot = time.AfterFunc(in, b.takeSnapshot)
	} else {
		c.snapshot.Reset(in)
	}
}

func snapshotTx(path string) uint64 {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return 0
	}
	m, _, err := readMeta(f, fi.Size())
	if err != nil {
		return 0
	}
	return m.txid
}

// takeSnapshot copies the file aside and lets the oldest copy go.
func (b *Board) takeSnapshot() {
	c := &b.commits
	c.snapping.Lock()
	defer c.snapping.Unlock()
	b.mu.Lock()
	c.changed = false
	b.mu.Unlock()
	names := snapshots(b.opt.Path)
	err := b.copyTo(names[0]+".tmp", func(tmp string) error {
		for i := len(names) - 1; i > 0; i-- {
			if err := os.Rename(names[i-1], names[i]); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
		return os.Rename(tmp, names[0])
	})
	if err != nil {
		b.opt.Log.Warn("blackboard snapshot failed", "path", b.opt.Path, "err", err)
		return
	}
	b.count.snapshots.Add(1)
}

// copyTo writes the file as of now to tmp, checks it, and hands it to place,
// which gives it its name.
func (b *Board) copyTo(tmp string, place func(tmp string) error) error {
	c := &b.commits
	c.running.Lock()
	if b.store.db == nil {
		c.running.Unlock()
		return fmt.Errorf("%w", ErrReadOnly)
	}
	tx, err := b.store.db.Begin(false)
	c.running.Unlock()
	if err != nil {
		return err
	}
	err = writeFile(tmp, func(w io.Writer) error {
		defer tx.Rollback()
		return guard(func() error { _, err := tx.WriteTo(w); return err })
	})
	if err == nil {
		err = checkFile(tmp)
	}
	if err == nil {
		err = place(tmp)
	}
	if err != nil {
		_ = os.Remove(tmp)
		return err
	}
	return syncDir(filepath.Dir(tmp))
}

// writeFile makes a file (0600) that is on disk when it returns.
func writeFile(path string, fill func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = fill(f)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// copyFile copies by a temporary name, so that there is never half a file.
func copyFile(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	tmp := to + ".tmp"
	err = writeFile(tmp, func(w io.Writer) error { _, err := io.Copy(w, src); return err })
	if err == nil {
		err = os.Rename(tmp, to)
	}
	if err != nil {
		_ = os.Remove(tmp)
		return err
	}
	return syncDir(filepath.Dir(to))
}

// copyAside keeps a copy of a file that holds damaged records.
func (b *Board) copyAside() (string, error) {
	to := fmt.Sprintf("%s.corrupt-%s", b.opt.Path, time.Now().UTC().Format("20060102T150405.000000"))
	return to, copyFile(b.opt.Path, to)
}

// checkFile reports whether a file is whole: its structure and every record.
func checkFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	_, _, err = walk(f, fi.Size(), func(bucket string, key, value []byte) error {
		formats := []byte{formatBytes}
		switch bucket {
		case bucketValues, bucketHistory, bucketRequests:
			formats = []byte{formatValue, formatWhose}
		}
		if _, err := unseal(key, value, formats...); err != nil {
			return fmt.Errorf("%s %q: %w", bucket, key, err)
		}
		return nil
	})
	return err
}

// holds reports whether there is a file with something in it.
func holds(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Size() > 0
}

// Backup writes everything, as of now, to a file of its own (0600) that
// [Restore] and [Open] take. It replaces an earlier one as a whole.
func (b *Board) Backup(ctx context.Context, path string) error {
	if b.store == nil {
		return errors.New("blackboard: backup: the board has no file")
	}
	if err := b.Flush(ctx); err != nil {
		return err
	}
	if err := b.copyTo(path+".tmp", func(tmp string) error { return os.Rename(tmp, path) }); err != nil {
		return fmt.Errorf("blackboard: backup to %s: %w", path, err)
	}
	return nil
}

// Restore checks a backup and puts it in the place of a board's file, which
// must not be open. The file that was there is kept as path.replaced-<time>.
func Restore(backup, path string) error {
	if err := checkFile(backup); err != nil {
		return fmt.Errorf("blackboard: restore from %s: %w", backup, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("blackboard: restore: %w", err)
	}
	if f, err := os.OpenFile(path, os.O_RDWR, 0); err == nil {
		defer f.Close() // lets go of the lock
		if err := lock(f, true, 0); err != nil {
			return (&store{path: path}).classify(err)
		}
		if _, err := moveAside(path, "replaced"); err != nil {
			return fmt.Errorf("blackboard: restore: %w", err)
		}
	}
	if err := copyFile(backup, path); err != nil {
		return fmt.Errorf("blackboard: restore to %s: %w", path, err)
	}
	return nil
}
