package web

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"edged/bus"
	"edged/cmd/edged/internal/control"
)

const bearer = "Authorization: Bearer " + secret

func TestLargeBody(t *testing.T) {
	s := open(t, nil)
	if a, body := s.do("POST", "/api/v1/do", `"`+strings.Repeat("x", maxBody)+`"`, bearer); a.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d %s", a.StatusCode, body)
	}
	if a, body := s.do("POST", "/api/v1/do", `{"half": `, bearer); a.StatusCode != http.StatusBadRequest {
		t.Errorf("what is no JSON: %d %s", a.StatusCode, body)
	}
	if a, _ := s.do("GET", "/", "", "X-Long: "+strings.Repeat("x", 4*maxHeader)); a.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a long header: %d", a.StatusCode)
	}
	if len(s.did) > 0 {
		t.Errorf("done: %d times", len(s.did))
	}
}

// raw is a connection that a test writes to itself.
func (s *opened) raw(text string) net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(deadline)); err != nil {
		s.t.Fatal(err)
	}
	if err := c.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		s.t.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// A body that doesn't come is not waited for.
func TestSlowBody(t *testing.T) {
	s := open(t, func(o *Options) { o.slow = 50 * time.Millisecond })
	c := s.raw("POST /api/v1/do HTTP/1.1\r\nHost: localhost\r\n" + bearer + "\r\nContent-Length: 100\r\n\r\n{\"a\":")
	a, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || a.StatusCode != http.StatusRequestTimeout {
		t.Fatalf("got %v, %v", a, err)
	}
	a.Body.Close()
	if len(s.did) > 0 {
		t.Error("half of it was taken for the whole")
	}
	for _, head := range []string{"POST /api/v1/do", "GET /api/v1/echo", "POST /nothing"} { // nor is one that is not wanted
		c := s.raw(head + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
		if _, err := io.ReadAll(c); err != nil {
			t.Errorf("%s: %v", head, err)
		}
	}
}

// Who looks and takes nothing is given up, and holds up nobody meanwhile.
func TestSlowReader(t *testing.T) {
	s := open(t, func(o *Options) { o.slow = 50 * time.Millisecond })
	s.raw("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	for end := time.Now().Add(deadline); s.Clients() == 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("nobody looks")
		}
	}
	w := s.watch("/api/v1/events?filter=end", "")
	w.want("hello", "")
	text := strings.Repeat("x", 4000)
	var longest time.Duration
	for s.Clients() == 2 {
		began := time.Now()
		if _, err := s.bus.Publish(t.Context(), "test", "a", text); err != nil {
			t.Fatal(err)
		}
		longest = max(longest, time.Since(began))
	}
	if longest > 2*time.Second {
		t.Errorf("an event took %v", longest)
	}
	if _, err := s.bus.Publish(t.Context(), "test", "end", 1); err != nil {
		t.Fatal(err)
	}
	for e, _, data := w.next(); e != "events" || !strings.Contains(data, `"end"`); e, _, data = w.next() {
		if e != "gap" {
			t.Fatalf("got %s %s", e, data)
		}
	}
}

func TestTooManyStreams(t *testing.T) {
	s := open(t, nil)
	for range maxStreams {
		s.watch("/api/v1/events", "").want("hello", "")
	}
	if a, _ := s.do("HEAD", "/api/v1/events", ""); a.StatusCode != http.StatusOK || s.Clients() != maxStreams {
		t.Errorf("HEAD: %d, %d look", a.StatusCode, s.Clients())
	}
	if a, body := s.do("GET", "/api/v1/events", ""); a.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "close one") {
		t.Errorf("one more: %d %s", a.StatusCode, body)
	}
}

// However many connections others keep open, whoever comes gets in.
func TestTooManyConnections(t *testing.T) {
	s := open(t, nil)
	looks := s.watch("/api/v1/events", "")
	looks.want("hello", "")
	for range 2 * maxConns {
		s.raw("")
	}
	if a, body := s.do("POST", "/api/v1/do", "{}", bearer); a.StatusCode != http.StatusOK {
		t.Errorf("got %d %s", a.StatusCode, body)
	}
	s.conns.mu.Lock()
	n := len(s.conns.all)
	s.conns.mu.Unlock()
	if n > maxConns {
		t.Errorf("%d connections, want %d at most", n, maxConns)
	}
	if _, err := s.bus.Publish(t.Context(), "test", "a", 1); err != nil {
		t.Fatal(err)
	}
	looks.want("events", `"topic":"a"`) // who is busy is not closed
}

