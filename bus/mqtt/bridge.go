package mqtt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"edged/bus"
)

// A Bridge carries events to and from a broker outside, as long as Serve runs.
// Paho connects, subscribes and keeps the connection alive; the messages of both
// ways and their acknowledgements are the bridge's own (see conn and wire).
type Bridge struct {
	w    *wire
	o    Options
	addr address
	ann  *announcer

	serving atomic.Bool
	mu      sync.Mutex // guards reason
	reason  string     // why there is no connection, "" = there is one

	again chan struct{} // one token: announce again

	refusals int // connections that ended at the marker; Serve's own
}

// New checks the options and starts listening to the bus: what is published
// from now on waits in the outbox for Serve. The bus closes the bridge's ears.
func New(b *bus.Bus, o Options) (*Bridge, error) {
	o = o.withDefaults()
	if o.Overflow != bus.DropOldest && o.Overflow != bus.DropNew {
		return nil, fmt.Errorf("mqtt: the outbox drops the oldest or the new, nothing else")
	}
	if err := bus.ValidTopic(o.Prefix); err != nil {
		return nil, fmt.Errorf("mqtt: mqtt.prefix: %w", err)
	}
	if err := o.secret(); err != nil {
		return nil, err
	}
	addr, err := o.address()
	if err != nil {
		return nil, err
	}
	l, err := newLink(b, o.Name, o.Mapping)
	if err != nil {
		return nil, err
	}
	br := &Bridge{w: newWire(l, o), o: o, addr: addr, again: make(chan struct{}, 1), reason: "not started"}
	br.ann = newAnnouncer(l.mapper, o.Discovery, o.ClientID, br.status())
	br.w.load()
	br.w.in.load()
	if err := l.listen(br.w.offer); err != nil {
		return nil, err
	}
	return br, nil
}

// Close stops listening to the bus. Call it when Serve has returned.
func (br *Bridge) Close() { br.w.close() }

// Freeze keeps what is in the inbox for the next process, whatever becomes of the
// handlers from now on. Call it before they are ended.
func (br *Bridge) Freeze() { br.w.in.freeze() }

// Connected reports whether there is a connection.
func (br *Bridge) Connected() bool { return br.why() == "" }

// Stats gives the counters.
func (br *Bridge) Stats() Stats {
	st := br.w.stats()
	st.Reason = br.why()
	st.Connected = st.Reason == ""
	st.Inbox = br.w.in.size()
	br.w.mu.Lock()
	st.Waiting, st.Bytes = br.w.q.n, br.w.q.bytes
	br.w.mu.Unlock()
	return st
}

// Declare replaces the entities that Home Assistant is told of.
func (br *Bridge) Declare(list []Entity) error {
	if err := br.ann.declare(list); err != nil {
		return err
	}
	token(br.again)
	return nil
}

// Tell publishes a message of the robot about itself, on a topic as the robot
// sees it: with QoS 1, now or when there is a connection.
func (br *Bridge) Tell(topic string, payload []byte) {
	topic = br.o.OutPrefix + topic
	br.w.offer(bus.Event{Topic: topic}, Route{QoS: 1}, verdict{topic: topic, echo: br.w.subscribed(topic)}, payload)
}

// State publishes what the robot is in, retained, on a topic of the broker; at
// every connection it is said again.
func (br *Bridge) State(topic, state string) {
	if br.w.note(topic, []byte(state)) && br.Connected() {
		br.w.post(topic, []byte(state))
	}
}

func (br *Bridge) status() string { return br.o.Prefix + "/status" }

func (br *Bridge) marker() string { return br.o.Prefix + "/marker" }

func (br *Bridge) why() string {
	br.mu.Lock()
	defer br.mu.Unlock()
	return br.reason
}

