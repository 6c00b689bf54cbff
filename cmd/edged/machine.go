package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// What the machine under the robot is doing, for whoever looks at it: read when
// somebody asks, never before.

// machineUse is the machine as it stands. What it does not tell is left out.
type machineUse struct {
	CPU  *float64 `json:"cpu,omitempty"`  // percent of all cores, since it was asked before
	Temp *float64 `json:"temp,omitempty"` // the hottest part, °C
	Load *float64 `json:"load,omitempty"` // of a minute
}

func (m machineUse) String() string {
	var words []string
	for _, x := range []struct {
		what string
		v    *float64
	}{{"CPU %.0f %%", m.CPU}, {"load %.2f", m.Load}, {"%.0f °C", m.Temp}} {
		if x.v != nil {
			words = append(words, fmt.Sprintf(x.what, *x.v))
		}
	}
	return orElse(strings.Join(words, ", "), "says nothing of itself")
}

// machine remembers what it read last.
type machine struct {
	root string // in front of /proc and /sys, for tests

	mu         sync.Mutex // guards the rest
	busy, all  uint64     // ticks
	at         time.Time
	percentage *float64
}

// fresh is how long a percentage stands: shorter ones tell of the asking alone.
const fresh = 500 * time.Millisecond

func (m *machine) read() machineUse {
	var u machineUse
	m.mu.Lock()
	defer m.mu.Unlock()
	if busy, all, ok := ticks(m.file("proc/stat")); ok && time.Since(m.at) > fresh {
		if m.all > 0 && all > m.all {
			p := math.Round(1000*float64(busy-m.busy)/float64(all-m.all)) / 10
			m.percentage = &p
		}
		m.busy, m.all, m.at = busy, all, time.Now()
	}
	u.CPU = m.percentage
	if f := strings.Fields(m.file("proc/loadavg")); len(f) > 0 {
		if v, err := strconv.ParseFloat(f[0], 64); err == nil {
			u.Load = &v
		}
	}
	zones, _ := filepath.Glob(filepath.Join("/", m.root, "sys/class/thermal/thermal_zone*/temp")) // the pattern is good
	for _, z := range zones {
		b, _ := os.ReadFile(z) // one that sleeps says nothing
		v, err := strconv.ParseFloat(strings.TrimSpace(string(b)), 64)
		if v /= 1000; err == nil && v > -40 && v < 150 && (u.Temp == nil || v > *u.Temp) {
			u.Temp = &v
		}
	}
	return u
}

func (m *machine) file(name string) string {
	b, _ := os.ReadFile(filepath.Join("/", m.root, name)) // other systems have none
	return string(b)
}

// ticks reads the first line of /proc/stat: user nice system idle iowait irq
// softirq steal, and times of guests that are counted in user already.
func ticks(text string) (busy, all uint64, ok bool) {
	first, _, _ := strings.Cut(text, "\n")
	f := strings.Fields(first)
	if len(f) < 6 || f[0] != "cpu" {
		return 0, 0, false
	}
	for i, s := range f[1:min(len(f), 9)] {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return 0, 0, false
		}
		if all += n; i != 3 && i != 4 {
			busy += n
		}
	}
	return busy, all, true
}
