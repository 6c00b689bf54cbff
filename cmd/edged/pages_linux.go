package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// dropCode takes the program's own code and constants out of its resident
// memory. A start runs a little of every package, and the kernel maps whole
// stretches around what is touched: nearly all of the file, of which a robot
// that runs needs a seventh. What is needed again is mapped again, from the page
// cache or the file.
//
// Only mappings that were never written are dropped: a page that differs from
// the file would come back as the file has it.
func dropCode() error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return err
	}
	var bad error
	for _, m := range cleanMappings(text, exe) {
		if _, _, e := syscall.Syscall(syscall.SYS_MADVISE, m.from, m.to-m.from, syscall.MADV_DONTNEED); e != 0 {
			bad = errors.Join(bad, fmt.Errorf("madvise %x-%x: %w", m.from, m.to, e))
		}
	}
	return bad
}

// mapping is a range of addresses.
type mapping struct{ from, to uintptr }

// cleanMappings finds in the text of /proc/self/smaps what is mapped from a file
// read-only and has no page of its own.
func cleanMappings(smaps []byte, file string) (list []mapping) {
	var m mapping // the one being read, if it is of the file
	s := bufio.NewScanner(bytes.NewReader(smaps))
	for s.Scan() {
		f := strings.Fields(s.Text())
		switch {
		case len(f) >= 5 && strings.Contains(f[0], "-"):
			m = mapping{}
			mode := f[1]
			if len(f) == 6 && f[5] == file && (mode == "r-xp" || mode == "r--p") {
				if _, err := fmt.Sscanf(f[0], "%x-%x", &m.from, &m.to); err != nil {
					m = mapping{}
				}
			}
		case len(f) == 3 && f[0] == "Anonymous:" && f[1] == "0" && m.to > m.from:
			list = append(list, m)
		}
	}
	return list
}
