package main

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"time"

	"edged/background"
	"edged/cmd/edged/internal/config"
	"edged/starlark/lib"
)

// Scripts that came from elsewhere: with script.isolated they run in a child
// process.

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

// The process of isolated scripts is a service in the robot's tree, under a
// supervisor of its own: with the root's rule a stranger's script that takes all
// memory six times in a minute would end the robot. When this one gives up, the
// robot is stopped and goes on; what starts the scripts again is a reload.
const (
	isolatedName  = "isolated"
	hostRestarts  = 10 // in the usual window of a minute
	hostBackoff   = 200 * time.Millisecond
	hostBackedOff = time.Second // so that a child that always ends soon uses the restarts up
)

// supervise puts the child's service into the tree when the scripts are
// isolated, takes it out when they are no more, and begins anew when it is down
// although they have been loaded.
func (s *scripts) supervise(ctx context.Context) error {
	s.treeMu.Lock()
	defer s.treeMu.Unlock()
	b, _ := s.behaviour()
	tree := s.r.tree
	switch {
	case b.Isolated() && s.isolated == nil:
		s.isolated = background.NewSupervisor(isolatedName, background.Options{MaxRestarts: hostRestarts, OnGiveUp: s.hostGaveUp},
			background.Child{Name: hostWord, Service: scriptHost{s}, Restart: background.Permanent, Backoff: hostBackoff, MaxBackoff: hostBackedOff})
		return tree.Add(ctx, background.Child{Name: isolatedName, Service: s.isolated, Restart: background.Transient})
	case b.Isolated():
		err := tree.StartChild(ctx, isolatedName)
		if errors.Is(err, background.ErrRunning) { // it may wait for the next try, which isn't needed
			err = s.isolated.StartChild(ctx, hostWord)
		}
		if errors.Is(err, background.ErrRunning) || errors.Is(err, background.ErrStopped) { // stopped: the root gave up
			return nil
		}
		return err
	case s.isolated != nil:
		s.isolated = nil
		return tree.Remove(ctx, isolatedName)
	}
	return nil
}

// scriptHost is the child of the isolated scripts that run as a service. Every
// version of them has its own, so a restart is a reload.
type scriptHost struct{ s *scripts }

// Start loads the folder again if the child has ended.
func (h scriptHost) Start(ctx context.Context) error {
	h.s.mu.Lock()
	dead := h.s.dead && !h.s.stopped
	h.s.mu.Unlock()
	if !dead {
		return nil
	}
	if _, err := h.s.takeOver(ctx, hostWord); err != nil && !errors.Is(err, errUnchanged) { // somebody else has loaded it
		return err
	}
	return nil
}

// Serve goes on with the child of the next version when one takes over.
func (h scriptHost) Serve(ctx context.Context) error {
	for {
		b, _ := h.s.behaviour()
		life, cancel := context.WithCancel(context.WithoutCancel(ctx))
		stop := context.AfterFunc(ctx, func() {
			if h.s.run.Err() == nil { // else the behaviour ends its child when its runs have ended
				cancel()
			}
		})
		err := b.ServeHost(life)
		stop()
		cancel()
		switch now, stopped := h.s.ended(b); {
		case ctx.Err() != nil:
			return nil
		case stopped: // soon this service is too
			<-ctx.Done()
			return nil
		case now:
			return err
		}
	}
}

// ended notes that the child of a version is gone, if that is the one that runs
// now; stopped says that all ends.
func (s *scripts) ended(b *lib.Behaviour) (now, stopped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now = s.now == b; now {
		s.dead = true
	}
	return now, s.stopped
}

// whyDown says why isolated scripts have ended for good, or nothing.
func (s *scripts) whyDown() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down == nil {
		return ""
	}
	return strings.TrimPrefix(text(s.down), "edged: ")
}

// hostGaveUp leaves the robot stopped: what drove it is gone.
func (s *scripts) hostGaveUp(e *background.GaveUpError) {
	s.r.degrade(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		s.down = e
	}
}
