// Package broker is the MQTT broker inside the robot, so that any MQTT tool
// works against a fresh install. It speaks MQTT 3.1, 3.1.1 and 5.
//
// Its one rule: nobody is anonymous beyond loopback. Without users it listens
// on loopback only; with users everyone logs in and sees no more than the
// topics they were given, in what they publish, subscribe to and leave behind
// as a last will.
//
//	b, err := broker.Listen(ctx, broker.Options{}) // 127.0.0.1:1883
//	if err != nil {
//		return err
//	}
//	b.Receive(func(topic string, payload []byte, qos byte, retain bool) error { ... })
//	err = b.Serve(ctx)
//
// The process itself takes part without a connection: [Broker.Receive] sees
// what clients publish before they get their acknowledgement, and
// [Broker.Publish] hands a message to the clients' queues and returns. Package
// bus/mqtt ties both to the bus. Topics that [Broker.Reserve] names are the
// robot's own: what clients publish there goes to Receive and to nobody else.
//
// Everything that clients can make the broker keep has a limit in number and in
// bytes: connections, sessions, subscriptions, wills, retained messages, what
// waits for a client and what a client is sending. What is lost or refused by a
// limit or an ACL is counted and told ([Broker.Tell]).
//
// Sessions live as long as the process. Retained messages are put back by
// whoever publishes them again before Serve.
package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Options of a broker; the zero value listens for anonymous clients on
// 127.0.0.1:1883.
type Options struct {
	Listen    string // setting mqtt.listen: host:port; 127.0.0.1:1883
	Users     []User // setting mqtt.users; without any, everyone on loopback is let in
	TLS       TLS
	MaxPacket int // bytes of the largest packet taken; 256 KiB
	Clients   int // connections at a time; 1,024
	Sessions  int // sessions of clients that are away; 1,024
	Filters   int // subscriptions of one client; 1,024
	Queue     int // messages that may wait for one client; 10,000
	// Memory bounds, in bytes, what is kept for clients: messages that wait for
	// them, subscriptions, wills, packets being read. A quarter of it may be
	// other than messages. 32 MiB.
	Memory int64
	// Retained and RetainedBytes bound what clients' retained messages take;
	// 10,000 and 16 MiB.
	Retained      int
	RetainedBytes int64
	Log           *slog.Logger // connections, at level debug; never what a packet holds
}

// DefaultListen is where a broker listens when nothing is said.
const DefaultListen = "127.0.0.1:1883"