// Serve connects, and connects again whenever the connection is lost, until
// ctx ends; then it says goodbye and returns nil. One call at a time.
func (br *Bridge) Serve(ctx context.Context) error {
	if br.serving.Swap(true) {
		return errors.New("mqtt: the bridge is being served already")
	}
	defer br.serving.Store(false)
	var tidy sync.WaitGroup
	tidyCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	tidy.Go(func() { br.w.clean(tidyCtx) })
	if sp, ok := br.o.Outbox.(*Spool); ok {
		tidy.Go(func() { sp.run(tidyCtx, func(err error) { br.w.report("outbox", err) }) })
	}
	tidy.Go(func() { br.w.in.serve(tidyCtx) })
	defer tidy.Wait()
	defer stop()

	pauses := backoff{min: br.o.Backoff, max: br.o.MaxBackoff}
	var other rival
	for ctx.Err() == nil {
		br.w.attempts.Add(1)
		begin := time.Now()
		present, err := br.connect(ctx)
		if ctx.Err() != nil {
			break
		}
		lasted := time.Since(begin)
		reason := words(err, br.o)
		if other.ended(byPeer(err), present, lasted) {
			reason = fmt.Sprintf("the broker closes each connection soon after it is made: "+
				"another client seems to use the client id %q; give each robot its own mqtt.client_id", br.o.ClientID)
		}
		d := pauses.pause(lasted)
		br.down(reason, d)
		wait(ctx, d)
	}
	br.down("stopped", 0)
	return nil
}

// connect makes one connection and serves it to its end.
func (br *Bridge) connect(stop context.Context) (present bool, err error) {
	ctx, cancel := context.WithCancelCause(stop)
	defer cancel(nil)
	l := &line{w: br.w, extra: br.birth, fail: cancel, catchup: newCatchup(br.marker(), br.o.Settle, br.w.away())}
	var raw net.Conn
	unhook := func() bool { return true }
	o := br.options(func() (net.Conn, error) {
		c, err := br.addr.dial(ctx, br.o.Timeout)
		if err != nil {
			return nil, err
		}
		raw = newConn(c, br.o.MaxPacket, br.o.Timeout, l)
		unhook = context.AfterFunc(ctx, func() { _ = c.Close() }) // ends the handshake too
		return raw, nil
	})
	o.SetConnectionLostHandler(func(_ paho.Client, err error) { cancel(cmp.Or(err, io.EOF)) })
	br.w.open(l)
	defer br.w.shut()
	c := paho.NewClient(o)
	t := c.Connect().(*paho.ConnectToken)
	<-t.Done()
	unhook()
	if t.Error() != nil {
		return false, t.Error()
	}
	present = t.SessionPresent()

	var writer sync.WaitGroup
	done := make(chan struct{})
	writer.Go(func() { br.w.run(raw, done) })
	defer writer.Wait()
	defer close(done)
	defer c.Disconnect(250)

	// Messages go out before we are subscribed, so that what comes first is
	// answered.
	br.w.connected(present)
	if err := br.subscribe(ctx, c); err != nil {
		return present, err
	}
	br.w.refresh()
	br.up(present)
	begin := time.Now()
	err = br.carry(stop, ctx, l.catchup)
	br.refusals = l.catchup.refusals(br.refusals, byPeer(err), time.Since(begin))
	return present, err
}

// carry waits for the end of a connection, announces and catches up meanwhile.
// stop is who wants the end, ctx ends with the connection too.
func (br *Bridge) carry(stop, ctx context.Context, c *catchup) error {
	br.w.post(br.status(), []byte("online"))
	br.w.everyState(func(topic string, state []byte) { br.w.post(topic, state) })
	br.announce(ctx)
	send := time.NewTimer(0) // a marker
	defer send.Stop()
	var sent time.Time // the marker that is not back
	done, pause, came := c.done, markerTry, uint64(0)
	switch {
	case !c.behind.Load():
		send.Stop()
		done = nil
	case br.refusals >= refusedTimes:
		send.Stop()
		br.unmarked(c, "the broker ends the connection when it comes")
	}
	for {
		select {
		case <-send.C:
			n, over := c.queued.Load(), time.Since(sent) > roundLimit
			if n > came && !sent.IsZero() && !over { // it waits behind what comes
				came, pause = n, markerTry
			} else {
				if pause >= br.o.Timeout || over && !sent.IsZero() {
					br.unmarked(c, "it does not come back")
				}
				br.w.sendMarker(c)
				sent = time.Now()
			}
			send.Reset(pause)
			pause = min(2*pause, br.o.Timeout)
		case <-c.next:
			pause, sent = markerTry, time.Time{}
			send.Reset(c.settle)
		case <-done:
			done = nil
			send.Stop()
			br.say(CaughtUpTopic, map[string]any{"queued": int64(c.queued.Load())})
		case <-br.again:
			br.announce(ctx)
		case <-ctx.Done():
			if stop.Err() == nil {
				return context.Cause(ctx)
			}
			br.w.drain(time.Second)
			br.w.post(br.status(), []byte("offline"))
			br.w.drain(time.Second)
			return nil
		}
	}
}

