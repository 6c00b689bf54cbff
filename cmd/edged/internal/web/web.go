// Package web is the HTTP side of the operator's page: a server that is hard
// to misuse, and a table of routes. What is behind a route is a handler of the
// control socket; this package knows nothing of the robot.
//
// Its one rule: whoever has no token changes nothing. Reading is free on
// loopback and needs the token elsewhere; no GET changes anything; a request
// that a browser sends for a strange page, or under a strange name, is refused.
//
//	s, err := web.Listen(web.Options{Listen: "127.0.0.1:7878", Token: token, Bus: b, Routes: map[string]web.Route{
//		"GET /api/v1/status": {Do: handleStatus},
//		"POST /api/v1/stop":  {Do: handleStop},
//	}})
//	go s.Serve(ctx)
//
// Events go down as server-sent events. While nobody looks the page costs
// nothing: it is not on the bus.
package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"edged/bus"
	"edged/cmd/edged/internal/control"
)

// Options of a server.
type Options struct {
	Listen    string   // host:port
	Names     []string // host names it is reached by, beside loopback and the address
	Cert, Key string   // files; both or none
	Token     string   // what may change things
	Name      string   // of the robot
	Run       string   // names the process, for ids of events
	Bus       *bus.Bus
	Log       *slog.Logger
	Routes    map[string]Route // by method and path, as in "GET /api/v1/status"
	// Plain is the part of the page that needs no JavaScript, as HTML. It is
	// told whether the reader may change things.
	Plain func(may bool) string
	// Health says why the robot is not well, or nil.
	Health func(ctx context.Context) error
	// Metrics writes what there is to count, as Prometheus reads it.
	Metrics func() []byte

	slow time.Duration // how long a body, or a piece of an answer, may take
}

// A Route is a handler behind a path.
type Route struct {
	Do control.Handler
	// With makes the handler's request; nil hands it the body.
	With func(q *Query) (any, error)
	// Fail is the status of an error that is not the fault of the request's
	// form: 404 for GET and 409 for POST if it is 0.
	Fail int
	// Form makes words of the last piece of an answer to a page's form; without
	// words, and if all went well, the browser is led back to the page.
	Form func(last any) string
	// Lines is asked whether the answer is to be sent piece by piece, as lines
	// of JSON; nil is no.
	Lines func(q *Query) bool
}

// Limits that no sensible client meets.
const (
	maxHeader = 16 << 10
	maxBody   = 1 << 20
	maxConns  = 128
	slow      = 10 * time.Second
	patience  = time.Second // for the part of the page that the robot tells
)

// A Server is the page while it is open.
type Server struct {
	o      Options
	ln     net.Listener
	secure bool
	local  bool // nobody but this machine reaches it
	names  []string
	cookie string
	stream *stream
	conns  conns
	plains chan struct{} // one token: Plain is under way
}

// Listen opens the page's port. It refuses an address that others reach
// without TLS.
func Listen(o Options) (*Server, error) {
	if o.Token == "" {
		return nil, errors.New("page: no token")
	}
	if o.slow == 0 {
		o.slow = slow
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{o: o, secure: o.Cert != "", cookie: cookieOf(o.Token), plains: make(chan struct{}, 1)}
	host, _, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return nil, fmt.Errorf("page: %q is not host:port: %w", o.Listen, err)
	}
	if s.local = Loopback(host); !s.local && !s.secure {
		return nil, fmt.Errorf("page: %s can be reached from outside, and has no certificate", o.Listen)
	}
	s.names = append([]string{host}, o.Names...)
	var conf *tls.Config
	if s.secure {
		cert, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return nil, fmt.Errorf("page: certificate: %w", err)
		}
		conf = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	}
	if s.ln, err = net.Listen("tcp", o.Listen); err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	if conf != nil {
		s.ln = tls.NewListener(s.ln, conf)
	}
	s.stream = newStream(o.Bus, o.Run)
	return s, nil
}

// Loopback reports whether a host is one that only this machine reaches.
func Loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// Addr is where the page listens.
func (s *Server) Addr() net.Addr { return s.ln.Addr() }

// URL is the page's address, without the token.
func (s *Server) URL() string {
	scheme := "http"
	if s.secure {
		scheme = "https"
	}
	host, port, err := net.SplitHostPort(s.ln.Addr().String())
	if err != nil {
		return scheme + "://" + s.ln.Addr().String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
		if len(s.o.Names) > 0 {
			host = s.o.Names[0]
		}
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// Serve answers until ctx ends. Streams end with it; requests get a moment.
func (s *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(s.o.Log.Handler(), slog.LevelDebug), // who hangs up is no news
		ConnState:   s.conns.note,
	}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		bye, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if h.Shutdown(bye) != nil {
			_ = h.Close() // who is still there has had its moment
		}
	})
	err := h.Serve(s.ln)
	if !stop() {
		<-closed
	}
	s.stream.end()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("page: %w", err)
}

// Close gives the port back of a server that does not serve.
func (s *Server) Close() error { return s.ln.Close() }

// Clients is how many look at events now.
func (s *Server) Clients() int { return s.stream.clients() }
