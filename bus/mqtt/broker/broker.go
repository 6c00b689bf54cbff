// Package broker is the MQTT broker inside the robot, so that any MQTT tool
// works against a fresh install.
//
// Its one rule: nobody is anonymous beyond loopback. Without users it listens
// on loopback only; with users everyone logs in and sees no more than the
// topics they were given.
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
// bus/mqtt ties both to the bus.
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
	"sync/atomic"
	"syscall"

	mochi "github.com/mochi-mqtt/server/v2"
)

// Options of a broker; the zero value listens for anonymous clients on
// 127.0.0.1:1883.
type Options struct {
	Listen    string // setting mqtt.listen: host:port; 127.0.0.1:1883
	Users     []User // setting mqtt.users; without any, everyone on loopback is let in
	TLS       TLS
	MaxPacket int // bytes of the largest packet taken; 256 KiB
	Clients   int // connections at a time; 1,024
	Log       *slog.Logger
}

// DefaultListen is where a broker listens when nothing is said.
const DefaultListen = "127.0.0.1:1883"

// A Broker listens from [Listen] on and answers while Serve runs. Publish may
// be called concurrently, and before Serve.
type Broker struct {
	opt    Options
	users  map[string]*account
	server *mochi.Server
	accept *acceptor
	take   atomic.Pointer[func(topic string, payload []byte, qos byte, retain bool) error]
	taken  atomic.Uint64 // order of messages; see hook.OnPublish

	audience audience

	refused atomic.Uint64
}

// Stats is what the broker has counted since it was made.
type Stats struct {
	Clients  int64  `json:"clients"`
	Received int64  `json:"received"`
	Sent     int64  `json:"sent"`
	Dropped  int64  `json:"dropped"` // a client took its messages too slowly
	Refused  uint64 `json:"refused"` // connections refused: name or password
	Retained int64  `json:"retained"`
}

// Listen checks the options and opens the port. Clients may connect from now
// on; they are answered when Serve runs. A port in use is an error that names
// the setting.
func Listen(ctx context.Context, o Options) (*Broker, error) {
	if o.Listen == "" {
		o.Listen = DefaultListen
	}
	if o.MaxPacket <= 0 {
		o.MaxPacket = 256 << 10
	}
	if o.Clients <= 0 {
		o.Clients = 1024
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := Check(ctx, o); err != nil {
		return nil, err
	}
	b := &Broker{opt: o}
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
	b.accept = newAcceptor(l, conf, o.Clients)
	b.server = newServer(o)
	if err := b.server.AddHook(&hook{b: b}, nil); err != nil {
		return nil, errors.Join(fmt.Errorf("broker: %w", err), l.Close())
	}
	if err := b.server.AddListener(b.accept); err != nil {
		return nil, errors.Join(fmt.Errorf("broker: %w", err), l.Close())
	}
	return b, nil
}

func newServer(o Options) *mochi.Server {
	c := mochi.NewDefaultServerCapabilities()
	c.MaximumPacketSize = uint32(o.MaxPacket)
	c.MaximumClients = int64(o.Clients)
	// The default forgets retained messages after a day.
	c.MaximumMessageExpiryInterval = 0
	c.MaximumClientWritesPending = 4096
	return mochi.New(&mochi.Options{
		Capabilities: c, InlineClient: true, Logger: o.Log,
		ClientNetReadBufferSize: 4 << 10, ClientNetWriteBufferSize: 4 << 10,
		SysTopicResendInterval: 60,
	})
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
func (b *Broker) Addr() string { return b.accept.Address() }

// Receive names the one who takes what clients publish. It is called on the
// client's own goroutine, in the client's order, before the acknowledgement;
// an error means that the message is neither passed on nor acknowledged. Call
// it before Serve.
func (b *Broker) Receive(f func(topic string, payload []byte, qos byte, retain bool) error) {
	b.take.Store(&f)
}

// Publish hands a message to every client that subscribed to it and returns.
// It never waits for a client; the payload must not change afterwards. An empty
// payload with retain forgets the retained message.
func (b *Broker) Publish(topic string, payload []byte, qos byte, retain bool) error {
	if err := b.server.Publish(topic, payload, retain, qos); err != nil {
		return fmt.Errorf("broker: publish %s: %w", topic, err)
	}
	return nil
}

// Quiet reports that nobody subscribed to a topic, so that a message without
// retain would reach nobody.
func (b *Broker) Quiet(topic string) bool { return b.audience.quiet(b.server, topic) }

// Serve answers clients until ctx ends, then closes every connection and
// returns nil. It can run once.
func (b *Broker) Serve(ctx context.Context) error {
	if err := b.server.Serve(); err != nil {
		return errors.Join(fmt.Errorf("broker: %w", err), b.Close())
	}
	<-ctx.Done()
	return b.Close()
}

// Close gives up the port of a broker that will not be served. Serve calls it
// at its end.
func (b *Broker) Close() error {
	if b.accept.ended() {
		return nil
	}
	if err := b.server.Close(); err != nil {
		return fmt.Errorf("broker: close: %w", err)
	}
	return nil
}

// Stats gives the counters.
func (b *Broker) Stats() Stats {
	i := b.server.Info.Clone()
	return Stats{
		Clients: i.ClientsConnected, Received: i.MessagesReceived, Sent: i.MessagesSent,
		Dropped: i.MessagesDropped + i.InflightDropped, Refused: b.refused.Load(), Retained: i.Retained,
	}
}
