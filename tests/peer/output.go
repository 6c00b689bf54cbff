package peer

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// An Output is what a program prints; it may be read meanwhile.
type Output struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// Eventually waits for something of the world outside. An idle machine needs d
// at most; a busy one has five times that.
func Eventually(t testing.TB, d time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * d); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v: not so: %s", 5*d, what)
		}
	}
}

// FreePort finds a port below those that the kernel gives to clients, so that
// it is still free when a server comes back to it.
func FreePort(t testing.TB) string {
	t.Helper()
	for range 100 {
		port := fmt.Sprint(20_000 + rand.IntN(12_000))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return ""
}
