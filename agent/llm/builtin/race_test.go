//go:build race

package builtin_test

// raced: the race detector makes the engine ten times as slow.
const raced = true
