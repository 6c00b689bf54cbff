// Command edged runs robot behaviours written in Starlark on the robot itself.
//
// Its one rule: the verbs are thin. What happens is in the rooms below; run.go
// puts them together, top to bottom in the order of the floors, and every
// other verb either works on a folder (new, check, test, fmt, doc) or asks a
// running robot over its socket (status, pub, sub, bb, stop, trace, why).
//
//	edged demo               # a robot in an apartment
//	edged new guard          # a folder of one's own
//	edged run guard
//	edged stop
//
// Exit status: 0, 1 when a problem was found, 2 when the command line is wrong.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
)

// version is set by the linker: -X main.version=…
var version = "devel"

func main() { os.Exit(Main()) }

// Main runs the command line of the process and returns its exit status.
func Main() int {
	runtime.MemProfileRate = 0 // nobody reads it, and its table is a quarter of a megabyte
	if code, ours := children(os.Args[1:]); ours {
		return code
	}
	// Linux hands a signal for a process to its main thread, whatever that is doing.
	// One that sits in the kernel, waiting for a disk that hangs, would take SIGUSR1
	// or SIGTERM and stop nothing. So the main thread does nothing but wait here,
	// where signals wake it.
	runtime.LockOSThread()
	if slices.Contains(os.Args[1:], "stop") {
		hurry()
	}
	code := make(chan int, 1)
	go func() { code <- command() }()
	return <-code
}

// command runs the command line.
func command() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c := &cli{in: os.Stdin, out: os.Stdout, err: os.Stderr}
	return c.main(ctx, os.Args[1:])
}
