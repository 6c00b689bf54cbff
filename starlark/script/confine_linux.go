package script

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// confine takes from the process what a script must not have: memory beyond
// the limit, descriptors beyond those that are open (so no file, no socket, no
// program), files written, core dumps; and it steps behind the robot's own work
// in the queue for the processor. RLIMIT_DATA counts what the process can write
// to, which is what the Go heap is made of; RLIMIT_AS would not let Go start.
func confine(memory uint64) error {
	// Timers need the poller, and the poller needs descriptors: have it now.
	ready := make(chan struct{})
	time.AfterFunc(time.Microsecond, func() { close(ready) })
	<-ready
	lowerPriority()
	for _, l := range []struct {
		what     int
		name     string
		cur, max uint64
	}{
		{syscall.RLIMIT_DATA, "data", memory, memory},
		{syscall.RLIMIT_FSIZE, "fsize", 0, 0},
		{syscall.RLIMIT_CORE, "core", 0, 0},
		{syscall.RLIMIT_NOFILE, "nofile", 0, 0},
	} {
		r := syscall.Rlimit{}
		setRlimit(&r, l.cur, l.max)
		if err := syscall.Setrlimit(l.what, &r); err != nil {
			return fmt.Errorf("limit %s: %w", l.name, err)
		}
	}
	if f, err := os.Open("/dev/null"); err == nil {
		f.Close()
		return errors.New("files can still be opened")
	}
	return nil
}

// lowerPriority does it for every thread there is; new ones inherit it. It is
// a courtesy: if it fails, the script only competes harder.
func lowerPriority() {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, t := range tasks {
		if id, err := strconv.Atoi(t.Name()); err == nil {
			_ = syscall.Setpriority(syscall.PRIO_PROCESS, id, 10)
		}
	}
}

// setRlimit is apart because the fields' type differs between systems.
func setRlimit(r *syscall.Rlimit, cur, max uint64) {
	r.Cur, r.Max = cur, max
}
