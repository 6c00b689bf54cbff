//go:build !linux

package script

// confine does what the system can do without, which outside Linux is nothing:
// the engine's own limits and the parent's deadline remain.
func confine(uint64) error { return nil }

// keepFiles does nothing there.
func keepFiles() {}
