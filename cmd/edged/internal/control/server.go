package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"edged/starlark/value"
)

// A Handler answers one verb. It calls send for every piece of its answer; an
// error of send means that the client is gone, and so does the end of ctx.
type Handler func(ctx context.Context, with json.RawMessage, send func(any) error) error

// A Stream takes a connection over: after its request both sides send what they
// like. The client speaks first. c ends when the client leaves or ctx ends, and
// is closed when the stream returns.
type Stream func(ctx context.Context, with json.RawMessage, c io.ReadWriteCloser) error

// A Server answers the verbs it was given.
type Server struct {
	ln       *net.UnixListener
	path     string
	handlers map[string]Handler
	streams  map[string]Stream

	mu    sync.Mutex // guards conns
	conns map[net.Conn]bool
	work  sync.WaitGroup
}

// Listen opens the socket at path, readable by its owner only, in place of one
// that a killed process left behind. A socket that somebody answers on is an
// error.
func Listen(path string, handlers map[string]Handler) (*Server, error) {
	if c, err := dial(path); err == nil {
		c.Close()
		return nil, fmt.Errorf("control: %s: another edged runs this folder (edged status tells which)", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("control: %w", err)
	}
	// The socket gets its permissions before it has its name, so there is no
	// moment in which somebody else could connect.
	fresh := fmt.Sprintf("%s.%d", path, os.Getpid())
	os.Remove(fresh)
	var ln *net.UnixListener
	err := within(fresh, func(short string) (err error) {
		ln, err = net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("control: listen: %w", err)
	}
	ln.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(fresh, 0o600), os.Rename(fresh, path)); err != nil {
		ln.Close()
		os.Remove(fresh)
		return nil, fmt.Errorf("control: %w", err)
	}
	return &Server{ln: ln, path: path, handlers: handlers, streams: map[string]Stream{}, conns: map[net.Conn]bool{}}, nil
}

// Take adds a stream, before Serve.
func (s *Server) Take(verb string, f Stream) { s.streams[verb] = f }

// Path is the name of the socket.
func (s *Server) Path() string { return s.path }

// Serve answers clients until ctx ends, then closes their connections, takes
// the socket away and returns nil when no handler is left.
func (s *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { s.ln.Close(); s.hangUp() })
	defer s.work.Wait()
	defer os.Remove(s.path)
	defer cancel()
	defer stop()
	for {
		c, err := s.ln.AcceptUnix()
		if ctx.Err() != nil {
			if err == nil {
				c.Close()
			}
			return nil
		}
		if err != nil {
			if temporary(err) { // out of file descriptors, say
				select {
				case <-ctx.Done():
				case <-time.After(50 * time.Millisecond):
				}
				continue
			}
			return fmt.Errorf("control: accept: %w", err)
		}
		s.mu.Lock()
		s.conns[c] = true
		s.mu.Unlock()
		s.work.Add(1)
		go s.serve(ctx, c)
	}
}

func temporary(err error) bool {
	var n net.Error
	return errors.As(err, &n) && !errors.Is(err, net.ErrClosed)
}

// hangUp gives clients a moment for their last line.
func (s *Server) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.SetReadDeadline(time.Unix(1, 0))
		c.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
	}
}

func (s *Server) serve(ctx context.Context, c net.Conn) {
	defer s.work.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		c.Close()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
	requests := make(chan request)
	in := bufio.NewReaderSize(c, 4096)
	s.work.Add(1)
	go func() { // reads ahead, so that a client that leaves ends its request
		defer s.work.Done()
		defer close(requests)
		if !s.read(ctx, in, requests) {
			cancel()
		}
	}()
	out := &writer{c: c}
	for r := range requests {
		if take := s.streams[r.Do]; take != nil {
			if err := out.line(reply{Data: json.RawMessage("true")}); err == nil {
				_ = safely(func() error { return take(ctx, r.With, taken{in, c}) }) // the client sees the end
			}
			return
		}
		if err := s.answer(ctx, r, out); err != nil {
			return
		}
	}
}

// read hands over requests until the client leaves. It returns true if a
// stream takes the rest.
func (s *Server) read(ctx context.Context, in *bufio.Reader, requests chan<- request) bool {
	for {
		line, err := readLine(in)
		if err != nil {
			return false
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			r = request{Do: "?"}
		}
		select {
		case requests <- r:
		case <-ctx.Done():
			return false
		}
		if s.streams[r.Do] != nil {
			return true
		}
	}
}

// readLine reads up to a line feed. A last line without one counts.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > MaxLine:
			return nil, bufio.ErrTooLong
		case err == nil, errors.Is(err, io.EOF) && len(line) > 0:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// taken is a connection with what was read ahead of it.
type taken struct {
	io.Reader
	net.Conn
}

func (t taken) Read(b []byte) (int, error) { return t.Reader.Read(b) }

func (s *Server) answer(ctx context.Context, r request, out *writer) error {
	h := s.handlers[r.Do]
	if h == nil {
		return out.line(reply{Error: &Error{Msg: s.unknown(r.Do), Usage: true}})
	}
	err := safely(func() error {
		return h(ctx, r.With, func(v any) error {
			b, err := json.Marshal(v)
			if err != nil {
				return err
			}
			return out.line(reply{Data: b})
		})
	})
	if err == nil {
		return out.line(reply{Done: true})
	}
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Msg: err.Error()}
		if t, ok := err.(interface{ Text() string }); ok {
			e.Text = t.Text()
		}
	}
	return out.line(reply{Error: e})
}

func (s *Server) unknown(verb string) string {
	if verb == "?" {
		return "not a request: want one JSON object a line, with \"do\""
	}
	var names []string
	for n := range s.handlers {
		names = append(names, n)
	}
	if n := value.Nearest(verb, names); n != "" {
		return fmt.Sprintf("unknown request %q; did you mean %q?", verb, n)
	}
	return fmt.Sprintf("unknown request %q (is the running edged older than this one?)", verb)
}

func safely(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("control: internal fault: %v", v)
		}
	}()
	return f()
}

// writer writes one reply a line; a handler may send from several goroutines.
type writer struct {
	mu sync.Mutex // guards c's output
	c  io.Writer
}

func (w *writer) line(r reply) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err = w.c.Write(append(b, '\n'))
	return err
}