// A robot that is too busy to tell how it is has a page with STOP all the same.
func TestBusyRobot(t *testing.T) {
	free := make(chan struct{})
	s := open(t, func(o *Options) {
		o.Plain = func(bool) string { <-free; return "how it is" }
	})
	for range 3 {
		if a, body := s.do("GET", "/", ""); a.StatusCode != http.StatusOK || !strings.Contains(body, `action="/stop"`) || !strings.Contains(body, "busy") {
			t.Errorf("got %d %s", a.StatusCode, body)
		}
	}
	close(free)
	s.plains <- struct{}{} // when the first has come back
	<-s.plains
	if _, body := s.do("GET", "/", ""); !strings.Contains(body, "how it is") {
		t.Errorf("afterwards: %s", body)
	}
	s = open(t, func(o *Options) {
		o.Plain = func(bool) string { panic("oh") }
	})
	if a, body := s.do("GET", "/", ""); a.StatusCode != http.StatusOK || !strings.Contains(body, `action="/stop"`) {
		t.Errorf("with a fault: %d %s", a.StatusCode, body)
	}
}

// inRing is a stream in virtual time.
func inRing(t *testing.T, f func(t *testing.T, b *bus.Bus, s *stream)) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		s := newStream(b, "run")
		f(t, b, s)
		s.end()
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func flood(t *testing.T, b *bus.Bus, n int, v any) {
	t.Helper()
	for range n {
		if _, err := b.Publish(t.Context(), "test", "a/b", v); err != nil {
			t.Fatal(err)
		}
	}
}

// all gives how many events come after a number, and how many are lost.
func (s *stream) all(pos uint64) (came int, lost uint64) {
	for more := true; more; {
		var batch [][]byte
		var gone uint64
		batch, pos, gone, more, _ = s.after(pos, []string{"*"})
		came, lost = came+len(batch), lost+gone
	}
	return came, lost
}

func (s *stream) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// Everything either comes or is counted, whatever is too much: events in a
// round, events in the ring, bytes.
func TestNothingIsLostUnsaid(t *testing.T) {
	for _, x := range []struct {
		name   string
		rounds []int
		v      any
		least  int
	}{
		{"a few", []int{3, 4}, 1, 7},
		{"more than a batch", []int{600, 600}, 1, 1200},
		{"more than a round holds", []int{5000}, 1, maxPending},
		{"more than the ring holds", []int{1000, 1000, 1000}, 1, maxFrames},
		{"more bytes than the ring holds", []int{900, 900}, strings.Repeat("x", 4000), 200},
		{"long ones are cut", []int{1000}, strings.Repeat("x", 5000), 1000},
	} {
		t.Run(x.name, func(t *testing.T) {
			inRing(t, func(t *testing.T, b *bus.Bus, s *stream) {
				if ok, err := s.join(); !ok || err != nil {
					t.Fatal(ok, err)
				}
				defer s.quit()
				from, sum := b.Seq(), 0
				for _, n := range x.rounds {
					flood(t, b, n, x.v)
					sum += n
					time.Sleep(2 * round)
				}
				came, lost := s.all(from)
				if came+int(lost) != sum || came < x.least || came > maxFrames || s.size() > maxBytes {
					t.Errorf("%d came and %d are lost of %d, %d bytes are kept; want %d at least, nothing unsaid", came, lost, sum, s.size(), x.least)
				}
				if came, lost := s.all(b.Seq()); came != 0 || lost != 0 {
					t.Errorf("%d come again, %d are lost again", came, lost)
				}
			})
		})
	}
}

// broken is a payload that has no form.
type broken struct{}

func (broken) Tree() any { panic("oh") }

func TestBrokenPayload(t *testing.T) {
	s := open(t, nil)
	w := s.watch("/api/v1/events", "")
	w.want("hello", "")
	flood(t, s.bus, 1, broken{})
	w.want("events", `"topic":"a/b"}]`)
}

