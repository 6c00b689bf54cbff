package broker_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mochi-mqtt/server/v2/packets"

	"edged/bus/mqtt/broker"
)

// Which topics a filter gets, of those that clients may name; a shared one that
// is odd is refused (MQTT 5 section 4.8.2), and none of them stays behind.
func TestWhatAFilterGets(t *testing.T) {
	t.Parallel()
	topics := []string{"a", "a/b", "a/b/c", "/a", "a/", "b", "$robot/a"}
	for filter, want := range map[string]string{
		"#": "a a/b a/b/c /a a/ b", "+": "a b", "a/#": "a a/b a/b/c a/", "a/+": "a/b a/", "+/+": "a/b /a a/", "/+": "/a", "+/b/#": "a/b a/b/c",
		"a": "a", "a/": "a/", "$robot/#": "$robot/a", "$robot/+": "$robot/a", "+/a": "/a", "a/b/c/#": "a/b/c", "a/+/c": "a/b/c",
		"$share/g/a/+": "a/b a/", "$share/g/#": "a a/b a/b/c /a a/ b", "$share/g/$share/g/a": "",
		"$share/g": "-", "$share/g/": "-", "$share//a": "-", "$share/+/a": "-", "$share/#/a": "-", "$share/g#/a": "-", "$share/": "-",
		"": "-", "a#": "-", "#/a": "-", "a/+b": "-", "a\nb": "-", strings.Repeat("a", 1025): "-",
	} {
		bubble(t, broker.Options{}, nil, func(b *clocked) {
			c := b.client(5, "c", nil)
			got := c.subscribe(func(s *packets.Subscription) { s.Qos = 0 }, filter)
			if want == "-" {
				if got != "Suback 8f" || b.Stats().Subscriptions != 0 || b.Stats().Denied != 1 {
					t.Errorf("%.20q: got %s", filter, got)
				}
				return
			}
			for _, topic := range topics {
				b.publish(topic, "x", 0, false)
			}
			var came []string
			for range strings.Fields(want) {
				pk, err := c.read()
				if err != nil {
					t.Fatalf("%q: got %v: %v", filter, came, err)
				}
				came = append(came, pk.TopicName)
			}
			if s := strings.Join(came, " "); got != "Suback 00" || s != want || c.hear() != "silence" {
				t.Errorf("%q: got %s: %q, want %q", filter, got, s, want)
			}
			for i, want := range []string{"Unsuback 00", "Unsuback 11"} {
				c.say(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Unsubscribe}, PacketID: 3, Filters: packets.Subscriptions{{Filter: filter}}})
				if got := c.hear(); got != want {
					t.Errorf("%q: unsubscribed %d: got %s", filter, i, got)
				}
			}
			if !b.Quiet("a") || !b.Quiet("a/b") || b.Books() != nil {
				t.Errorf("%q: a subscription stays: %v", filter, b.Books())
			}
		})
	}
}

// Filters that overlap give a message once, with the highest QoS and all
// identifiers; a shared one gives it beside them.
func TestOverlappingFilters(t *testing.T) {
	t.Parallel()
	bubble(t, broker.Options{}, nil, func(b *clocked) {
		c := b.client(5, "c", nil)
		for i, filter := range []string{"a/+", "a/b", "#"} {
			c.subscribe(func(s *packets.Subscription) { s.Identifier, s.Qos, s.RetainAsPublished = i+1, byte(i), i == 1 }, filter)
		}
		b.publish("a/b", "x", 2, true)
		got := c.hear()
		if !strings.Contains(got, "qos=2 retain=true") || strings.Count(got, "1")*strings.Count(got, "3") == 0 || c.hear() != "silence" {
			t.Errorf("got %s", got)
		}
		b.publish("a/c", "x", 1, false)
		if got := c.hear(); !strings.Contains(got, "qos=1 retain=false") {
			t.Errorf("got %s", got)
		}
		c.subscribe(func(s *packets.Subscription) { s.Identifier, s.Qos = 9, 0 }, "$share/g/a/d")
		b.publish("a/d", "x", 0, false)
		if one, two := c.hear(), c.hear(); !strings.Contains(one+two, "ids=[9]") || c.hear() != "silence" {
			t.Errorf("got %s, %s", one, two)
		}
	})
}

// A group gives each message to one member in turn: to those who are connected
// while any is, else it waits for one who is away.
func TestTurnsOfAGroup(t *testing.T) {
	t.Parallel()
	bubble(t, broker.Options{}, nil, func(b *clocked) {
		var members []*client
		for i := range 3 {
			c := b.client(5, fmt.Sprint(i), lasts(3600))
			c.subscribe(func(s *packets.Subscription) { s.Qos = 1 }, "$share/g/n")
			members = append(members, c)
		}
		turn := func(of ...int) {
			t.Helper()
			for range 2 * len(of) {
				b.publish("n", "x", 1, false)
			}
			for _, i := range of {
				for range 2 {
					pk, err := members[i].read()
					if err != nil {
						t.Fatalf("member %d: %v", i, err)
					}
					members[i].ack(packets.Puback, pk.PacketID, 0)
				}
			}
			synctest.Wait()
			if st := b.Stats(); st.Waiting != 0 {
				t.Errorf("members %v: %d wait", of, st.Waiting)
			}
		}
		turn(0, 1, 2)
		members[1].net.Close()
		synctest.Wait()
		turn(0, 2)
		for _, i := range []int{0, 2} {
			members[i].net.Close()
		}
		synctest.Wait()
		for range 3 {
			b.publish("n", "x", 1, false)
		}
		if st := b.Stats(); st.Waiting != 3 || st.Dropped != 0 {
			t.Errorf("all are away: %+v", st)
		}
		for i := range 3 {
			c := b.client(5, fmt.Sprint(i), lasts(3600))
			if got := c.hear(); !strings.HasPrefix(got, `Publish n "x"`) {
				t.Errorf("member %d: got %s", i, got)
			}
		}
	})
}
