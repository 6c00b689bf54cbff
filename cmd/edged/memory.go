package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"

	"edged/cmd/edged/internal/config"
)

// memory is what the garbage collector was told, and why.
type memory struct {
	Total config.Size `json:"total"` // of the machine or the cgroup
	Of    string      `json:"of"`    // "machine" or "cgroup"
	Limit config.Size `json:"limit"`
	GC    int         `json:"gc"` // percent
}

func (m memory) String() string {
	if m.Total == 0 {
		return fmt.Sprintf("limit %s, GC %d %%", rough(m.Limit), m.GC)
	}
	return fmt.Sprintf("limit %s of the %s's %s, GC %d %%", rough(m.Limit), m.Of, rough(m.Total), m.GC)
}

func rough(s config.Size) string {
	switch {
	case s >= math.MaxInt64:
		return "none"
	case s >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(s)/(1<<30))
	}
	return fmt.Sprintf("%d MiB", s>>20)
}

// tuneMemory tells the garbage collector what it may use. A small heap is
// collected all the time at the default of 100 %, which costs the second core;
// so the percentage is high, and the limit keeps it from mattering when memory
// gets tight. A quarter of the memory, at most 1 GiB, leaves the rest to others.
func tuneMemory(set config.Memory) memory {
	m := memory{Limit: set.Limit, GC: int(set.GC)}
	m.Total, m.Of = machineMemory()
	if m.Limit == 0 {
		m.Limit = math.MaxInt64
		if m.Total > 0 {
			m.Limit = min(max(m.Total/4, 32<<20), 1<<30)
		}
	}
	if m.GC == 0 {
		m.GC = 400
		if m.Limit < 1<<30 { // a board: its memory is worth more than a hundredth of its time
			m.GC = 100
		}
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(m.Limit))
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(m.GC)
	}
	_ = dropCode() // of the packages' own starts, so that the peak of the robot's is lower
	return m
}

// machineMemory is the smaller of the machine's memory and the cgroup's limit.
func machineMemory() (config.Size, string) {
	total, of := config.Size(0), "machine"
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		if f := strings.Fields(string(line(b, "MemTotal:"))); len(f) > 1 {
			kb, _ := strconv.ParseInt(f[1], 10, 64)
			total = config.Size(kb << 10)
		}
	}
	for _, path := range cgroupFiles() {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
		if err == nil && n > 0 && (total == 0 || config.Size(n) < total) {
			total, of = config.Size(n), "cgroup"
		}
	}
	return total, of
}

// cgroupFiles are where a limit may be: of this process's group and of those
// above it, in either version.
func cgroupFiles() []string {
	list := []string{"/sys/fs/cgroup/memory/memory.limit_in_bytes"}
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return list
	}
	if group, ok := bytes.CutPrefix(line(b, "0::"), []byte("0::")); ok {
		for p := string(group); ; p = filepath.Dir(p) {
			list = append(list, filepath.Join("/sys/fs/cgroup", p, "memory.max"))
			if p == "/" || p == "." {
				break
			}
		}
	}
	return list
}

func line(text []byte, prefix string) []byte {
	for l := range bytes.Lines(text) {
		if bytes.HasPrefix(l, []byte(prefix)) {
			return bytes.TrimSpace(l)
		}
	}
	return nil
}
