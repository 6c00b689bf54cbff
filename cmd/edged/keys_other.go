//go:build !linux

package main

import (
	"context"
	"os"
)

// onKeys needs a Linux terminal.
func onKeys(context.Context, *os.File, func(byte)) (restore func(), ok bool) { return nil, false }