func (o Options) defaults() Options {
	number := func(n *int, otherwise int) {
		if *n <= 0 {
			*n = otherwise
		}
	}
	bytes := func(n *int64, otherwise int64) {
		if *n <= 0 {
			*n = otherwise
		}
	}
	if o.Listen == "" {
		o.Listen = DefaultListen
	}
	number(&o.MaxPacket, 256<<10)
	number(&o.Clients, 1024)
	number(&o.Sessions, 1024)
	number(&o.Filters, 1024)
	number(&o.Queue, 10_000)
	number(&o.Retained, 10_000)
	bytes(&o.Memory, 32<<20)
	bytes(&o.RetainedBytes, 16<<20)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// A Broker listens from [Listen] on and answers while Serve runs. Publish may
// be called concurrently, and before Serve.
type Broker struct {
	opt      Options
	users    map[string]*account
	accept   *acceptor
	hashing  sync.Mutex // held while a password is hashed: they are slow on purpose
	take     atomic.Pointer[func(topic string, payload []byte, qos byte, retain bool) error]
	reserved atomic.Pointer[func(topic string) bool]
	tell     atomic.Pointer[func(about string, err error)]
	counters counters

	mu       sync.Mutex // guards the rest, and every session; never held while calling out
	sessions map[string]*session
	topics   node
	retained retained
	queued   int64 // bytes of messages that wait
	fixed    int64 // bytes of subscriptions, wills, packets being read
	news     []note
	wills    []*message // to be published once the lock is free
	end      bool
}

// counters are those that no lock guards.
type counters struct {
	received, sent, dropped, refused, denied, slow atomic.Uint64
}

// Stats is what the broker has counted since it was made.
type Stats struct {
	Clients       int    `json:"clients"`
	Sessions      int    `json:"sessions"` // with those of clients that are away
	Subscriptions int    `json:"subscriptions"`
	Received      uint64 `json:"received"`
	Sent          uint64 `json:"sent"`
	Waiting       int    `json:"waiting"` // messages for clients that are slow or away
	WaitingBytes  int64  `json:"waiting_bytes"`
	Retained      int    `json:"retained"`
	RetainedBytes int64  `json:"retained_bytes"`

	Dropped uint64 `json:"dropped"` // messages: a client took them too slowly, or was away too long
	Refused uint64 `json:"refused"` // connections: name, password, too many, a will that is not allowed
	Denied  uint64 `json:"denied"`  // messages and subscriptions: not allowed, not a topic, above a limit
	Slow    uint64 `json:"slow"`    // connections that were cut because nothing moved
}

// Listen checks the options and opens the port. Clients may connect from now
// on; they are answered when Serve runs. A port in use is an error that names
// the setting.
func Listen(ctx context.Context, o Options) (*Broker, error) {
	o = o.defaults()
	if err := Check(ctx, o); err != nil {
		return nil, err
	}
	b := &Broker{opt: o, sessions: map[string]*session{}}
	var err error
	if b.users, err = accounts(o.Users); err != nil {
		return nil, err
	}
	conf, err := o.TLS.config()
	if err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return nil, listenError(o.Listen, err)
	}
	b.accept = newAcceptor(l, conf, o.Clients, o.Log)
	return b, nil
}

func listenError(addr string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("broker: %s is in use by another program (another broker?): "+
			"stop it, set mqtt.listen to another port, or set mqtt.url to use it as the broker: %w", addr, err)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("broker: not allowed to listen on %s: set mqtt.listen to a port above 1023: %w", addr, err)
	}
	return fmt.Errorf("broker: listen on %s (setting mqtt.listen): %w", addr, err)
}

// Check reports what Listen would refuse, without opening a port: an address
// that doesn't parse, or one beyond loopback without users.
func Check(ctx context.Context, o Options) error {
	host, _, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return fmt.Errorf("broker: mqtt.listen %q is not host:port: %w", o.Listen, err)
	}
	local, err := loopback(ctx, host)
	if err != nil {
		return fmt.Errorf("broker: mqtt.listen %q: %w", o.Listen, err)
	}
	if !local && len(o.Users) == 0 {
		return fmt.Errorf("broker: mqtt.listen %q can be reached from outside: "+
			"set mqtt.users with passwords and topics, or listen on 127.0.0.1", o.Listen)
	}
	return nil
}

// loopback reports whether every address of a host is a loopback address.
func loopback(ctx context.Context, host string) (bool, error) {
	if host == "" {
		return false, nil
	}
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback(), nil
	}
	ips, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return false, err
	}
	for _, ip := range ips {
		if !ip.IP.IsLoopback() {
			return false, nil
		}
	}
	return len(ips) > 0, nil
}

// Addr is the address that the broker listens on.
func (b *Broker) Addr() string { return b.accept.Addr().String() }

// Receive names the one who takes what clients publish. It is called on the
// client's own goroutine, in the client's order, before the acknowledgement. An
// error that is fs.ErrPermission means that the client may not say this: it is
// counted, and told to a client that can be told; so is bus.ErrFull. Any other means "not now": the
// client is not read from while the message is offered again, and cut off after
// ten seconds. Call it before Serve.
func (b *Broker) Receive(f func(topic string, payload []byte, qos byte, retain bool) error) {
	b.take.Store(&f)
}

