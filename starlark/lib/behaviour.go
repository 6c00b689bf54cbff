package lib

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.starlark.net/starlark"

	"edged/agent"
	"edged/agent/llm"
	"edged/background"
	"edged/bus/origin"
	"edged/starlark/script"
	"edged/starlark/value"
	"edged/workflow/society"
)

// A Behaviour is a loaded folder: handlers, timers, watchers, volunteers,
// agents. It is made by [Load], started once, and stopped once.
type Behaviour struct {
	host         *Host
	folder       string
	dir          fs.FS // its files
	ownSessions  *Sessions
	globals      origin.Label // whose words the globals are, if not the scripts' own; fixed after load
	isolated     bool
	grants       Grants
	testing      bool
	stimulus     func()            // told in tests that the world is changed
	settle       func(*value.Call) // and that it has been
	log          *slog.Logger
	engine       *script.Engine
	program      *script.Program       // nil if it is isolated
	remote       *script.RemoteProgram // then this is not
	child        *host
	kept         boardShare // what it keeps on the board, if it is isolated
	predeclared  starlark.StringDict
	contextValue func(*run) starlark.Value
	root         *background.Supervisor

	life  context.Context // of all runs; ends when they are to be cancelled
	kill  context.CancelCauseFunc
	base  context.Context // what life ends with; a reload goes on with it
	runs  runs
	flows flows
	clock wallClock
	draft draft // of the load

	asking asking      // what people are asked now
	live   atomic.Bool // its triggers count
	old    atomic.Bool // another version is in its place

	turns atomic.Pointer[turns]

	before   atomic.Pointer[Behaviour] // whose place it takes, while it does
	takeover atomic.Pointer[Takeover]

	mu        sync.Mutex // guards the rest
	parts     map[part]int
	order     int
	units     []*unit
	wakers    []TriggerSummary
	pools     []*agentPool
	inboxes   map[string]bool
	agents    map[string]int         // how often a name was given
	made      []agent.Agent          // in the order they were declared
	tools     []*tool                // that scripts made, in that order
	toolsets  []*toolset             // servers that the top level names
	societies []*commune             // declared at top level, in order
	record    *society.Log           // of their turns
	served    map[string]bool        // names of server models that are used
	known     map[keyed]llm.Model    // models by name
	warnings  []Problem              // for Check
	durables  map[string]*durableRun // runs with a record
	claimed   map[string]bool        // names of durable timers that are set
	timers    map[string]*ticker     // durable timers, by name
	missing   map[string]bool        // records whose function is not there; told
	started   bool
	stopped   bool
	failed    []error // of parts that could not start
	lost      uint64  // what waited and was not taken over, in all versions so far
}

// part is something that listens: it is started with the behaviour, or when a
// running one declares it, and closed with it.
type part interface {
	start() error
	close()
	summary() HandlerSummary
}

// attach declares a part: it starts with the behaviour, or at once.
func (b *Behaviour) attach(c *value.Call, p part) error {
	if err := effect(c); err != nil {
		return err
	}
	b.remember(p)
	if !script.Loading(c.Thread) {
		err := p.start()
		if err != nil {
			b.forget(p)
		}
		return err
	}
	script.OnFrozen(c.Thread, func() {
		if err := p.start(); err != nil {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.failed = append(b.failed, err)
		}
	})
	return nil
}

func (b *Behaviour) remember(p part) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.order++
	b.parts[p] = b.order
}

func (b *Behaviour) forget(p part) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.parts, p)
}

func (b *Behaviour) noteInbox(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inboxes[name] = true
}

func (b *Behaviour) hasInbox(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inboxes[name]
}

func (b *Behaviour) noteAgent(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.agents[name]++
}

// declareUnit notes a background agent or a tree.
func (b *Behaviour) declareUnit(u *unit) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, v := range b.units {
		if v.name == u.name && u.auto {
			return fmt.Errorf("the name %q is taken by the one declared at %v", u.name, v.at)
		}
	}
	if u.auto {
		b.units = append(b.units, u)
	}
	return nil
}

