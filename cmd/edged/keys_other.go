//go:build !linux

package main

import (
	"context"
	"os"
)

// spaceBar needs a Linux terminal.
func spaceBar(context.Context, *os.File, func()) (restore func(), ok bool) { return nil, false }
