package hw

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// A SafeAction is something a process that knows no drivers can do to make an
// actuator safe: write some bytes to a file (a sysfs attribute, a tty), or run
// a command.
type SafeAction struct {
	Path    string   `json:"path,omitempty"`
	Data    []byte   `json:"data,omitempty"`
	Command []string `json:"command,omitempty"`
}

// SafeActions gathers what the actuators declared for the guard.
func (r *Rig) SafeActions() []SafeAction {
	var list []SafeAction
	for _, a := range *r.actuators.Load() {
		if g, ok := a.dev.(Guarded); ok {
			list = append(list, g.SafeActions()...)
		}
	}
	return list
}

// A Guard is a child process that makes the robot safe when this process is
// gone without a word: killed, out of memory, crashed in C code. It holds the
// end of a pipe. When the pipe closes without a goodbye, it carries out the
// actions that it was told before. Nothing else could: a killed process runs
// no code.
//
// A Guard is a service; supervise it. When ctx ends it says goodbye, so it
// must be stopped after the actuators have been brought to rest.
type Guard struct {
	Argv    []string // what to start: this binary with the word that calls [RunGuard]
	Actions []SafeAction
}

const goodbye = "goodbye"

// guardTime is what one action of the guard may take.
const guardTime = 500 * time.Millisecond

// order to a guard, one JSON line.
type guardOrder struct {
	Actions []SafeAction `json:"actions,omitempty"`
	Word    string       `json:"word,omitempty"`
}

// Serve starts the guard and keeps it until ctx ends. It returns an error if
// the guard can't be started or ends early.
func (g Guard) Serve(ctx context.Context) error {
	if len(g.Argv) == 0 {
		return errors.New("hw: guard: no command")
	}
	cmd := exec.Command(g.Argv[0], g.Argv[1:]...)
	cmd.SysProcAttr = ownGroup()
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("hw: guard: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("hw: guard: start: %w", err)
	}
	say := json.NewEncoder(in)
	var mu sync.Mutex // guards say
	tell := func(o guardOrder) error {
		mu.Lock()
		defer mu.Unlock()
		return say.Encode(o)
	}
	told := tell(guardOrder{Actions: g.Actions})
	stop := context.AfterFunc(ctx, func() {
		_ = tell(guardOrder{Word: goodbye}) // if it is gone, Wait says so
		_ = in.Close()
	})
	defer stop()
	err = cmd.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("hw: guard: it ended by itself: %w", errors.Join(told, err, errors.New("no goodbye was said")))
}

// RunGuard is the guard's side: it reads orders from in (its standard input)
// and, when in ends without a goodbye, carries out the last ones at once and
// all at the same time. It ignores signals that stop a group of processes,
// because it has to outlive them. At SIGABRT, which systemd's watchdog sends to
// all of a service that stands still, it carries them out without waiting for
// the end of in. It returns what failed.
func RunGuard(in io.Reader) error {
	abort := aborts()
	ignoreSignals()
	var mu sync.Mutex // guards actions
	var actions []SafeAction
	orders := func() []SafeAction {
		mu.Lock()
		defer mu.Unlock()
		return actions
	}
	over := make(chan struct{})
	var watch sync.WaitGroup
	defer watch.Wait()
	defer close(over)
	watch.Go(func() {
		for {
			select {
			case <-abort:
				_ = makeSafe(orders()) // they are carried out again at the end of in, which tells
			case <-over:
				return
			}
		}
	})
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var o guardOrder
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			continue // half a line: its writer was killed in the middle
		}
		if o.Word == goodbye {
			return nil
		}
		mu.Lock()
		actions = o.Actions
		mu.Unlock()
	}
	return makeSafe(orders())
}

func makeSafe(actions []SafeAction) error {
	results := make(chan error, len(actions))
	var all sync.WaitGroup
	for _, a := range actions {
		all.Go(func() { results <- a.do() })
	}
	var errs []error
	late := time.After(2 * guardTime)
	for range actions {
		select {
		case err := <-results:
			errs = append(errs, err)
		case <-late:
			return errors.Join(append(errs, errors.New("hw: guard: an action hangs"))...)
		}
	}
	all.Wait()
	return errors.Join(errs...)
}

func (a SafeAction) do() error {
	var errs []error
	if a.Path != "" {
		errs = append(errs, a.write())
	}
	if len(a.Command) > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), guardTime)
		defer cancel()
		if out, err := exec.CommandContext(ctx, a.Command[0], a.Command[1:]...).CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("hw: guard: %v: %w: %s", a.Command, err, out))
		}
	}
	return errors.Join(errs...)
}

// write writes without waiting for a reader of a pipe or a modem's line. A
// regular file is replaced, a device file is written to.
func (a SafeAction) write() error {
	f, err := os.OpenFile(a.Path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|noWaiting, 0o600)
	if err != nil {
		return fmt.Errorf("hw: guard: %w", err)
	}
	_, err = f.Write(a.Data)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("hw: guard: %w", err)
	}
	return nil
}
