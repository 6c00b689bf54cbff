package broker

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
)

// What a client says, packet by packet.

// hello answers CONNECT. Unless the code is success, the error says why not.
func (c *conn) hello(pk *packets.Packet) (packets.Code, error) {
	p := &pk.Connect
	c.version = pk.ProtocolVersion
	code, err := c.admit(pk)
	var will *message
	if code == packets.CodeSuccess && p.WillFlag {
		will, code, err = c.testament(pk)
	}
	if code == packets.CodeSuccess {
		c.welcome(pk, will)
		return code, nil
	}
	if name := string(p.ProtocolName); (name == "MQTT" || name == "MQIsdp") && (c.version == 5 || code != packets.ErrMalformedPacket) {
		_, _ = c.net.Write(encode(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connack}, ReasonCode: c.returned(code)}, c.version))
	}
	return code, err
}

// returned is a reason code as the client's version has it. MQTT 3.1.1 has five.
func (c *conn) returned(code packets.Code) byte {
	if c.version == 5 {
		return code.Code
	}
	switch code {
	case packets.ErrUnsupportedProtocolVersion:
		return 1
	case packets.ErrClientIdentifierNotValid:
		return 2
	case packets.ErrQuotaExceeded:
		return 3
	}
	return 5 // not authorized
}

// admit checks what CONNECT says of the client, name and password too.
func (c *conn) admit(pk *packets.Packet) (packets.Code, error) {
	p := &pk.Connect
	refuse := func(code packets.Code, why string) (packets.Code, error) {
		return code, fmt.Errorf("%s (%w)", why, code)
	}
	name, version := string(p.ProtocolName), pk.ProtocolVersion
	switch {
	case name != "MQTT" && name != "MQIsdp":
		return refuse(packets.ErrProtocolViolationProtocolName, "it doesn't speak MQTT")
	case name == "MQTT" && version != 4 && version != 5, name == "MQIsdp" && version != 3:
		c.version = min(version, 5)
		return refuse(packets.ErrUnsupportedProtocolVersion, fmt.Sprintf("it speaks version %d of %s", version, name))
	case pk.ReservedBit != 0, p.WillQos > 2, !p.WillFlag && (p.WillRetain || p.WillQos > 0), version < 5 && p.PasswordFlag && !p.UsernameFlag:
		return refuse(packets.ErrMalformedPacket, "its CONNECT has wrong flags")
	case len(p.ClientIdentifier) > maxTopic || !plain(p.ClientIdentifier),
		p.ClientIdentifier == "" && version < 5 && !p.Clean:
		return refuse(packets.ErrClientIdentifierNotValid, "it has no client identifier that can be used")
	case pk.Properties.AuthenticationMethod != "":
		return refuse(packets.ErrBadAuthenticationMethod, "it asks for an authentication method; there is name and password")
	case !c.b.authentic(string(p.Username), p.Password):
		return refuse(packets.ErrBadUsernameOrPassword, fmt.Sprintf("user %.64q is unknown, or the password is wrong", p.Username))
	}
	if len(c.b.users) > 0 {
		c.user = string(p.Username)
	}
	return packets.CodeSuccess, nil
}

// authentic checks name and password. Hashing takes long on purpose, so one is
// hashed at a time: guessing must not take the processors from the robot.
func (b *Broker) authentic(name string, pass []byte) bool {
	if len(b.users) == 0 {
		return true
	}
	b.hashing.Lock()
	defer b.hashing.Unlock()
	return authentic(b.users, name, pass)
}

// testament takes the last will, if the client may leave one there.
func (c *conn) testament(pk *packets.Packet) (*message, packets.Code, error) {
	p := &pk.Connect
	m := &message{
		topic: p.WillTopic, payload: p.WillPayload, qos: p.WillQos, retain: p.WillRetain,
		props: passedOn(&p.WillProperties), lifetime: time.Duration(p.WillProperties.MessageExpiryInterval) * time.Second,
	}
	if p.WillPayload == nil {
		m.payload = []byte{}
	}
	switch {
	case !topicOK(m.topic):
		return nil, packets.ErrTopicNameInvalid, fmt.Errorf("its last will is on %.128q, which is no topic", m.topic)
	case m.topic[0] == '$', !c.b.may(c.user, m.topic, true):
		return nil, packets.ErrNotAuthorized, fmt.Errorf("user %.64q may not leave a last will on %.128q (mqtt.users, write)", c.user, m.topic)
	case !c.b.reserve(m.size()):
		return nil, packets.ErrQuotaExceeded, errors.New("its last will has no room (mqtt.memory)")
	}
	return m, packets.CodeSuccess, nil
}

