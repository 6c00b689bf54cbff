package main

import "syscall"

// freeSpace is what an ordinary user may still write, in bytes.
func freeSpace(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}

// clockSynced asks the kernel whether somebody keeps its clock right.
func clockSynced() (synced, known bool) {
	const timeError = 5 // adjtimex(2): the clock is not synchronised
	var t syscall.Timex
	state, err := syscall.Adjtimex(&t)
	return state != timeError, err == nil
}
