package blackboard

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Errors that callers decide on.
var (
	ErrClosed   = errors.New("blackboard is closed")
	ErrKey      = errors.New("bad key")
	ErrValue    = errors.New("value can't be stored")
	ErrNumber   = errors.New("not a number")
	ErrConflict = errors.New("other writers were faster too often")
	// ErrChecksum says that a stored value is not what was written.
	ErrChecksum = errors.New("checksum mismatch")
	// ErrLocked says that another process has the file open.
	ErrLocked = errors.New("file is in use by another process")
	// ErrFull says that the disk, or Options.MaxSize, has no room left.
	ErrFull = errors.New("disk is full")
	// ErrReadOnly says that nothing can be written to the file now.
	ErrReadOnly = errors.New("file can't be written")
	// ErrCorrupt says that the file's structure is damaged.
	ErrCorrupt = errors.New("file is damaged")
	// ErrBusy says that more requests wait than Options.MaxRequests allows.
	ErrBusy = errors.New("too many requests wait")
	// ErrPass is returned by a volunteer's handler to leave a request to others.
	ErrPass = errors.New("passed on to other volunteers")
)

// A StoreError names the file, what is wrong with it (one of ErrLocked,
// ErrFull, ErrReadOnly, ErrCorrupt), what the system said, and what to do.
type StoreError struct {
	Path   string
	Kind   error
	Err    error
	Remedy string
}

func (e *StoreError) Error() string {
	s := fmt.Sprintf("blackboard: %s: %v", e.Path, e.Kind)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Remedy != "" {
		s += " (" + e.Remedy + ")"
	}
	return s
}

func (e *StoreError) Unwrap() []error { return []error{e.Kind, e.Err} }

// A TimeoutError is what a future gives when nobody answered its request in time.
type TimeoutError struct {
	Key   string
	After time.Duration
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("blackboard: request %s: no answer within %v", e.Key, e.After)
}

// Unwrap makes it a context.DeadlineExceeded.
func (e *TimeoutError) Unwrap() error { return context.DeadlineExceeded }

// A FailedError is what a future gives when a volunteer gave up on its request.
type FailedError struct {
	Key    string
	Reason string
	By     string
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("blackboard: request %s: %s failed: %s", e.Key, e.By, e.Reason)
}
