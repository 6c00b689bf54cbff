package broker

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/mochi-mqtt/server/v2/listeners"
)

// acceptor lets clients in. It differs from the library's listeners in what
// keeps a robot up: a client has ten seconds to say CONNECT, a panic while
// reading its packets ends that client only, running out of file descriptors
// is waited out, and Close leaves no goroutine behind.
type acceptor struct {
	net.Listener
	tls   *tls.Config
	limit int
	log   *slog.Logger

	mu    sync.Mutex // guards conns, end
	conns map[net.Conn]bool
	end   bool
	done  sync.WaitGroup
	stop  chan struct{}
}

const helloTime = 10 * time.Second

func newAcceptor(l net.Listener, conf *tls.Config, limit int) *acceptor {
	return &acceptor{Listener: l, tls: conf, limit: limit, conns: map[net.Conn]bool{}, stop: make(chan struct{})}
}

func (a *acceptor) ID() string                  { return "edged" }
func (a *acceptor) Protocol() string            { return "tcp" }
func (a *acceptor) Address() string             { return a.Addr().String() }
func (a *acceptor) Init(log *slog.Logger) error { a.log = log; return nil }

func (a *acceptor) ended() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.end
}

// Serve lets clients in until Close.
func (a *acceptor) Serve(establish listeners.EstablishFn) {
	for {
		conn, err := a.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			a.log.Warn("accept", "error", err)
			select {
			case <-time.After(100 * time.Millisecond):
				continue
			case <-a.stop:
				return
			}
		}
		if a.tls != nil {
			conn = tls.Server(conn, a.tls)
		}
		if !a.admit(conn) {
			_ = conn.Close()
			continue
		}
		go a.attend(conn, establish)
	}
}

func (a *acceptor) admit(c net.Conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	// One more than the limit, so that the one too many is told.
	if a.end || len(a.conns) > a.limit {
		return false
	}
	a.conns[c] = true
	a.done.Add(1)
	return true
}

func (a *acceptor) attend(c net.Conn, establish listeners.EstablishFn) {
	defer a.done.Done()
	defer func() {
		if p := recover(); p != nil {
			a.log.Error("a client's packet", "remote", c.RemoteAddr(), "panic", p)
		}
		_ = c.Close()
		a.mu.Lock()
		delete(a.conns, c)
		a.mu.Unlock()
	}()
	_ = c.SetDeadline(time.Now().Add(helloTime)) // the keep-alive replaces it
	if err := establish(a.ID(), c); err != nil {
		a.log.Debug("client gone", "remote", c.RemoteAddr(), "error", err)
	}
}

// Close ends every connection and waits for those who attend them. Clients are
// not sent a DISCONNECT: in MQTT 3.1.1 only they may send one.
func (a *acceptor) Close(listeners.CloseFn) {
	a.mu.Lock()
	if a.end {
		a.mu.Unlock()
		return
	}
	a.end = true
	close(a.stop)
	_ = a.Listener.Close()
	for c := range a.conns {
		_ = c.Close()
	}
	a.mu.Unlock()
	a.done.Wait()
}
