package script

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
	"weak"

	"go.starlark.net/starlark"

	"edged/starlark/value"
)

// maxRequests is how many calls a host may have waiting in the runtime, and
// maxObjects how many of the runtime's objects it may hold.
const (
	maxRequests = 1000
	maxObjects  = 20_000
	maxTexts    = 4 << 20 // bytes of its files, for messages
)

// session is one child process from its start to its end. What comes out of it
// is not trusted: it is bounded, and a message that makes no sense ends it.
type session struct {
	i      *Isolated
	cmd    *exec.Cmd // nil if the host is in this process
	in     io.WriteCloser
	out    io.ReadCloser
	stderr tail
	load   *loader         // for OnFrozen
	ctx    context.Context // of Serve, for what the top level calls

	inMu sync.Mutex // guards writes to in

	mu        sync.Mutex // guards the rest
	nextID    uint64
	calls     map[uint64]*remoteCall
	requests  int
	objects   map[uint64]starlark.Value
	forgotten []uint64          // functions no longer held, told with the next frame
	texts     map[string]string // of the files that were read, by path
	kept      int               // their bytes
	shared    map[weak.Pointer[starlark.Dict]]uint64
	ended     error // why the session is over
}

// remoteCall is a call that a script in the host is working on.
type remoteCall struct {
	ctx     context.Context
	f       *RemoteFunc // nil for the load
	objects []uint64    // sent as arguments: gone when the call is
	done    chan struct{}
	v       starlark.Value
	err     error

	mu     sync.Mutex // guards the rest: the deadline, which stands while the runtime works
	left   time.Duration
	since  time.Time
	paused int
	timer  *time.Timer
}

func newSession(ctx context.Context, i *Isolated, in io.WriteCloser, out io.ReadCloser) *session {
	return &session{ctx: ctx, i: i, in: in, out: out, load: &loader{}, calls: make(map[uint64]*remoteCall), objects: make(map[uint64]starlark.Value)}
}

// serve answers the host until it is gone and returns why.
func (s *session) serve() error {
	in := bufio.NewReader(s.out)
	var err error
	for err == nil {
		var kind byte
		var d *decoder
		if kind, d, err = readFrame(in); err == nil {
			d.foreign = s.decodeForeign
			err = s.handle(kind, d)
		}
	}
	s.kill(err)
	s.out.Close()
	s.in.Close()
	var status error
	if s.cmd != nil {
		status = s.cmd.Wait()
	}
	return s.finish(status)
}

// kill ends the host; the first reason counts.
func (s *session) kill(why error) {
	s.mu.Lock()
	if s.ended == nil {
		s.ended = why
	}
	s.mu.Unlock()
	switch {
	case s.cmd == nil:
		_ = s.in.Close()
		_ = s.out.Close()
	case s.cmd.Process != nil:
		_ = s.cmd.Process.Kill()
	}
}

// finish fails what is still waiting and returns why the host ended.
func (s *session) finish(status error) error {
	s.mu.Lock()
	why := s.ended
	text := s.stderr.String()
	var limit *LimitError
	// A Go program that is refused memory says so or, deep in the runtime,
	// faults; it has no other reason to.
	switch {
	case errors.As(why, &limit):
	case strings.Contains(text, "out of memory") || strings.Contains(text, "cannot allocate memory") || strings.Contains(text, "stack exceeds") || strings.Contains(text, "SIGSEGV"):
		why = &LimitError{Limit: "memory", Heap: s.i.o.Memory}
	case text != "":
		why = errors.New(strings.TrimSpace(strings.SplitN(text, "\n", 2)[0]))
	case status != nil && (errors.Is(why, errClosed) || errors.Is(why, io.EOF) || errors.Is(why, io.ErrUnexpectedEOF)):
		why = status
	}
	why = fmt.Errorf("%w: %w", ErrHostEnded, why)
	s.ended = why
	calls := s.calls
	s.calls = make(map[uint64]*remoteCall)
	s.objects = nil
	s.mu.Unlock()
	for _, c := range calls {
		c.stop()
		c.err = why
		close(c.done)
		if c.f == nil && s.i.o.Loaded != nil {
			s.i.o.Loaded(nil, s.explain(c, why))
		}
	}
	return why
}

var errClosed = errors.New("closed its pipe")

func (s *session) handle(kind byte, d *decoder) error {
	switch kind {
	case frameReady:
		s.sendLoad()
	case frameLoaded:
		s.onLoaded(d)
	case frameResult:
		c := s.take(d.uint())
		if c == nil {
			return nil // it gave up waiting
		}
		if c.err = d.error(); c.err == nil {
			c.v = d.value(0)
			c.err = d.err
		}
		if c.v != nil {
			c.v.Freeze()
		}
		close(c.done)
	case frameRequest:
		return s.onRequest(d)
	case framePrint:
		id, at, text := d.uint(), d.position(), clip(d.text())
		if c := s.get(id); c != nil && d.err == nil && s.i.e.print != nil {
			s.i.e.print(c.ctx, at, text)
		}
	case frameDrop:
		s.mu.Lock()
		for n := d.count(); n > 0 && d.err == nil; n-- {
			delete(s.objects, d.uint())
		}
		s.mu.Unlock()
	default:
		return errWire
	}
	return d.err
}

