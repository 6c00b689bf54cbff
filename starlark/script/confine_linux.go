package script

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// confine takes from the process what a script must not have: memory beyond
// the limit, descriptors beyond those that are open (so no file, no socket, no
// program), files written, core dumps; and it steps behind the robot's own work
// in the queue for the processor. RLIMIT_DATA counts what the process can write
// to, which is what the Go heap is made of; RLIMIT_AS would not let Go start. The
// process's own part, most of it never touched, is added to the limit.
func confine(memory uint64) error {
	// Timers need the poller, and the poller needs descriptors: have it now.
	ready := make(chan struct{})
	time.AfterFunc(time.Microsecond, func() { close(ready) })
	<-ready
	lowerPriority()
	memory += dataSize()
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

// dataSize is what the process has mapped to write to so far, in bytes; an
// assumption where the system does not say.
func dataSize() uint64 {
	status, err := os.ReadFile("/proc/self/status")
	if err == nil {
		for line := range strings.Lines(string(status)) {
			if rest, ok := strings.CutPrefix(line, "VmData:"); ok {
				if kb, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64); err == nil {
					return kb << 10
				}
			}
		}
	}
	return 48 << 20
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
