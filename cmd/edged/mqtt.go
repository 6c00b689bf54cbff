package main

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"edged/blackboard"
	"edged/bus"
	"edged/bus/mqtt"
	"edged/bus/mqtt/broker"
	"edged/cmd/edged/internal/config"
	"edged/hw"
)

// The robot's link to MQTT: the broker inside, or a bridge to one outside.

// mqttLink is the supervised service. A broker that fails is made anew.
type mqttLink struct {
	r      *robot
	first  *broker.Broker             // opened before the tree starts
	spool  *mqtt.Spool                // the bridge's outbox
	addr   string                     // of the broker inside
	local  atomic.Pointer[mqtt.Local] // made anew with the broker
	inside atomic.Pointer[broker.Broker]
	bridge *mqtt.Bridge
}

// port is the broker's port while it is being opened.
type port struct {
	done   chan struct{}
	broker *broker.Broker
	err    error
}

// openPort opens the broker's port beside whatever is done meanwhile.
func (r *robot) openPort(ctx context.Context) *port {
	p := &port{done: make(chan struct{})}
	if r.cfg.MQTT.URL != "" || r.cfg.MQTT.Listen == "off" {
		close(p.done)
		return p
	}
	go func() {
		defer close(p.done)
		o, err := r.brokerOptions()
		if err != nil {
			p.err = err
			return
		}
		p.broker, p.err = broker.Listen(ctx, o)
	}()
	return p
}

// giveUp closes the port that is not going to be used.
func (p *port) giveUp() {
	<-p.done
	if p.broker != nil {
		_ = p.broker.Close() // the start has failed already, for a reason that counts more
	}
}

func (r *robot) brokerOptions() (broker.Options, error) {
	m := r.cfg.MQTT
	o := broker.Options{
		Listen: m.Listen, MaxPacket: int(m.MaxPacket), Clients: int(m.Clients), Log: r.log,
		Sessions: int(m.Sessions), Filters: int(m.Filters), Queue: int(m.Queue), Memory: int64(m.Memory),
		Retained: int(r.cfg.Bus.Retained), RetainedBytes: int64(r.cfg.Bus.RetainedBytes),
		TLS: broker.TLS{Cert: r.cfg.Path(m.TLS.Cert), Key: r.cfg.Path(m.TLS.Key), ClientCA: r.cfg.Path(m.TLS.ClientCA)},
	}
	for _, u := range m.Users {
		file := r.cfg.SecretPath(u.PasswordFile)
		passwords, err := broker.Passwords(file)
		if err != nil {
			return o, fmt.Errorf("setting mqtt.users, %s: %w", u.Name, err)
		}
		pw, ok := passwords[u.Name]
		if !ok {
			return o, fmt.Errorf("setting mqtt.users: %s has no line for %q", file, u.Name)
		}
		o.Users = append(o.Users, broker.User{Name: u.Name, Password: pw, Read: u.Read, Write: u.Write})
	}
	return o, nil
}

// openLink ties the bus to MQTT, before anything is published. It returns nil
// where MQTT is off.
func (r *robot) openLink(p *port) (*mqttLink, error) {
	<-p.done
	if p.err != nil {
		return nil, p.err
	}
	l := &mqttLink{r: r, first: p.broker}
	var err error
	switch {
	case r.cfg.MQTT.URL != "":
		err = l.newBridge()
	case p.broker != nil:
		l.addr = fmt.Sprint(p.broker.Addr())
		err = l.newLocal(p.broker)
	default:
		return nil, nil
	}
	if err == nil {
		err = l.tellStops()
	}
	if err != nil {
		p.giveUp()
		return nil, err
	}
	return l, nil
}