// welcome gives the client its session and says so.
func (c *conn) welcome(pk *packets.Packet, will *message) {
	p, props := &pk.Connect, &pk.Properties
	ack := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connack}}
	id := p.ClientIdentifier
	if id == "" {
		id = rand.Text()
		ack.Properties.AssignedClientID = id
	}
	expiry := uint32(forever)
	if c.version == 5 {
		expiry = props.SessionExpiryInterval
	} else if p.Clean {
		expiry = 0
	}
	c.window, c.largest = window, props.MaximumPacketSize
	if props.ReceiveMaximum > 0 {
		c.window = min(window, int(props.ReceiveMaximum))
	}
	c.keepAlive = time.Duration(p.Keepalive) * time.Second
	ack.Properties.ReceiveMaximum, ack.Properties.TopicAliasMaximum = receiving, aliases
	ack.Properties.MaximumPacketSize = uint32(min(int64(c.b.opt.MaxPacket), math.MaxUint32))
	ack.SessionPresent = c.b.attach(c, id, p.Clean, expiry, will, p.WillProperties.WillDelayInterval)
	c.acks <- encode(ack, c.version) // the writer begins with it
}

// serve does what the client says until it leaves. It reports whether the
// client said goodbye, so that its will is void.
func (c *conn) serve() (clean bool, err error) {
	for {
		pk, err := c.read()
		if err == nil {
			err = c.handle(pk)
		}
		switch code := packets.CodeSuccess; {
		case err == nil:
		case errors.Is(err, errGoodbye):
			return true, nil
		case errors.As(err, &code):
			c.leave(code)
			return false, err
		default:
			return false, err
		}
	}
}

var errGoodbye = errors.New("the client said goodbye")

func (c *conn) handle(pk *packets.Packet) error {
	s := c.session
	switch pk.FixedHeader.Type {
	case packets.Publish:
		return c.published(pk)
	case packets.Puback, packets.Pubcomp:
		c.b.acked(s, pk.PacketID, pk.FixedHeader.Type, pk.ReasonCode >= packets.ErrUnspecifiedError.Code)
		return nil
	case packets.Pubrec:
		failed := pk.ReasonCode >= packets.ErrUnspecifiedError.Code
		known := c.b.acked(s, pk.PacketID, packets.Pubrec, failed)
		if !failed {
			c.answer(packets.Pubrel, pk.PacketID, found(known))
		}
		return nil
	case packets.Pubrel:
		c.answer(packets.Pubcomp, pk.PacketID, found(c.b.released(s, pk.PacketID)))
		return nil
	case packets.Subscribe:
		return c.subscribed(pk)
	case packets.Unsubscribe:
		return c.unsubscribed(pk)
	case packets.Pingreq:
		c.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pingresp}})
		return nil
	case packets.Disconnect:
		return c.goodbye(pk)
	}
	return packets.ErrProtocolViolation
}

func found(known bool) packets.Code {
	if !known {
		return packets.ErrPacketIdentifierNotFound
	}
	return packets.CodeSuccess
}

// answer sends an acknowledgement. Reasons are for those who speak MQTT 5.
func (c *conn) answer(kind byte, pid uint16, code packets.Code) {
	c.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: kind}, PacketID: pid, ReasonCode: code.Code})
}

// published takes a message in and acknowledges it. What the client may not say
// is counted and told; MQTT 3.1.1 has no word for it, so it is acknowledged
// there and dropped (section 3.3.5).
func (c *conn) published(pk *packets.Packet) error {
	qos, pid := pk.FixedHeader.Qos, pk.PacketID
	if err := c.unalias(pk); err != nil {
		return err
	}
	switch {
	case qos > 0 && pid == 0, len(pk.Properties.SubscriptionIdentifier) > 0:
		return packets.ErrProtocolViolation
	case c.version < 5 && !topicOK(pk.TopicName) && (pk.TopicName == "" || containsWildcard(pk.TopicName)):
		return packets.ErrTopicNameInvalid // MQTT 3.1.1 section 3.3.2.1
	}
	if qos == 2 {
		switch first, room := c.b.receive(c, pid); {
		case !room:
			return packets.ErrReceiveMaximum
		case !first: // sent again: it was taken in already
			c.answer(packets.Pubrec, pid, packets.CodeSuccess)
			return nil
		}
	}
	m := &message{
		topic: pk.TopicName, payload: pk.Payload, qos: qos, retain: pk.FixedHeader.Retain,
		props: passedOn(&pk.Properties), from: c.session,
	}
	if n := pk.Properties.MessageExpiryInterval; n > 0 {
		m.expires = time.Now().Add(time.Duration(n) * time.Second)
	}
	var err error
	code := packets.CodeSuccess
	denied := false
	taken := c.wait(func() bool {
		err = c.b.publish(m)
		denied = errors.As(err, &code)
		return err == nil || denied
	})
	if !taken {
		c.b.released(c.session, pid)
		if !c.left() {
			c.b.deny("busy", "a message of client %.64q was not taken for %v, and the client is cut off: %w", c.session.id, patience, err)
		}
		return fmt.Errorf("%w: %w", packets.ErrServerBusy, err)
	}
	if denied {
		c.b.deny("write "+c.user, "a message of client %.64q is dropped: %w", c.session.id, err)
	}
	if denied && c.version == 5 && qos == 2 {
		c.b.released(c.session, pid) // a PUBREC that is an error ends it
	}
	if c.version < 5 {
		code = packets.CodeSuccess
	}
	switch qos {
	case 1:
		c.answer(packets.Puback, pid, code)
	case 2:
		c.answer(packets.Pubrec, pid, code)
	}
	return nil
}

