//go:build unix

package blackboard

import (
	"os"
	"syscall"
	"time"
)

const lockPause = 20 * time.Millisecond

// lock takes the lock that bbolt takes later on the same open file, so that
// nobody writes while the file is walked.
func lock(f *os.File, exclusive bool, limit time.Duration) error {
	how := syscall.LOCK_SH | syscall.LOCK_NB
	if exclusive {
		how = syscall.LOCK_EX | syscall.LOCK_NB
	}
	for begin := time.Now(); ; time.Sleep(lockPause) {
		err := syscall.Flock(int(f.Fd()), how)
		switch {
		case err == nil:
			return nil
		case err == syscall.EINTR:
		case err != syscall.EWOULDBLOCK:
			return err
		case time.Since(begin) >= limit:
			return ErrLocked
		}
	}
}

func unlock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
