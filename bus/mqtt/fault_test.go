package mqtt_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"edged/bus"
	"edged/bus/mqtt"
	"edged/tests/peer"
)

// (a) and (b): 1,000 messages a second at QoS 1, the broker stopped for 30 s,
// the robot killed while it is.
func TestOutageAndKill(t *testing.T) {
	t.Parallel()
	m := startMosquitto(t, "")
	c := collect(t, m.URL(), "n/#", 1)
	dir := t.TempDir()
	robot := startChild(t, dir, m.URL(), 1000)
	peer.Eventually(t, 20*time.Second, "2,000 arrived", func() bool { return c.len() > 2000 })
	m.Stop(syscall.SIGTERM)
	at := noted(dir)
	peer.Eventually(t, 60*time.Second, "half the outage", func() bool { return noted(dir) > at+15_000 })
	_ = robot.Process.Kill()
	_ = robot.Wait()
	robot = startChild(t, dir, m.URL(), 1000)
	peer.Eventually(t, 60*time.Second, "the outage", func() bool { return noted(dir) > at+30_000 })
	m.Start()
	peer.Eventually(t, 60*time.Second, "2,000 more", func() bool { return noted(dir) > at+32_000 })
	finish(t, dir, robot.Wait)
	n := noted(dir)
	peer.Eventually(t, 30*time.Second, "all arrived", func() bool { return int64(c.len()) >= n && c.distinct() >= n })
	if dup := c.numbers(t, n); dup > 200 {
		t.Errorf("got %d duplicates, want at most 200", dup)
	}
}

func finish(t *testing.T, dir string, wait func() error) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "enough"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := wait(); err != nil {
		t.Fatal(err)
	}
}

// (b) again, at random moments with the broker there.
func TestKillAtRandom(t *testing.T) {
	t.Parallel()
	m := startMosquitto(t, "")
	c := collect(t, m.URL(), "n/#", 1)
	dir := t.TempDir()
	for range 8 {
		at := noted(dir)
		robot := startChild(t, dir, m.URL(), 1000)
		more := 50 + rand.Int64N(700)
		peer.Eventually(t, 30*time.Second, "some were taken", func() bool { return noted(dir) > at+more })
		_ = robot.Process.Kill()
		_ = robot.Wait()
	}
	finish(t, dir, startChild(t, dir, m.URL(), 1000).Wait)
	n := noted(dir)
	peer.Eventually(t, 30*time.Second, "all arrived", func() bool { return int64(c.len()) >= n && c.distinct() >= n })
	c.numbers(t, n)
}

// slow says that there is time for the real thing: make slow.
func slow() bool { return os.Getenv("EDGED_SLOW") != "" }

// (c) an outage of 120 s at 1,000 messages a second, an outbox for 50,000:
// exactly what the policy says is missing. In a hurry they come as fast as they
// can.
func TestOverflow(t *testing.T) {
	t.Parallel()
	const n, limit, topics = 120_000, 50_000, 50
	for _, tc := range []struct {
		name     string
		overflow bus.Overflow
		first    int
	}{{"drop_oldest", bus.DropOldest, n - limit + 1}, {"drop_new", bus.DropNew, 1}} {
		t.Run(tc.name, func(t *testing.T) {
			m := peer.NewMosquitto(t, "")
			if slow() {
				t.Parallel()
			}
			r := newRobot(t, mqtt.Options{URL: m.URL(), ClientID: "full", Limit: limit, Bytes: 64 << 20, Overflow: tc.overflow,
				Mapping: mqtt.Mapping{Publish: []mqtt.Route{{Filter: "n/#", QoS: 1}}}})
			i := 0
			say := func() {
				i++
				r.say(t, fmt.Sprint("n/", i%topics), i)
			}
			if slow() {
				tick(n*time.Millisecond, func() {
					if i < n {
						say()
					}
				})
			}
			for i < n {
				say()
			}
			peer.Eventually(t, 60*time.Second, "all were taken or dropped", func() bool {
				st := r.br.Stats()
				return st.Waiting == limit && st.DropOldest+st.DropNew == n-limit
			})
			m.Start()
			c := collect(t, m.URL(), "n/#", 1)
			peer.Eventually(t, 60*time.Second, "all arrived", func() bool { return c.len() >= limit })
			seen := map[string]bool{}
			for _, g := range c.all() {
				seen[g.payload] = true
			}
			for i := 1; i <= n; i++ {
				if got, want := seen[fmt.Sprint(i)], i >= tc.first && i < tc.first+limit; got != want {
					t.Fatalf("%d arrived: got %v, want %v", i, got, want)
				}
			}
		})
	}
}

