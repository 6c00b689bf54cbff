package web

import (
	"net"
	"net/http"
	"sync"
)

// conns are the connections there are. When there are too many, the one that
// has waited longest is closed for the new one: whoever wants to stop the robot
// gets in, however many others keep their connections open.
type conns struct {
	mu   sync.Mutex // guards the rest
	all  map[net.Conn]bool
	wait []net.Conn // that have no request under way, the longest waiting first
}

func (c *conns) note(one net.Conn, state http.ConnState) {
	if out := c.change(one, state); out != nil {
		_ = out.Close() // the client sees it
	}
}

// change gives the connection that has to go, if one has to.
func (c *conns) change(one net.Conn, state http.ConnState) (out net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, w := range c.wait {
		if w == one {
			c.wait = append(c.wait[:i], c.wait[i+1:]...)
			break
		}
	}
	switch state {
	case http.StateNew:
		if c.all == nil {
			c.all = map[net.Conn]bool{}
		}
		c.all[one] = true
		c.wait = append(c.wait, one)
		if len(c.all) > maxConns {
			out = c.wait[0] // itself, if all others are busy
			c.wait = c.wait[1:]
			delete(c.all, out)
		}
	case http.StateIdle:
		if c.all[one] {
			c.wait = append(c.wait, one)
		}
	case http.StateClosed, http.StateHijacked:
		delete(c.all, one)
	}
	return out
}
