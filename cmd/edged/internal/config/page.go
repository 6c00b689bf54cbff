package config

import (
	"fmt"
	"net"
	"os"
)

// checkPage refuses a page that others could reach without TLS.
func (c *Config) checkPage() error {
	p := c.Page
	if p.Listen == "off" {
		return nil
	}
	host, _, err := net.SplitHostPort(p.Listen)
	if err != nil {
		return &Error{Where: c.where("page.listen"), Msg: fmt.Sprintf("page.listen is %q, not host:port", p.Listen), Hint: `write "127.0.0.1:7878", or "off"`}
	}
	if (p.Cert == "") != (p.Key == "") {
		return &Error{Where: c.where("page.cert"), Msg: "page.cert and page.key go together"}
	}
	ip := net.ParseIP(host)
	if local := host == "localhost" || ip != nil && ip.IsLoopback(); !local && p.Cert == "" {
		return &Error{
			Where: c.where("page.listen"), Msg: fmt.Sprintf("page.listen %q can be reached from outside, where everybody could read the token", p.Listen),
			Hint: "set page.cert and page.key, or listen on 127.0.0.1 and come by ssh -L 7878:127.0.0.1:7878",
		}
	}
	if p.Key != "" {
		if st, err := os.Stat(c.Path(p.Key)); err == nil && st.Mode().Perm()&0o077 != 0 {
			return &Error{Where: c.where("page.key"), Msg: fmt.Sprintf("others may read %s", c.Path(p.Key)), Hint: "chmod 600 it"}
		}
	}
	return nil
}
