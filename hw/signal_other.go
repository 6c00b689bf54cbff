//go:build !unix

package hw

import (
	"os"
	"os/signal"
	"syscall"
)

func ignoreSignals() { signal.Ignore(os.Interrupt) }

func aborts() chan os.Signal { return make(chan os.Signal) }

func ownGroup() *syscall.SysProcAttr { return nil }

const noWaiting = 0
