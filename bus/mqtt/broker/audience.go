package broker

import (
	"strings"
	"sync"

	mochi "github.com/mochi-mqtt/server/v2"
)

// audience remembers the topics that nobody subscribed to. The library makes
// four maps to find that out, for every message.
type audience struct {
	mu     sync.Mutex
	nobody map[string]bool
}

// topics is how many are remembered; then it begins again.
const topics = 4096

// quiet reports whether a topic has no subscriber.
func (a *audience) quiet(s *mochi.Server, topic string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if quiet, known := a.nobody[topic]; known {
		return quiet
	}
	// Looked at under the lock, so that what changed meanwhile is forgotten after.
	all := s.Topics.Subscribers(topic)
	quiet := len(all.Subscriptions) == 0 && len(all.Shared) == 0 && len(all.InlineSubscriptions) == 0
	if a.nobody == nil || len(a.nobody) >= topics {
		a.nobody = map[string]bool{}
	}
	a.nobody[strings.Clone(topic)] = quiet
	return quiet
}

// changed forgets: somebody subscribed, or came back to what they had.
func (a *audience) changed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.nobody = nil
}