// Start lets the behaviour hear and act: from one event to the next, all of it
// at once. It runs until [Behaviour.Stop] or until ctx ends, which cancels its
// runs. If a part can't start, nothing does.
func (b *Behaviour) Start(ctx context.Context) error {
	resume := b.host.Bus.Pause()
	err := b.begin(ctx)
	if err == nil {
		b.live.Store(true)
		b.accepted()
		b.resume(nil, false)
		b.resumeTimers(false)
	}
	resume()
	if err != nil {
		_ = b.Stop(context.WithoutCancel(ctx)) // what counts is why it did not start
		return err
	}
	b.resumeRuns()
	return nil
}

// begin attaches everything. The bus is paused.
func (b *Behaviour) begin(ctx context.Context) error {
	b.mu.Lock()
	if b.started || b.stopped {
		b.mu.Unlock()
		return fmt.Errorf("lib: start %s: it was started before", b.folder)
	}
	b.mu.Unlock()
	b.kill(nil) // the life of the load
	b.base = ctx
	b.life, b.kill = context.WithCancelCause(ctx)
	b.startProgram()
	b.mu.Lock()
	b.started = true
	failed, units, pools := b.failed, b.units, b.pools
	b.mu.Unlock()
	for _, u := range units {
		u.mu.Lock()
		auto := u.auto && u.owner == nil
		u.mu.Unlock()
		if auto {
			failed = append(failed, u.start(b.life))
		}
	}
	failed = append(failed, b.startRoot())
	for _, p := range pools {
		failed = append(failed, p.begin(b.life))
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("lib: start %s: %w", b.folder, err)
	}
	return nil
}

// all lists the parts, in the order they were declared.
func (b *Behaviour) all() []part {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := slices.Collect(maps.Keys(b.parts))
	slices.SortFunc(list, func(x, y part) int { return b.parts[x] - b.parts[y] })
	return list
}

// detach ends all listening. Runs go on.
func (b *Behaviour) detach() {
	b.live.Store(false)
	b.mu.Lock()
	b.stopped = true
	b.mu.Unlock()
	for _, p := range b.all() {
		p.close()
	}
}

// afterCancel is how long runs that were cancelled may take to notice.
const afterCancel = 2 * time.Second

// Stop ends the behaviour: it hears nothing any more, background agents stop,
// and runs may finish until ctx ends; then they are cancelled. The error says
// what did not end. Calling it again does nothing more.
func (b *Behaviour) Stop(ctx context.Context) error {
	b.clock.note()
	b.detach()
	return b.finish(ctx)
}

// stopBackground stops background agents and pools.
func (b *Behaviour) stopBackground(ctx context.Context) error {
	b.mu.Lock()
	pools := b.pools
	b.mu.Unlock()
	var errs []error
	for _, p := range pools {
		errs = append(errs, p.end(ctx))
	}
	return errors.Join(append(errs, b.root.Stop(ctx))...)
}

// finish waits for what is running.
func (b *Behaviour) finish(ctx context.Context) error {
	defer b.child.stop()
	idle := b.runs.close()
	errs := []error{b.stopBackground(ctx)}
	select {
	case <-idle:
		b.kill(errStopped)
		return errors.Join(errs...)
	case <-ctx.Done():
	}
	b.kill(errStopped)
	t := time.NewTimer(afterCancel)
	defer t.Stop()
	select {
	case <-idle:
		if err := b.root.Stop(context.WithoutCancel(ctx)); err != nil {
			errs = append(errs, err)
		}
		return nil
	case <-t.C:
		return fmt.Errorf("lib: stop %s: %d runs ignore that they were cancelled", b.folder, b.runs.len())
	}
}

// Folder is the behaviour's name.
func (b *Behaviour) Folder() string { return b.folder }
