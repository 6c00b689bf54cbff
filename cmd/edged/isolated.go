package main

import (
	"context"
	"os/exec"
	"time"

	"edged/bus"
	"edged/cmd/edged/internal/config"
	"edged/starlark/lib"
)

// Scripts that came from elsewhere: with script.isolated they run in a child
// process, which is loaded again when it has ended.

// isolation is nil for scripts of the operator.
func isolation(c *config.Config) *lib.Isolation {
	if !c.Script.Isolated {
		return nil
	}
	return &lib.Isolation{Memory: uint64(c.Script.Memory), Command: func() *exec.Cmd {
		cmd := exec.Command(self(), hostWord)
		cmd.Args[0] = "edged"
		return cmd
	}}
}

// The wait before an ended child is replaced: doubled each time, from the
// first again when one has lived for long.
const (
	reviveFirst = 200 * time.Millisecond
	reviveMost  = 30 * time.Second
	reviveLong  = time.Minute
)

// revive is told that the child has ended: killed for what its scripts did, or
// by somebody. Its handlers fail until the folder has been loaded again.
func (s *scripts) revive(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil || s.run.Err() != nil || s.stopped {
		return
	}
	s.r.bus.Report(s.run, hostWord, err, bus.Event{})
	s.dead = true
	s.schedule()
}

// schedule has the child replaced after a while; the caller holds mu.
func (s *scripts) schedule() {
	if s.wait *= 2; s.wait == 0 || time.Since(s.loaded) > reviveLong {
		s.wait = reviveFirst
	}
	s.wait = min(s.wait, reviveMost)
	time.AfterFunc(s.wait, s.again)
}

// again replaces the child that has ended, unless somebody has done so since.
func (s *scripts) again() {
	s.mu.Lock()
	still := s.dead && !s.stopped && s.run.Err() == nil
	s.mu.Unlock()
	if !still {
		return
	}
	if _, err := s.reload(context.WithoutCancel(s.run), hostWord); err != nil { // told already
		s.mu.Lock()
		s.schedule()
		s.mu.Unlock()
	}
}