// send writes a frame within the grace time. A host that does not read any more
// is killed.
func (s *session) send(e *encoder) error {
	frame, err := e.frame()
	if err != nil {
		return err
	}
	s.mu.Lock()
	forgotten := s.forgotten
	s.forgotten = nil
	s.mu.Unlock()
	s.inMu.Lock()
	defer s.inMu.Unlock()
	if f, ok := s.in.(*os.File); ok {
		_ = f.SetWriteDeadline(time.Now().Add(s.i.o.Grace))
	}
	if len(forgotten) > 0 {
		f := newFrame(frameForget)
		f.uint(uint64(len(forgotten)))
		for _, id := range forgotten {
			f.uint(id)
		}
		b, _ := f.frame()
		if _, err := s.in.Write(b); err != nil {
			s.kill(errClosed)
		}
	}
	if _, err = s.in.Write(frame); err != nil {
		s.kill(errClosed)
		return fmt.Errorf("%w: it does not read", ErrHostEnded)
	}
	return nil
}

func (s *session) newFrame(kind byte) *encoder {
	e := newFrame(kind)
	e.foreign = s.encodeForeign
	return e
}

// begin registers a call. Its clock runs from start.
func (s *session) begin(ctx context.Context, f *RemoteFunc, l Limits) (uint64, *remoteCall, error) {
	c := &remoteCall{ctx: ctx, f: f, done: make(chan struct{}), left: l.Time + s.i.o.Grace, paused: 1}
	c.timer = time.AfterFunc(time.Hour, func() { s.kill(&LimitError{Limit: "time", Time: l.Time}) })
	c.timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil { // the reason is that of another call
		why := strings.TrimPrefix(s.ended.Error(), ErrHostEnded.Error()+": ")
		return 0, nil, fmt.Errorf("%w (%s): calls fail until its supervisor has started it again", ErrHostEnded, why)
	}
	s.nextID++
	s.calls[s.nextID] = c
	return s.nextID, c, nil
}

func (s *session) get(id uint64) *remoteCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[id]
}

// take ends a call's bookkeeping.
func (s *session) take(id uint64) *remoteCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.calls[id]
	if c == nil {
		return nil
	}
	delete(s.calls, id)
	for _, o := range c.objects {
		delete(s.objects, o)
	}
	c.stop()
	return c
}

// resume lets the call's clock run.
func (c *remoteCall) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused--; c.paused == 0 {
		c.since = time.Now()
		c.timer.Reset(max(c.left, time.Millisecond))
	}
}

// pause stops it.
func (c *remoteCall) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused++; c.paused == 1 {
		c.timer.Stop()
		c.left -= time.Since(c.since)
	}
}

func (c *remoteCall) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused += 1000
	c.timer.Stop()
}

// call makes a call and waits for it.
func (s *session) call(ctx context.Context, f *RemoteFunc, args starlark.Tuple, kwargs []starlark.Tuple, l Limits) (starlark.Value, error) {
	id, c, err := s.begin(ctx, f, l)
	if err != nil {
		return nil, s.explain(&remoteCall{f: f}, err)
	}
	e := s.newFrame(frameCall)
	e.uint(id)
	e.uint(f.id)
	e.limits(l)
	e.args(args, kwargs)
	c.objects = e.sent
	if err := s.send(e); err != nil {
		s.take(id)
		return nil, err
	}
	c.resume()
	select {
	case <-c.done:
	case <-ctx.Done():
		cancel := newFrame(frameCancel)
		cancel.uint(id)
		_ = s.send(cancel)
		late := time.AfterFunc(s.i.o.Grace, func() { s.kill(&LimitError{Limit: "time", Time: l.Time}) })
		<-c.done
		late.Stop()
	}
	if c.err != nil {
		err := s.explain(c, c.err)
		if se, ok := errors.AsType[*Error](err); ok && ctx.Err() != nil && se.Err == nil {
			se.Err = &LimitError{Limit: "cancelled", cause: context.Cause(ctx)}
		}
		return nil, err
	}
	return c.v, nil
}

// explain gives the end of a host the form of a script's error, at the
// function that was called.
func (s *session) explain(c *remoteCall, err error) error {
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	if _, ok := errors.AsType[*value.Error](err); ok {
		return err
	}
	e := &Error{Msg: err.Error(), Err: err}
	if c.f != nil {
		e.Position = c.f.pos
		e.Frames = []Frame{{c.f.name, c.f.pos}}
	} else {
		e.Position = Position{File: s.i.o.Source.Entry[0]}
	}
	if limit, ok := errors.AsType[*LimitError](err); ok {
		e.Msg, e.Hint = "script host killed: "+limit.Error(), limitHint(limit)
	}
	return e
}

// tail keeps the beginning of what a host says as it dies.
type tail struct {
	mu sync.Mutex // guards b
	b  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if room := 4096 - len(t.b); room > 0 {
		t.b = append(t.b, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}
