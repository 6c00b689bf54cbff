//go:build !unix

package blackboard

import (
	"os"
	"time"
)

// lock does nothing here: bbolt takes the only lock.
func lock(*os.File, bool, time.Duration) error { return nil }

func unlock(*os.File) error { return nil }
