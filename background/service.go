// Package background is what runs by itself: services, the tree that watches
// over them, and agents that wake up when something happens.
//
// Its one rule: a crash is somebody's job. Whatever runs has a supervisor that
// starts it, restarts it by its policy, stops it in order, and, when it can't
// go on, tells the supervisor above. Policies and strategies are those of
// Erlang/OTP; the window of restarts is exact.
//
//	tree := background.NewSupervisor("robot", background.Options{Bus: b},
//		background.Child{Name: "lidar", Service: lidar, Restart: background.Permanent},
//		background.Child{Name: "bridge", Service: bridge, Backoff: time.Second, MaxBackoff: time.Minute},
//	)
//	err := tree.Serve(ctx) // until ctx ends or the tree gives up
//
// What Go can't give: a goroutine that ignores its context can't be killed.
// Such a child is abandoned: counted, reported, its handles revoked (see
// [Revoker]), and never started a second time beside itself.
package background

import (
	"context"
	"errors"
	"fmt"
	"time"

	"edged/agent"
)

// A Service runs until it is finished or ctx ends. Returning nil or
// [agent.ErrExit] is a clean exit; so is an error that wraps [ErrShutdown].
// Any other error, a panic and runtime.Goexit are a crash.
type Service interface {
	Serve(ctx context.Context) error
}

// A Starter is a Service with a first step that can fail. Start is called
// before Serve, on the same goroutine and with the same context; the service
// counts as started when it has returned nil. Without Start a service counts
// as started as soon as its goroutine runs.
type Starter interface {
	Start(ctx context.Context) error
}

// A Revoker is a Service that can be disarmed from outside. Revoke is called
// when the service has been abandoned: it ignored its context longer than its
// shutdown time. It must not block; what the service still holds (devices,
// subscriptions) should stop working for it.
type Revoker interface {
	Revoke()
}

// Func makes a service of a function.
func Func(serve func(ctx context.Context) error) Service { return funcService(serve) }

type funcService func(context.Context) error

func (f funcService) Serve(ctx context.Context) error { return f(ctx) }

// Errors that callers decide on.
var (
	ErrShutdown = errors.New("shutdown")        // an ordered end; for a transient child the same as a clean exit
	ErrRunning  = errors.New("already started") // a second start
	ErrStopped  = errors.New("not running")     // the supervisor or the child is down
	ErrUnknown  = errors.New("no such child")
	ErrGoexit   = errors.New("runtime.Goexit was called")

	errLingers = errors.New("the run before ignores its stop and is still there")
)

// A GaveUpError is the end of a supervisor whose children crashed too often.
// It wraps [ErrShutdown], as in OTP: a supervisor above restarts a permanent
// child that gave up, and leaves a transient one down.
type GaveUpError struct {
	Name        string // of the supervisor
	Child       string // whose crash was one too many
	MaxRestarts int
	Window      time.Duration
	Cause       error
	// Since is when it gave up, if that was before the process was started: it
	// was not started again.
	Since time.Time
}

func (e *GaveUpError) Error() string {
	if !e.Since.IsZero() {
		return fmt.Sprintf("background: %s gave up at %s, before the robot was started, and is not started again (%v); `edged reload` starts it",
			e.Name, e.Since.Local().Format(time.DateTime), e.Cause)
	}
	return fmt.Sprintf("background: %s gave up: more than %d restarts in %v; last was %s: %v", e.Name, e.MaxRestarts, e.Window, e.Child, e.Cause)
}

// Unwrap gives the last crash and [ErrShutdown].
func (e *GaveUpError) Unwrap() []error { return []error{ErrShutdown, e.Cause} }

// A StartError names the child that could not be started.
type StartError struct {
	Name, Child string
	Err         error
}

func (e *StartError) Error() string {
	return fmt.Sprintf("background: start %s: %s: %v", e.Name, e.Child, e.Err)
}

func (e *StartError) Unwrap() error { return e.Err }

// clean reports whether an exit is no crash.
func clean(err error) bool {
	return err == nil || errors.Is(err, agent.ErrExit) || errors.Is(err, ErrShutdown)
}

// backtrace finds what an error knows of where it came from.
func backtrace(err error) string {
	var f interface{ Fields() map[string]any }
	if !errors.As(err, &f) {
		return ""
	}
	s, _ := f.Fields()["backtrace"].(string)
	return s
}
