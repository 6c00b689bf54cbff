//go:build unix

package hw

import (
	"os/signal"
	"syscall"
)

// ignoreSignals makes this process deaf to what ends its parent.
func ignoreSignals() {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
}

// ownGroup keeps a child out of what a Ctrl-C is for.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// noWaiting opens a pipe without a reader, or a modem's line, at once.
const noWaiting = syscall.O_NONBLOCK | syscall.O_NOCTTY