// Reserve names the topics that are the robot's own: what a client publishes
// there is given to Receive alone, and never kept. Call it before Serve.
func (b *Broker) Reserve(own func(topic string) bool) { b.reserved.Store(&own) }

// Tell names who hears of what was lost or refused: about is the same for what
// is of one kind, so that it can be told once in a while. Call it before Serve.
func (b *Broker) Tell(f func(about string, err error)) { b.tell.Store(&f) }

// Publish hands a message to every client that subscribed to it and returns.
// It never waits for a client; the payload must not change afterwards. An empty
// payload with retain forgets the retained message.
func (b *Broker) Publish(topic string, payload []byte, qos byte, retain bool) error {
	if !topicOK(topic) {
		return fmt.Errorf("broker: publish %.64q: it is no topic", topic)
	}
	b.pass(&message{topic: topic, payload: payload, qos: min(qos, 2), retain: retain})
	return nil
}

// Quiet reports that nobody subscribed to a topic, so that a message without
// retain would reach nobody.
func (b *Broker) Quiet(topic string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	quiet := true
	b.topics.match(topic, func(*node) bool {
		quiet = false
		return false
	})
	return quiet
}

// Serve answers clients until ctx ends, then closes every connection and
// returns nil. It can run once.
func (b *Broker) Serve(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.accept.serve(b.attend, func() {
			b.mu.Lock()
			b.note("clients", "more than %d connections (mqtt.clients): one is refused", b.opt.Clients)
			b.unlock()
		})
	}()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			b.tidy(now)
		case <-ctx.Done():
			err := b.Close()
			<-done
			return err
		}
	}
}

// Close gives up the port of a broker that will not be served. Serve calls it
// at its end.
func (b *Broker) Close() error {
	b.mu.Lock()
	b.end = true
	b.mu.Unlock()
	b.accept.close()
	return nil
}

// Stats gives the counters.
func (b *Broker) Stats() Stats {
	c := &b.counters
	st := Stats{
		Received: c.received.Load(), Sent: c.sent.Load(), Dropped: c.dropped.Load(),
		Refused: c.refused.Load() + b.accept.tooMany.Load(), Denied: c.denied.Load(), Slow: c.slow.Load(),
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	st.Sessions, st.WaitingBytes = len(b.sessions), b.queued
	st.Retained, st.RetainedBytes = len(b.retained.last), b.retained.bytes
	for _, s := range b.sessions {
		if s.conn != nil {
			st.Clients++
		}
		st.Subscriptions += len(s.filters)
		st.Waiting += len(s.queue) + len(s.sent)
	}
	return st
}

// note is something to tell of once the lock is free.
type note struct {
	about string
	err   error
}

// note keeps what is to be told; the caller holds mu.
func (b *Broker) note(about, format string, args ...any) {
	for _, n := range b.news {
		if n.about == about {
			return
		}
	}
	b.news = append(b.news, note{about, fmt.Errorf("broker: "+format, args...)})
}

// unlock frees mu, and then tells and publishes what came up meanwhile.
func (b *Broker) unlock() {
	news, wills := b.news, b.wills
	b.news, b.wills = nil, nil
	b.mu.Unlock()
	for _, m := range wills {
		b.leaveBehind(m)
	}
	if f := b.tell.Load(); f != nil {
		for _, n := range news {
			(*f)(n.about, n.err)
		}
	}
}

// deny counts a message or subscription that was refused, and tells of it.
func (b *Broker) deny(about, format string, args ...any) {
	b.counters.denied.Add(1)
	b.mu.Lock()
	b.note(about, format, args...)
	b.unlock()
}

// reserve takes bytes for what is not a message that waits; it reports whether
// there is room.
func (b *Broker) reserve(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fits(n)
}

// fits is reserve for who holds mu.
func (b *Broker) fits(n int64) bool {
	if n > 0 && b.fixed+n > b.opt.Memory/4 {
		return false
	}
	b.fixed += n
	return true
}
