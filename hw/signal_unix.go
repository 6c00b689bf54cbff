//go:build unix

package hw

import (
	"os"
	"os/signal"
	"syscall"
)

// ignoreSignals makes this process deaf to what ends its parent.
func ignoreSignals() {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
}

// aborts gets what systemd's watchdog sends to all processes of a service when
// its main one stands still.
func aborts() chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGABRT)
	return c
}

// ownGroup keeps a child out of what a Ctrl-C is for.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// noWaiting opens a pipe without a reader, or a modem's line, at once.
const noWaiting = syscall.O_NONBLOCK | syscall.O_NOCTTY