// proxy stands before the broker and can be cut.
type proxy struct {
	addr, to string
	mu       sync.Mutex
	l        net.Listener
	conns    []net.Conn
}

func newProxy(t *testing.T, to string) *proxy {
	p := &proxy{addr: "127.0.0.1:" + peer.FreePort(t), to: to}
	t.Cleanup(p.cut)
	p.open(t)
	return p
}

func (p *proxy) open(t *testing.T) {
	var l net.Listener
	peer.Eventually(t, 10*time.Second, "the proxy listens again", func() (ok bool) { // a fork may hold the old socket for a moment
		var err error
		l, err = net.Listen("tcp", p.addr)
		return err == nil
	})
	p.mu.Lock()
	p.l = l
	p.mu.Unlock()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", p.to)
			if err != nil {
				c.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, c, s)
			p.mu.Unlock()
			go pipe(c, s)
			go pipe(s, c)
		}
	}()
}

func pipe(a, b net.Conn) {
	_, _ = io.Copy(a, b)
	a.Close()
	b.Close()
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.l.Close()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

// (d) twenty times up for 200 ms and gone for 200 ms.
func TestFlapping(t *testing.T) {
	t.Parallel()
	m := startMosquitto(t, "")
	p := newProxy(t, "127.0.0.1:"+m.Port)
	c := collect(t, m.URL(), "n/#", 1)
	r := newRobot(t, mqtt.Options{URL: "tcp://" + p.addr, ClientID: "flap", MaxBackoff: 8 * time.Second,
		Mapping: mqtt.Mapping{Publish: []mqtt.Route{{Filter: "n/#", QoS: 1}}}}).connected(t)
	begin, n := time.Now(), 0
	for range 20 {
		p.cut()
		tick(200*time.Millisecond, func() { n++; r.say(t, "n/x", n) })
		p.open(t)
		tick(200*time.Millisecond, func() { n++; r.say(t, "n/x", n) })
	}
	if a, most := r.br.Stats().Attempts, uint64(time.Since(begin).Seconds())+2; a > most {
		t.Errorf("got %d attempts in %v, want at most %d", a, time.Since(begin), most)
	}
	peer.Eventually(t, 30*time.Second, "all arrived", func() bool { return c.len() >= n && c.distinct() >= int64(n) })
	c.numbers(t, int64(n))
}

// tick calls f every millisecond for a while.
func tick(d time.Duration, f func()) {
	tk := time.NewTicker(time.Millisecond)
	defer tk.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); <-tk.C {
		f()
	}
}

// villain is a broker that accepts everyone and then does what the test says.
func villain(t *testing.T, then func(net.Conn)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 4096)
				if _, err := c.Read(b); err != nil { // CONNECT
					return
				}
				_, _ = c.Write([]byte{0x20, 2, 0, 0})
				n, err := c.Read(b) // SUBSCRIBE
				if err != nil || n < 4 || b[0] != 0x82 {
					return
				}
				_, _ = c.Write([]byte{0x90, 3, b[2], b[3], 1})
				then(c)
				_, _ = io.Copy(io.Discard, c)
			}()
		}
	}()
	return "tcp://" + l.Addr().String()
}

func memory() (rss, heap int64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if b, err := os.ReadFile("/proc/self/statm"); err == nil {
		var size, pages int64
		_, _ = fmt.Sscan(string(b), &size, &pages)
		rss = pages * int64(os.Getpagesize())
	}
	return rss, int64(m.HeapSys)
}