// unalias puts the topic in that an alias stands for (MQTT 5 section 3.3.2.3.4).
func (c *conn) unalias(pk *packets.Packet) error {
	if !pk.Properties.TopicAliasFlag {
		if pk.TopicName == "" && c.version == 5 {
			return packets.ErrProtocolViolation
		}
		return nil
	}
	alias := pk.Properties.TopicAlias
	if alias == 0 || alias > aliases {
		return packets.ErrTopicAliasInvalid
	}
	if pk.TopicName != "" {
		if delete(c.aliases, alias); len(pk.TopicName) <= maxTopic {
			c.aliases[alias] = pk.TopicName
		}
		return nil
	}
	topic, known := c.aliases[alias]
	if !known {
		return packets.ErrProtocolViolation
	}
	pk.TopicName = topic
	return nil
}

func (c *conn) subscribed(pk *packets.Packet) error {
	if pk.PacketID == 0 || len(pk.Filters) == 0 {
		return packets.ErrProtocolViolation
	}
	subs := make([]subscription, len(pk.Filters))
	for i, f := range pk.Filters {
		name, _, _ := shared(f.Filter)
		if f.RetainHandling > 2 || f.NoLocal && name != "" {
			return packets.ErrProtocolViolation // MQTT 5 section 3.8.3.1
		}
		subs[i] = subscription{qos: f.Qos, noLocal: f.NoLocal, published: f.RetainAsPublished, id: f.Identifier}
	}
	codes := make([]byte, len(pk.Filters))
	replay := make([]bool, len(pk.Filters))
	for i, f := range pk.Filters {
		code, known := c.b.subscribe(c, f.Filter, subs[i])
		codes[i] = code.Code
		if c.version < 5 && code.Code > 2 {
			codes[i] = packets.ErrUnspecifiedError.Code // MQTT 3.1.1 section 3.9.3: 0x80 is failure
		}
		replay[i] = code.Code <= 2 && (f.RetainHandling == 0 || f.RetainHandling == 1 && !known)
	}
	c.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Suback}, PacketID: pk.PacketID, ReasonCodes: codes})
	for i, f := range pk.Filters {
		if replay[i] {
			c.b.replay(c, f.Filter, subs[i], time.Now())
		}
	}
	return nil
}

func (c *conn) unsubscribed(pk *packets.Packet) error {
	if pk.PacketID == 0 || len(pk.Filters) == 0 {
		return packets.ErrProtocolViolation
	}
	codes := make([]byte, len(pk.Filters))
	c.b.mu.Lock()
	for i, f := range pk.Filters {
		if !c.b.unsubscribe(c.session, f.Filter) {
			codes[i] = packets.CodeNoSubscriptionExisted.Code
		}
	}
	c.b.unlock()
	c.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Unsuback}, PacketID: pk.PacketID, ReasonCodes: codes})
	return nil
}

// goodbye is DISCONNECT: the will is void unless the client says otherwise, and
// MQTT 5 may change how long the session lasts.
func (c *conn) goodbye(pk *packets.Packet) error {
	if pk.Properties.SessionExpiryIntervalFlag {
		c.b.mu.Lock()
		was := c.session.expiry
		if was > 0 && c.session.conn == c {
			c.session.expiry = pk.Properties.SessionExpiryInterval
		}
		c.b.unlock()
		if was == 0 && pk.Properties.SessionExpiryInterval > 0 {
			return packets.ErrProtocolViolation
		}
	}
	if pk.ReasonCode == packets.CodeDisconnectWillMessage.Code {
		return errors.New("the client left, with its will")
	}
	return errGoodbye
}
