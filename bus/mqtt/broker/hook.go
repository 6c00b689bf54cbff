package broker

import (
	"errors"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// hook is where the library asks who may do what and tells what was published.
type hook struct {
	mochi.HookBase
	b *Broker
}

func (h *hook) ID() string { return "edged" }

func (h *hook) Provides(what byte) bool {
	switch what {
	case mochi.OnConnectAuthenticate, mochi.OnACLCheck, mochi.OnPublish, mochi.OnWillSent,
		mochi.OnSessionEstablished, mochi.OnSubscribed, mochi.OnUnsubscribed:
		return true
	}
	return false
}

// OnConnectAuthenticate lets in who has a name and its password, or everyone
// when there are no users (then we listen on loopback only).
func (h *hook) OnConnectAuthenticate(_ *mochi.Client, pk packets.Packet) bool {
	if len(h.b.users) == 0 {
		return true
	}
	if authentic(h.b.users, string(pk.Connect.Username), pk.Connect.Password) {
		return true
	}
	h.b.refused.Add(1)
	return false
}

// OnACLCheck is asked for every topic that is published, every filter that is
// subscribed to, and every message that is about to be delivered.
func (h *hook) OnACLCheck(cl *mochi.Client, topic string, write bool) bool {
	if len(h.b.users) == 0 || cl.Net.Inline {
		return true
	}
	a := h.b.users[string(cl.Properties.Username)]
	return a != nil && a.may(topic, write)
}

// OnPublish passes a message on before it is acknowledged.
func (h *hook) OnPublish(cl *mochi.Client, pk packets.Packet) (packets.Packet, error) {
	// Messages for an absent client are sent again in the order of Created,
	// which the library counts in seconds. A counter keeps their order.
	pk.Created = int64(h.b.taken.Add(1))
	if cl.Net.Inline {
		return pk, nil
	}
	if pk.FixedHeader.Qos > 2 {
		return pk, packets.ErrRejectPacket
	}
	if err := h.pass(pk); err != nil {
		return pk, errors.Join(packets.ErrRejectPacket, err)
	}
	if !pk.FixedHeader.Retain && h.b.Quiet(pk.TopicName) {
		return pk, packets.CodeSuccessIgnore // acknowledged, and over
	}
	return pk, nil
}

// OnSessionEstablished, OnSubscribed and OnUnsubscribed are called when who
// hears what has changed.
func (h *hook) OnSessionEstablished(*mochi.Client, packets.Packet) { h.b.audience.changed() }
func (h *hook) OnSubscribed(*mochi.Client, packets.Packet, []byte) { h.b.audience.changed() }
func (h *hook) OnUnsubscribed(*mochi.Client, packets.Packet)       { h.b.audience.changed() }

// OnWillSent passes on the last will of a client that was lost.
func (h *hook) OnWillSent(_ *mochi.Client, pk packets.Packet) { _ = h.pass(pk) }

func (h *hook) pass(pk packets.Packet) error {
	f := h.b.take.Load()
	if f == nil {
		return nil
	}
	return (*f)(pk.TopicName, pk.Payload, pk.FixedHeader.Qos, pk.FixedHeader.Retain)
}
