//go:build !linux

package main

import "math"

// freeSpace isn't known here.
func freeSpace(string) (int64, error) { return math.MaxInt64, nil }

// clockSynced isn't known here.
func clockSynced() (synced, known bool) { return false, false }