// Events that come one by one become one message ten times a second.
func TestCoalescing(t *testing.T) {
	inRing(t, func(t *testing.T, b *bus.Bus, s *stream) {
		if ok, err := s.join(); !ok || err != nil {
			t.Fatal(ok, err)
		}
		defer s.quit()
		wakes, pos := 0, b.Seq()
		for range 1000 { // a second of 1000 events
			flood(t, b, 1, 1)
			time.Sleep(time.Millisecond)
			batch, upto, lost, _, _ := s.after(pos, []string{"*"})
			if len(batch) > 0 {
				wakes++
			}
			if pos = upto; lost > 0 {
				t.Fatalf("%d are lost", lost)
			}
		}
		if wakes < 8 || wakes > 11 {
			t.Errorf("it was sent %d times, want about 10", wakes)
		}
	})
}

// While nobody looks the page is not on the bus, and costs no memory and no
// wakeup; who comes back within a minute gets what was missed.
func TestNobodyLooks(t *testing.T) {
	inRing(t, func(t *testing.T, b *bus.Bus, s *stream) {
		listens := func() int { return len(b.Stats().Subscriptions) }
		if n := listens(); n != 0 {
			t.Fatalf("%d listen before anybody looks", n)
		}
		if ok, err := s.join(); !ok || err != nil {
			t.Fatal(ok, err)
		}
		from := b.Seq()
		s.quit()
		flood(t, b, 10, 1)
		time.Sleep(linger / 2)
		if came, lost := s.all(from); came != 10 || lost != 0 {
			t.Errorf("who comes back gets %d, loses %d", came, lost)
		}
		time.Sleep(linger)
		if n := listens(); n != 0 || s.size() != 0 {
			t.Errorf("%d listen after everybody has left, %d bytes are kept", n, s.size())
		}
		flood(t, b, 10, 1)
		if ok, err := s.join(); !ok || err != nil {
			t.Fatal(ok, err)
		}
		defer s.quit()
		if came, lost := s.all(from); came != 0 || lost != 20 {
			t.Errorf("who comes much later gets %d, loses %d; want to be told of 20", came, lost)
		}
	})
}

// An open page costs a publisher nothing while nobody looks.
func TestNoAllocations(t *testing.T) {
	measure := func(b *bus.Bus) float64 {
		sub, err := b.Handle("a/b", bus.Queue{}, func(context.Context, bus.Event) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close()
		return testing.AllocsPerRun(1000, func() { flood(t, b, 1, int64(7)) })
	}
	plain := bus.New(bus.Options{})
	without := measure(plain)
	if err := plain.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	s := open(t, nil)
	if with := measure(s.bus); with > without {
		t.Errorf("%v allocations for an event, %v without a page", with, without)
	}
}

func ExampleLoopback() {
	fmt.Println(Loopback("127.0.0.1"), Loopback("::1"), Loopback("localhost"), Loopback("0.0.0.0"), Loopback("robot.local"))
	// Output: true true true false false
}

// Whatever is published and however slowly it is read: what comes is in order,
// comes once, and the rest is counted.
func TestReaderIsToldAll(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ops := rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 10, 499, 501, 1025}), 1, 3).Draw(rt, "events before each pause")
		reads := rapid.SliceOfN(rapid.Bool(), len(ops), len(ops)).Draw(rt, "read then")
		size := rapid.SampledFrom([]int{1, 1200, 5000}).Draw(rt, "size")
		inRing(t, func(t *testing.T, b *bus.Bus, s *stream) {
			if ok, err := s.join(); !ok || err != nil {
				rt.Fatal(ok, err)
			}
			defer s.quit()
			pos, sum, came, lost := b.Seq(), 0, 0, uint64(0)
			last := pos
			read := func() {
				for more := true; more; {
					var batch [][]byte
					var gone uint64
					batch, pos, gone, more, _ = s.after(pos, []string{"a/#"})
					lost += gone
					for _, text := range batch {
						var l control.Line
						if err := json.Unmarshal(text, &l); err != nil || l.Seq <= last {
							rt.Fatalf("after %d came %s, %v", last, text, err)
						}
						last = l.Seq
						came++
					}
				}
			}
			for i, n := range ops {
				flood(t, b, n, strings.Repeat("x", size))
				sum += n
				time.Sleep(2 * round)
				if reads[i] {
					read()
				}
			}
			if read(); came+int(lost) != sum || pos != b.Seq() {
				rt.Errorf("%d came and %d are lost of %d; at %d of %d", came, lost, sum, pos, b.Seq())
			}
		})
	})
}
