package blackboard

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// What keeps a damaged file or a bad disk from taking the process along, and
// what tells its errors apart.

// damage tells a damaged file from a disk that can't be read.
func damage(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) && !errors.Is(err, io.EOF) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}

// check is bbolt's own check, after ours has made it safe to run.
func check(db *bbolt.DB) error {
	return guard(func() error {
		return db.View(func(tx *bbolt.Tx) error {
			var first error
			for err := range tx.Check() {
				if first == nil {
					first = fmt.Errorf("%w: %w", ErrCorrupt, err)
				}
			}
			return first
		})
	})
}

var errSlow = errors.New("the disk does not answer")

// within runs f on a goroutine of its own, guarded, and gives up after a time;
// a result that comes later goes to late.
func within[T any](limit time.Duration, f func() (T, error), late func(T)) (T, error) {
	type out struct {
		v   T
		err error
	}
	done := make(chan out)
	gone := make(chan struct{})
	time.AfterFunc(0, func() {
		var o out
		o.err = guard(func() (err error) { o.v, err = f(); return err })
		select {
		case done <- o:
		case <-gone:
			if late != nil {
				late(o.v)
			}
		}
	})
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case o := <-done:
		return o.v, o.err
	case <-t.C:
		close(gone)
		var zero T
		return zero, fmt.Errorf("%w within %v", errSlow, limit)
	}
}

// guard runs f so that a fault in the mapped file, or a panic of bbolt, is an
// error and not the end of the process.
func guard(f func() error) (err error) {
	was := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(was)
		if p := recover(); p != nil {
			err = &faultError{p}
		}
	}()
	return f()
}

// faultError is a panic or a fault in the mapped file.
type faultError struct{ value any }

func (e *faultError) Error() string { return fmt.Sprint(e.value) }
func (e *faultError) Unwrap() error { return ErrCorrupt }

const freeSpace = "free some space; it goes on by itself"

// classify says what kind of trouble an error is and what to do about it.
func (s *store) classify(err error) *StoreError {
	var known *StoreError
	if errors.As(err, &known) {
		return known
	}
	e := &StoreError{Path: s.path, Err: err}
	var p *fs.PathError
	inWrite := errors.As(err, &p) && p.Op == "write"
	noGrowth := strings.Contains(err.Error(), "file resize error") && // bbolt keeps but the text
		(strings.Contains(err.Error(), syscall.ENOSPC.Error()) || strings.Contains(err.Error(), syscall.EDQUOT.Error()))
	switch {
	case errors.Is(err, ErrLocked), errors.Is(err, berrors.ErrTimeout):
		e.Kind, e.Remedy = ErrLocked, "stop the other edged that uses it, or give this one another file"
	case errors.Is(err, berrors.ErrMaxSizeReached):
		e.Kind, e.Remedy = ErrFull, "delete keys or raise the size limit"
	case noGrowth:
		e.Kind, e.Remedy = ErrFull, freeSpace
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		e.Kind, e.Remedy = ErrFull, freeSpace
		if !inWrite && s.db != nil { // a failed sync, not a refused write
			e.Kind = ErrReadOnly
		}
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		e.Kind, e.Remedy = ErrReadOnly, "make the folder writable for this user; it goes on by itself"
	case errors.Is(err, ErrCorrupt):
		e.Kind = ErrCorrupt
	default:
		e.Kind, e.Remedy = ErrReadOnly, "check the disk; it goes on by itself when writing works again"
	}
	return e
}
