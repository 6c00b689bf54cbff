package config

import (
	"fmt"
	"strings"
)

// checkModels verifies the table [models] and the words that stop.
func (c *Config) checkModels() error {
	m := c.Models
	for _, n := range []struct {
		key    string
		v      int64
		lo, hi int64
	}{
		{"models.num_ctx", m.Context, 256, 1 << 20},
		{"models.num_predict", m.Predict, 1, 1 << 20},
		{"models.num_thread", m.Threads, 0, 1024},
		{"models.in_flight", m.InFlight, 1, 64},
		{"models.queue", m.Queue, 1, 10_000},
	} {
		if n.v < n.lo || n.v > n.hi {
			return &Error{Where: c.where(n.key), Msg: fmt.Sprintf("%s is %d", n.key, n.v), Hint: fmt.Sprintf("use %d to %d", n.lo, n.hi)}
		}
	}
	if m.KeepAlive < 0 {
		return &Error{Where: c.where("models.keep_alive"), Msg: "models.keep_alive is negative", Hint: `"0s" keeps models for ever`}
	}
	for host, file := range m.Keys {
		if strings.Contains(host, "/") || host == "" || file == "" {
			return &Error{Where: c.where("models.keys"), Msg: fmt.Sprintf("%q = %q", host, file), Hint: `write the server's host and a file: "api.example.com" = "key.txt"`}
		}
	}
	return nil
}
