// Package mqtt ties the bus to MQTT: a [Bridge] to any broker outside, or a
// [Local] to the broker inside the process.
//
// Its one rule: what came in over a link never goes out on it. So a message
// crosses each link once, however many robots are bridged both ways.
//
//	br, err := mqtt.New(b, mqtt.Options{
//		URL:      "tcp://127.0.0.1:1883",
//		ClientID: "scout",
//		Mapping: mqtt.Mapping{
//			Subscribe: []mqtt.Route{{Filter: "home/#", QoS: 1}},
//			Publish:   []mqtt.Route{{Filter: "scout/#", QoS: 1}},
//		},
//	})
//	if err != nil {
//		return err
//	}
//	err = br.Serve(ctx)
//
// # What comes back
//
// MQTT 3.1.1 has no way to mark a message's origin, and a broker sends a
// client its own messages when it subscribed to them. Three things keep a
// message from going round:
//
//   - the event's source: one whose source is an MQTT link stays off that link,
//     and off every other link unless a route says Relay;
//   - the echo: a message we published on a topic that we subscribed to is
//     remembered (the last 4,096, by topic and content) and taken off the list,
//     once, when the broker sends it back;
//   - a retained copy that equals what the bus keeps already is not an event.
//
// Robots should still have separate prefixes, so that topics say who speaks.
//
// # What is guaranteed
//
// Outbound QoS 1 and 2: the outbox has the message before Publish of the bus
// returns (unless another goroutine is delivering just then: it is next then);
// it is removed when the broker has acknowledged it on the connection it was
// sent on. The order of
// a topic is kept, by one message of a topic in flight at a time. Inbound QoS 1
// and 2: acknowledged after the bus took the message.
package mqtt

import (
	"log/slog"
	"time"

	"edged/bus"
)

// Options of a bridge. URL is all that is needed; zero values are the defaults
// named here.
type Options struct {
	URL      string // setting mqtt.url: tcp, ssl, ws or wss://host:port
	Name     string // of the link, if there are several: events then have the source "mqtt:<name>"
	ClientID string // stable and unique at the broker; "edged-" and the host's name
	Prefix   string // of the status topic; "edged/<client id>"
	Insecure bool   // allow a plain connection to a broker that is not on this machine

	Username     string
	Password     string
	PasswordFile string // instead of Password; must be readable by its owner only
	TLS          TLS

	Mapping
	Discovery Discovery

	Outbox   Outbox // where QoS 1 and 2 wait; nil is memory
	Limit    int    // messages in the outbox; 10,000
	Bytes    int64  // topics and payloads in the outbox; 16 MiB
	Overflow bus.Overflow
	// Inbox is where messages of durable routes wait until they are handled,
	// within Limit and Bytes; nil is none. Append waits for the disk.
	Inbox Outbox

	MaxPacket int // bytes of the largest packet, either way; 256 KiB
	// Settle is how long nothing must come before what comes is news, after a
	// connection took up a session: for brokers that send what they kept with
	// pauses (see catchup.go).
	Settle    time.Duration
	KeepAlive time.Duration // 30 s, whole seconds
	Timeout   time.Duration // to connect, to subscribe, and for one write; 10 s
	Backoff   time.Duration // before the first new attempt; 500 ms
	// MaxBackoff is the longest pause between attempts, 60 s. Pauses double
	// and vary by half; they start again after half of it in one connection.
	MaxBackoff time.Duration

	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	set(&o.Limit, 10_000)
	set(&o.Bytes, 16<<20)
	set(&o.MaxPacket, 256<<10)
	set(&o.KeepAlive, 30*time.Second)
	set(&o.Timeout, 10*time.Second)
	set(&o.Backoff, 500*time.Millisecond)
	set(&o.MaxBackoff, 60*time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.ClientID == "" {
		o.ClientID = "edged-" + hostname()
	}
	if o.Prefix == "" {
		o.Prefix = "edged/" + o.ClientID
	}
	if o.Outbox == nil {
		o.Outbox = NewMemory()
	}
	return o
}

func set[T int | int64 | time.Duration](p *T, v T) {
	if *p <= 0 {
		*p = v
	}
}