// (e) a header that announces 256 MB. Not parallel: it measures memory.
func TestHugePacket(t *testing.T) {
	header := []byte{0x32, 0xff, 0xff, 0xff, 0x7f, 0, 3, 'b', 'i', 'g', 0, 7}
	for _, body := range []int{0, 64 << 10, 1<<28 - 1 - 7} {
		t.Run(fmt.Sprint(body), func(t *testing.T) {
			rest := []byte{0x30, 6, 0, 3, 'e', 'n', 'd', '1'}
			sent := make(chan bool)
			url := villain(t, func(c net.Conn) {
				_, _ = c.Write(header)
				chunk := make([]byte, 64<<10)
				for left := body; left > 0; left -= len(chunk) {
					if _, err := c.Write(chunk[:min(left, len(chunk))]); err != nil {
						return
					}
				}
				close(sent)
				_, _ = c.Write(rest)
			})
			rss, heap := memory()
			r := newRobot(t, mqtt.Options{URL: url, ClientID: "huge", Mapping: mqtt.Mapping{Subscribe: []mqtt.Route{{Filter: "#", QoS: 1}}}})
			end := r.hear(t, "end")
			select {
			case <-sent:
			case <-time.After(60 * time.Second):
				t.Fatal("the body was not taken")
			}
			if body > 1<<20 { // the packet is over: the next one counts
				end.wait(t, 1)
				if st := r.br.Stats(); st.TooLarge != 1 || !st.Connected {
					t.Errorf("got %d too large, connected %v, want 1, true", st.TooLarge, st.Connected)
				}
			}
			rss2, heap2 := memory()
			if rss2-rss > slack*4<<20 || heap2-heap > 4<<20 {
				t.Errorf("memory grew by %d kB, heap by %d kB, want less than 4 MB", (rss2-rss)>>10, (heap2-heap)>>10)
			}
		})
	}
}

// (f) a handler that is stuck for 60 s: the connection stays, the others hear.
func TestStuckHandler(t *testing.T) {
	t.Parallel()
	const stuck = time.Minute
	m := startMosquitto(t, "")
	r := newRobot(t, mqtt.Options{URL: m.URL(), ClientID: "stuck", KeepAlive: 5 * time.Second, Timeout: 5 * time.Second,
		Mapping: mqtt.Mapping{Subscribe: []mqtt.Route{{Filter: "#", QoS: 1}}}}).connected(t)
	free := make(chan struct{})
	s, err := r.Handle("slow/#", bus.Queue{Limit: 8}, func(context.Context, bus.Event) error { <-free; return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer close(free)
	other := r.hear(t, "quick")
	n := 0
	tk := time.NewTicker(250 * time.Millisecond)
	defer tk.Stop()
	for end := time.Now().Add(stuck); time.Now().Before(end); <-tk.C {
		peer.Pub(t, m.Port, "-t", "slow/x", "-m", "1", "-q", "1")
		peer.Pub(t, m.Port, "-t", "quick", "-m", "1", "-q", "1")
		n++
		other.wait(t, n)
	}
	if st := r.br.Stats(); st.Attempts != 1 || !st.Connected {
		t.Errorf("got %d connections, connected %v, want 1, true", st.Attempts, st.Connected)
	}
	if got, want := s.Dropped(), uint64(n-8-1); got != want {
		t.Errorf("got %d dropped by the stuck handler's queue, want %d", got, want)
	}
}

// (g) the disk is full while the broker is away.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	m := peer.NewMosquitto(t, "")
	box, err := openLog(filepath.Join(t.TempDir(), "outbox"))
	if err != nil {
		t.Fatal(err)
	}
	r := newRobot(t, mqtt.Options{URL: m.URL(), ClientID: "full-disk", Outbox: box,
		Mapping: mqtt.Mapping{Publish: []mqtt.Route{{Filter: "n/#", QoS: 1}}}})
	errs := r.hear(t, "edged/error")
	for i := 1; i <= 300; i++ {
		r.say(t, "n/x", i)
		if i%100 == 0 {
			peer.Eventually(t, 10*time.Second, "all were taken", func() bool { return r.br.Stats().Waiting == i })
			box.setFail(map[int]error{100: syscall.ENOSPC}[i])
		}
	}
	if got := r.br.Stats().Unstored; got != 100 {
		t.Errorf("got %d not stored, want 100", got)
	}
	if e := errs.wait(t, 1); len(e) != 1 || !strings.Contains(fmt.Sprint(e[0].Payload()), "no space left") {
		t.Errorf("got reports %v, want one about the disk", e)
	}
	m.Start()
	c := collect(t, m.URL(), "n/#", 1)
	peer.Eventually(t, 30*time.Second, "all arrived", func() bool { return c.len() >= 300 })
	c.numbers(t, 300)
	peer.Eventually(t, 10*time.Second, "the outbox is empty", func() bool { return box.Len() == 0 })
}
