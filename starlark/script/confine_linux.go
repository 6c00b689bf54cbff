package script

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// confine takes from the process what a script must not have: memory beyond
// the limit, descriptors beyond those that are open (so no file, no socket, no
// program), files written, core dumps; and it steps behind the robot's own work
// in the queue for the processor.
//
// RLIMIT_DATA counts what the process may write to. By itself it does not hold a
// Go heap: that reserves address space first, and Linux asks about memory only
// when it is mapped where nothing was, so one big piece always passes. Hence the
// heap grows to the limit now, by a piece that is never touched; what stays
// reserved behind it is given back; and RLIMIT_AS, which counts what is
// reserved, leaves no room to reserve more. What the process has then it keeps.
// On top comes a little for the runtime's books, which grow with what the heap
// holds.
func confine(memory uint64) error {
	// Timers need the poller, and the poller needs descriptors: have it now.
	ready := make(chan struct{})
	time.AfterFunc(time.Microsecond, func() { close(ready) })
	<-ready
	lowerPriority()
	if err := grow(memory); err != nil {
		return err
	}
	data, space, err := mapped()
	if err != nil {
		return err
	}
	data += 4<<20 + memory/16
	space += min(8<<20+memory/8, 48<<20) // the heap reserves 64 MiB at a time
	for _, l := range []struct {
		what     int
		name     string
		cur, max uint64
	}{
		{syscall.RLIMIT_DATA, "data", data, data},
		{syscall.RLIMIT_AS, "as", space, space},
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

// grow makes the heap as large as it may become, in one piece, and gives back
// what the runtime has reserved behind it. The pages are not touched.
//
//go:noinline
func grow(memory uint64) error {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return fmt.Errorf("what is mapped: %w", err)
	}
	defer maps.Close()
	text := make([]byte, 256<<10) // before the piece: nothing may be mapped once it has been looked
	piece := make([]byte, memory)
	last := uintptr(unsafe.Pointer(&piece[memory-1]))
	n := 0
	for n < len(text) {
		m, err := maps.Read(text[n:])
		n += m
		if err != nil || m == 0 {
			break
		}
	}
	from, to := behind(text[:n], last)
	runtime.KeepAlive(piece)
	piece = nil
	if to > from {
		if _, _, no := syscall.RawSyscall(syscall.SYS_MUNMAP, from, to-from, 0); no != 0 {
			return fmt.Errorf("give back what is reserved: %w", no)
		}
	}
	debug.FreeOSMemory()
	return nil
}

// behind finds the reserved stretch that follows the mapping of an address, in
// the form of /proc/self/maps. It allocates nothing.
func behind(maps []byte, at uintptr) (from, to uintptr) {
	for len(maps) > 0 {
		line := maps
		if i := bytes.IndexByte(maps, '\n'); i >= 0 {
			line, maps = maps[:i], maps[i+1:]
		} else {
			maps = nil
		}
		start, rest := address(line)
		if len(rest) == 0 {
			continue
		}
		end, rest := address(rest[1:])
		switch {
		case from != 0 && start == from && bytes.HasPrefix(rest, []byte(" ---p 00000000 00:00 0")):
			return from, end
		case from != 0 && start == from: // the heap's in several mappings
			from = end
		case from != 0:
			return 0, 0
		case start <= at && at < end:
			from = end
		}
	}
	return 0, 0
}

// address reads a number at the beginning of a text.
func address(s []byte) (n uintptr, rest []byte) {
	for i, c := range s {
		switch {
		case c >= '0' && c <= '9':
			n = n<<4 | uintptr(c-'0')
		case c >= 'a' && c <= 'f':
			n = n<<4 | uintptr(c-'a'+10)
		default:
			return n, s[i:]
		}
	}
	return n, nil
}

// mapped tells, in bytes, what the process has mapped to write to, and all that
// it has mapped or reserved.
func mapped() (data, space uint64, err error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0, fmt.Errorf("what is mapped: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		name, rest, _ := strings.Cut(line, ":")
		kb, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		switch {
		case err != nil:
		case name == "VmData":
			data = kb << 10
		case name == "VmSize":
			space = kb << 10
		}
	}
	if data == 0 || space == 0 {
		return 0, 0, errors.New("what is mapped: /proc/self/status does not say")
	}
	return data, space, nil
}

// keepFiles keeps from programs that are started what this one was itself
// started with: files that are open beside the standard ones, which nobody here
// opened. Go's own are not handed on anyway.
func keepFiles() {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, f := range open {
		if fd, err := strconv.Atoi(f.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
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
