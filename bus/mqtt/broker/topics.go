package broker

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxTopic is the length of a topic or filter, in bytes: that of the bus.
const maxTopic = 1024

// topicOK reports whether a client may name a topic so: UTF-8, 1 to 1024 bytes,
// no wildcard, no control character (MQTT 5 section 1.5.4 and 4.7).
func topicOK(t string) bool {
	return t != "" && len(t) <= maxTopic && plain(t) && !containsWildcard(t)
}

func containsWildcard(t string) bool { return strings.ContainsAny(t, "+#") }

// filterOK is topicOK for a filter: + alone in a level, # alone in the last.
func filterOK(f string) bool {
	if f == "" || len(f) > maxTopic || !plain(f) {
		return false
	}
	for rest, more := f, true; more; {
		var level string
		level, rest, more = strings.Cut(rest, "/")
		if strings.ContainsAny(level, "+#") && (len(level) > 1 || level == "#" && more) {
			return false
		}
	}
	return true
}

func plain(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// shared takes a filter of a shared subscription apart: $share/group/filter.
func shared(filter string) (group, rest string, ok bool) {
	s, is := strings.CutPrefix(filter, "$share/")
	if !is {
		return "", filter, true
	}
	group, rest, ok = strings.Cut(s, "/")
	return group, rest, ok && group != "" && !strings.ContainsAny(group, "+#")
}

// subscription is what a client asked for with a filter.
type subscription struct {
	qos       byte
	noLocal   bool // not what the client itself published
	published bool // the retain flag as the publisher set it
	id        int  // MQTT 5: sent along with what matches; 0 is none
}

func (s subscription) ids() []int {
	if s.id == 0 {
		return nil
	}
	return []int{s.id}
}

// A node is one level of the filters that clients subscribed to. Who holds the
// broker's lock uses it.
type node struct {
	below  map[string]*node
	subs   map[*session]subscription
	groups map[string]*group
}

// group shares what matches: each message goes to one member.
type group struct {
	members []*session
	subs    map[*session]subscription
	next    int
}

// at finds the node of a filter and makes it if asked.
func (n *node) at(filter string, make bool) *node {
	for rest, more := filter, true; more; {
		var level string
		level, rest, more = strings.Cut(rest, "/")
		next := n.below[level]
		if next == nil {
			if !make {
				return nil
			}
			next = &node{}
			if n.below == nil {
				n.below = map[string]*node{}
			}
			n.below[strings.Clone(level)] = next
		}
		n = next
	}
	return n
}

func (n *node) add(filter, name string, s *session, sub subscription) {
	n = n.at(filter, true)
	if name == "" {
		if n.subs == nil {
			n.subs = map[*session]subscription{}
		}
		n.subs[s] = sub
		return
	}
	if n.groups == nil {
		n.groups = map[string]*group{}
	}
	g := n.groups[name]
	if g == nil {
		g = &group{subs: map[*session]subscription{}}
		n.groups[strings.Clone(name)] = g
	}
	if _, is := g.subs[s]; !is {
		g.members = append(g.members, s)
	}
	g.subs[s] = sub
}

// remove takes a subscription away, and levels that nobody needs any more.
func (n *node) remove(filter, name string, s *session) {
	level, rest, more := strings.Cut(filter, "/")
	next := n.below[level]
	if next == nil {
		return
	}
	switch g := next.groups[name]; {
	case more:
		next.remove(rest, name, s)
	case name == "":
		delete(next.subs, s)
	case g != nil:
		delete(g.subs, s)
		g.members = slices.DeleteFunc(g.members, func(x *session) bool { return x == s })
		if len(g.members) == 0 {
			delete(next.groups, name)
		}
	}
	if len(next.below)+len(next.subs)+len(next.groups) == 0 {
		delete(n.below, level)
	}
}

// match calls f with every node whose filter matches a topic, until it returns
// false. A wildcard in first place matches no topic that begins with $ (MQTT
// 3.1.1 section 4.7.2).
func (n *node) match(topic string, f func(*node) bool) bool {
	return n.walk(topic, true, !strings.HasPrefix(topic, "$"), f)
}

func (n *node) walk(topic string, more, wild bool, f func(*node) bool) bool {
	if all := n.below["#"]; all != nil && wild && !all.call(f) {
		return false
	}
	if !more {
		return n.call(f)
	}
	level, rest, more := strings.Cut(topic, "/")
	if next := n.below[level]; next != nil && !next.walk(rest, more, true, f) {
		return false
	}
	if any := n.below["+"]; any != nil && wild && !any.walk(rest, more, true, f) {
		return false
	}
	return true
}

func (n *node) call(f func(*node) bool) bool {
	return len(n.subs)+len(n.groups) == 0 || f(n)
}

// choose gives the member of a group whose turn it is: one that is connected,
// if any is.
func (g *group) choose() *session {
	for range g.members {
		s := g.members[g.next%len(g.members)]
		g.next++
		if s.conn != nil {
			return s
		}
	}
	s := g.members[g.next%len(g.members)]
	g.next++
	return s
}
