package hw

import (
	"os/signal"
	"syscall"
)

// ignoreSignals makes this process deaf to what ends its parent.
func ignoreSignals() {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
}
