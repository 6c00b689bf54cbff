package main

import (
	"context"
	"os"
	"syscall"
	"unsafe"
)

// onKeys calls hit with each key that is pressed, if f is the terminal of this
// process, until the returned function is called. The terminal keeps its
// line feeds and Ctrl-C; it only stops waiting for the return key.
func onKeys(ctx context.Context, f *os.File, hit func(key byte)) (restore func(), ok bool) {
	var old syscall.Termios
	if ioctl(f, syscall.TCGETS, unsafe.Pointer(&old)) != nil {
		return nil, false
	}
	var group int32
	if ioctl(f, syscall.TIOCGPGRP, unsafe.Pointer(&group)) != nil || int(group) != syscall.Getpgrp() {
		return nil, false // in the background: reading would stop the process
	}
	keys := old
	keys.Lflag &^= syscall.ICANON | syscall.ECHO
	keys.Cc[syscall.VMIN], keys.Cc[syscall.VTIME] = 1, 0
	if ioctl(f, syscall.TCSETS, unsafe.Pointer(&keys)) != nil {
		return nil, false
	}
	go func() { // ends with the process: a read of a terminal can't be ended
		b := make([]byte, 16)
		for ctx.Err() == nil {
			n, err := f.Read(b)
			if err != nil {
				return
			}
			for _, k := range b[:n] {
				hit(k)
			}
		}
	}()
	return func() { _ = ioctl(f, syscall.TCSETS, unsafe.Pointer(&old)) }, true
}

func ioctl(f *os.File, what uintptr, arg unsafe.Pointer) error {
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), what, uintptr(arg)); e != 0 {
		return e
	}
	return nil
}