// tellStops has MQTT told of every stop, by whomever, and of every resume: as an
// event, and as a retained state.
func (l *mqttLink) tellStops() error {
	state := func() {
		now := "running"
		if _, stopped := l.r.rig.Stopped(); stopped {
			now = "stopped"
		}
		l.teller().State(l.r.prefix()+"/safety", now)
	}
	state()
	for topic, field := range map[string]string{hw.StopTopic: "stopped", hw.ResumeTopic: "resumed"} {
		_, err := l.r.bus.Tap(topic, func(e bus.Event) {
			if topic == hw.StopTopic && !hw.Told(e) {
				return // an order
			}
			state()
			said := map[string]any{field: l.r.cfg.Name}
			if m, ok := e.Payload().(map[string]any); ok {
				maps.Copy(said, m)
			}
			if b, err := bus.EncodeJSON(said); err == nil { // it was JSON before
				l.teller().Tell(topic, b)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// teller is the link as one who can be told something.
func (l *mqttLink) teller() interface {
	Tell(topic string, payload []byte)
	State(topic, state string)
} {
	if l.bridge != nil {
		return l.bridge
	}
	return l.local.Load()
}

func (l *mqttLink) newLocal(b *broker.Broker) error {
	r := l.r
	local, err := mqtt.NewLocal(r.bus, b, mqtt.LocalOptions{
		Node: r.cfg.Name, Prefix: r.prefix(), Mapping: r.mapping(),
		Discovery: r.discovery(),
	})
	if err == nil {
		l.inside.Store(b)
		if before := l.local.Swap(local); before != nil {
			local.Follow(before)
		}
	}
	return err
}

func (r *robot) prefix() string {
	if p := r.cfg.MQTT.Prefix; p != "" {
		return strings.TrimSuffix(p, "/")
	}
	return "edged/" + r.cfg.Name
}

// mapping is what the settings say, with the stop in front: it comes in always.
func (r *robot) mapping() mqtt.Mapping {
	m := r.cfg.MQTT
	out := mqtt.All()
	if len(m.Subscribe) > 0 || m.URL != "" {
		out.Subscribe = routes(m.Subscribe)
	}
	if len(m.Publish) > 0 || m.URL != "" {
		out.Publish = routes(m.Publish)
	}
	out.InPrefix, out.OutPrefix = m.InPrefix, m.OutPrefix
	out.Told = []string{hw.StopTopic, hw.ResumeTopic}
	if m.Confirm {
		out.Subscribe = append([]mqtt.Route{{Filter: answerTopic, QoS: 1}, {Filter: wordsTopic, QoS: 1}}, out.Subscribe...)
	}
	if m.InPrefix == "" {
		out.Subscribe = append([]mqtt.Route{{Filter: hw.StopTopic, QoS: 1}}, out.Subscribe...)
	}
	return out
}

func routes(list []config.Route) []mqtt.Route {
	var out []mqtt.Route
	for _, c := range list {
		out = append(out, mqtt.Route{
			Filter: c.Filter, QoS: byte(c.QoS), Codec: mqtt.Codec(c.Codec), Strip: c.Strip, Prefix: c.Prefix,
			Retain: c.Retain, Relay: c.Relay, ActOnRetained: c.ActOnRetained,
			ActOnQueued: c.ActOnQueued, MaxAge: time.Duration(c.MaxAge), Time: c.Time, Durable: c.Durable,
		})
	}
	return out
}

// newBridge makes the bridge with its outbox: a file that costs a write and no
// sync, since most messages are acknowledged before a sync would be over, and
// behind it a journal on the board.
func (l *mqttLink) newBridge() error {
	r, m := l.r, l.r.cfg.MQTT
	journal, err := r.board.Journal("mqtt", blackboard.JournalOptions{
		Limit: int(m.Outbox.Limit) + 1024, Bytes: int64(m.Outbox.Bytes) + 32*m.Outbox.Limit, Mode: blackboard.Sync,
	})
	if err != nil {
		return err
	}
	if l.spool, err = mqtt.OpenSpool(filepath.Join(dataDir(r.cfg), "outbox"), journal); err != nil {
		return err
	}
	inbox, err := r.board.Journal("mqtt-inbox", blackboard.JournalOptions{
		Limit: int(m.Outbox.Limit) + 1024, Bytes: int64(m.Outbox.Bytes) + 32*m.Outbox.Limit, Mode: blackboard.Sync,
	})
	if err != nil {
		return err
	}
	overflow := bus.DropOldest
	if m.Outbox.Overflow == "drop_new" {
		overflow = bus.DropNew
	}
	id := m.ClientID
	if id == "" {
		id = "edged-" + r.cfg.Name
	}
	l.bridge, err = mqtt.New(r.bus, mqtt.Options{
		URL: m.URL, ClientID: id, Prefix: r.prefix(), Insecure: m.Insecure,
		Username: m.Username, PasswordFile: r.cfg.SecretPath(m.PasswordFile),
		TLS:     mqtt.TLS{CA: r.cfg.Path(m.TLS.CA), Cert: r.cfg.Path(m.TLS.Cert), Key: r.cfg.Path(m.TLS.Key), Name: m.TLS.Name},
		Mapping: r.mapping(), Discovery: r.discovery(), Inbox: inbox,
		Outbox: l.spool, Limit: int(m.Outbox.Limit), Bytes: int64(m.Outbox.Bytes), Overflow: overflow,
		MaxPacket: int(m.MaxPacket), KeepAlive: time.Duration(m.KeepAlive), Settle: time.Duration(m.Settle), Log: r.log,
	})
	return err
}

// freeze is called before the scripts end: what they do not finish comes again.
func (l *mqttLink) freeze() {
	if l != nil && l.bridge != nil {
		l.bridge.Freeze()
	}
}

// close ends listening to the bus, after the tree has stopped.
func (l *mqttLink) close() error {
	switch {
	case l == nil:
		return nil
	case l.bridge != nil:
		l.bridge.Close()
		return l.spool.Close()
	}
	l.local.Load().Close()
	return nil
}

// Serve implements background.Service.
func (l *mqttLink) Serve(ctx context.Context) error {
	if l.bridge != nil {
		return l.bridge.Serve(ctx)
	}
	b := l.first
	l.first = nil
	if b == nil { // after a failure
		o, err := l.r.brokerOptions()
		if err != nil {
			return err
		}
		if b, err = broker.Listen(ctx, o); err != nil {
			return err
		}
		l.local.Load().Close()
		if err = l.newLocal(b); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	said := make(chan error, 1)
	go func() { said <- l.local.Load().Serve(ctx) }()
	err := b.Serve(ctx)
	cancel()
	if e := <-said; err == nil {
		err = e
	}
	return err
}

// Describe adds the counters to the status of the tree.
func (l *mqttLink) Describe() any {
	if l.bridge != nil {
		return l.bridge.Stats()
	}
	return l.local.Load().Stats()
}

// brokerStats are the counters of the broker inside, or nil.
func (l *mqttLink) brokerStats() *broker.Stats {
	b := l.inside.Load()
	if b == nil {
		return nil
	}
	st := b.Stats()
	return &st
}

// line is the link in one phrase.
func (l *mqttLink) line(c *config.Config) string {
	switch {
	case l == nil:
		return "off"
	case l.bridge != nil:
		return c.MQTT.URL
	}
	who := "anyone on this machine"
	if n := len(c.MQTT.Users); n > 0 {
		who = fmt.Sprintf("%d users", n)
	}
	return fmt.Sprintf("%s (inside, for %s)", l.addr, who)
}