// unmarked tells that what waited can't be told from news.
func (br *Bridge) unmarked(c *catchup, why string) {
	br.w.report(c.topic, fmt.Errorf("mqtt: the marker on %s: %s: what comes counts as queued, and moves nothing. "+
		"Let the client %q publish and subscribe to that topic at the broker, or set act_on_queued", c.topic, why, br.o.ClientID))
}

func (br *Bridge) announce(ctx context.Context) {
	if err := br.ann.announce(ctx, func(topic string, p []byte) { br.w.post(topic, p) }); err != nil {
		br.w.report("discovery", err)
	}
}

// birth sees every message: Home Assistant's own status asks for announcements.
func (br *Bridge) birth(topic string, payload []byte, retained bool) {
	if br.ann.wanted(topic, payload) && !retained {
		token(br.again)
	}
}

func (br *Bridge) options(open func() (net.Conn, error)) *paho.ClientOptions {
	o := paho.NewClientOptions().AddBroker(br.addr.url.String()).
		SetProtocolVersion(4). // else a refusal is tried again with 3.1
		SetClientID(br.o.ClientID).SetUsername(br.o.Username).SetPassword(br.o.Password).
		SetCleanSession(false).SetAutoReconnect(false).SetConnectRetry(false).SetStore(noStore{}).
		SetKeepAlive(br.o.KeepAlive).SetPingTimeout(br.o.Timeout).
		SetConnectTimeout(br.o.Timeout).SetWriteTimeout(br.o.Timeout).
		SetBinaryWill(br.status(), []byte("offline"), 1, true)
	return o.SetCustomOpenConnectionFn(func(*url.URL, paho.ClientOptions) (net.Conn, error) { return open() })
}

// subscribe asks for everything every time: whether the broker still knows is
// nothing to rely on.
func (br *Bridge) subscribe(ctx context.Context, c paho.Client) error {
	filters := map[string]byte{}
	for _, r := range br.o.Subscribe {
		filters[r.Filter] = max(filters[r.Filter], r.QoS)
	}
	if f := br.ann.statusTopic(); f != "" && !br.w.subscribed(f) {
		filters[f] = 1
	}
	if len(filters) == 0 {
		return nil
	}
	if br.w.tells() {
		filters[br.marker()] = 1
	}
	if slices.ContainsFunc(br.o.Subscribe, func(r Route) bool { return r.Durable }) { // what must not wait behind messages that are not acknowledged comes with QoS 0, too
		for _, topic := range br.o.Told {
			if v, ok := br.w.back(topic); ok && filters[v] > 0 {
				filters[v+"/#"] = 0 // the same topic and what is below it; nothing is
			}
		}
	}
	br.w.hear()
	t := c.SubscribeMultiple(filters, nil).(*paho.SubscribeToken)
	timeout := time.NewTimer(br.o.Timeout)
	defer timeout.Stop()
	select {
	case <-t.Done():
	case <-timeout.C:
		return fmt.Errorf("subscribe: %w", context.DeadlineExceeded)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if t.Error() != nil {
		return fmt.Errorf("subscribe: %w", t.Error())
	}
	for f, code := range t.Result() {
		if code > 2 {
			br.w.report(f, fmt.Errorf("mqtt: the broker refused the subscription to %q: not allowed there", f))
		}
	}
	return nil
}

func (br *Bridge) up(present bool) {
	br.mu.Lock()
	br.reason = ""
	br.mu.Unlock()
	br.say(UpTopic, map[string]any{"url": br.addr.url.String(), "client_id": br.o.ClientID, "session": present})
}

// down tells the reason once, however many attempts fail for it.
func (br *Bridge) down(reason string, retry time.Duration) {
	br.mu.Lock()
	same := br.reason == reason
	br.reason = reason
	br.mu.Unlock()
	if !same {
		br.say(DownTopic, map[string]any{"url": br.addr.url.String(), "reason": reason, "retry": retry.Seconds()})
	}
}

func (br *Bridge) say(topic string, v map[string]any) {
	if _, err := br.w.bus.Publish(context.Background(), runtime, topic, v); err != nil {
		br.o.Log.Warn("mqtt", "topic", topic, "error", err)
	}
}
