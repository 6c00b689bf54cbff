package broker

import (
	"time"
)

// A last will takes the way of every message: the ACL, the limits, the topics
// that are the robot's own. It is looked at when the client connects, so that
// one that is not allowed is refused at once, and again when it is published.

// setWill gives a session another will and returns the one before; the caller
// holds mu.
func (b *Broker) setWill(s *session, m *message) (before *message) {
	before = s.will
	if before != nil {
		s.fixed -= before.size()
		b.fixed -= before.size()
	}
	s.will = m
	if m != nil { // it was reserved
		s.fixed += m.size()
	}
	return before
}

// lost is called when a connection is gone without a goodbye; the caller holds
// mu. The will goes out when its delay is over or, if that is earlier, when the
// session ends (MQTT 5 section 3.1.2.5).
func (b *Broker) lost(s *session, now time.Time, ended bool) {
	if s.will == nil {
		return
	}
	if s.patience > 0 && !ended {
		if s.due.IsZero() {
			s.due = now.Add(time.Duration(s.patience) * time.Second)
		}
		return
	}
	b.wills = append(b.wills, b.setWill(s, nil))
}

// leaveBehind publishes a will.
func (b *Broker) leaveBehind(m *message) {
	if m.lifetime > 0 {
		m.expires = time.Now().Add(m.lifetime)
	}
	if err := b.publish(m); err != nil {
		b.deny("will", "the last will of client %.64q is dropped: %w", m.from.id, err)
	}
}
