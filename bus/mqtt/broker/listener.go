package broker

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// acceptor lets clients in, so many and no more. A client has ten seconds to
// say CONNECT, a panic while reading its packets ends that client only, running
// out of file descriptors is waited out, and close leaves no goroutine behind.
type acceptor struct {
	net.Listener
	tls     *tls.Config
	limit   int
	log     *slog.Logger
	tooMany atomic.Uint64

	mu    sync.Mutex // guards conns, end
	conns map[net.Conn]bool
	end   bool
	done  sync.WaitGroup
	stop  chan struct{}
}

const helloTime = 10 * time.Second

func newAcceptor(l net.Listener, conf *tls.Config, limit int, log *slog.Logger) *acceptor {
	return &acceptor{Listener: l, tls: conf, limit: limit, log: log, conns: map[net.Conn]bool{}, stop: make(chan struct{})}
}

// serve lets clients in until close; full is called when there are too many.
func (a *acceptor) serve(attend func(net.Conn), full func()) {
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
			full()
			continue
		}
		go a.attend(conn, attend)
	}
}

func (a *acceptor) admit(c net.Conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.end || len(a.conns) >= a.limit {
		a.tooMany.Add(1)
		return false
	}
	a.conns[c] = true
	a.done.Add(1)
	return true
}

func (a *acceptor) attend(c net.Conn, attend func(net.Conn)) {
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
	attend(c)
}

// close ends every connection and waits for those who attend them.
func (a *acceptor) close() {
	a.mu.Lock()
	if a.end {
		a.mu.Unlock()
		a.done.Wait()
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
