// Package wire is what the clients of model servers share: requests of JSON,
// answers in lines, and plain words for what goes wrong on the way.
//
// Its one rule: nothing a server sends is taken on trust. Lines, bodies and
// error texts have a limit, no server sends a request on to another one, and
// every failure becomes one of the sentinels of package llm or the context's own
// error, without the key that a server may have put into its words.
//
//	c := wire.New("ollama", "http://127.0.0.1:11434", wire.Options{})
//	var v struct{ Version string }
//	err := c.JSON(ctx, "GET", "/api/version", nil, &v)
package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"edged/agent/llm"
)

const (
	connectTime = 5 * time.Second // a host that doesn't answer is down
	maxError    = 8 << 10         // of an error's body, bytes
	maxBody     = 32 << 20        // of an answer in one piece: embeddings, lists
)

// Options of a client; the zero value works.
type Options struct {
	Header    http.Header       // sent with every request
	Secret    string            // in the header, and in no error
	Transport http.RoundTripper // nil: TCP, with http_proxy and its kin of the environment
}

// A Client talks to one server. It may be used concurrently and keeps no
// connection to a plain http server between requests, so that a server that
// was restarted is as good as any. Close ends what is kept of https.
type Client struct {
	name   string // in front of errors
	base   string
	http   *http.Client
	own    *http.Transport
	hidden *strings.Replacer // takes what the header keeps secret out of a text
}

// HTTP is the client of a server that was named: it sends these headers with
// every request, and asks nobody else. A server that sends a request on to
// another address has failed: a prompt and a key would go along to whoever it
// names.
func HTTP(header http.Header, t http.RoundTripper) *http.Client {
	return &http.Client{Transport: named{header, t}}
}

// named adds headers to requests and follows no redirection.
type named struct {
	header http.Header
	to     http.RoundTripper
}

func (n named) RoundTrip(r *http.Request) (*http.Response, error) {
	if len(n.header) > 0 {
		r = r.Clone(r.Context())
		for k, v := range n.header {
			r.Header[k] = v
		}
	}
	resp, err := n.to.RoundTrip(r)
	if err != nil || resp.StatusCode/100 != 3 || resp.StatusCode == http.StatusNotModified {
		return resp, err
	}
	_ = resp.Body.Close()
	to := "another address"
	if u, err := r.URL.Parse(resp.Header.Get("Location")); err == nil && u.Host != "" {
		to = Excerpt(u.Scheme+"://"+u.Host+u.EscapedPath(), 120)
	}
	return nil, fmt.Errorf("it sends requests on to %s, which nobody named and which is not asked: if that is the server, write its address", to)
}

// Hide takes secrets out of a text: a server may put into its words what it was
// sent.
func Hide(secrets ...string) *strings.Replacer {
	var pairs []string
	for _, s := range secrets {
		if len(s) > 3 { // else it is everywhere
			pairs = append(pairs, s, "***")
		}
	}
	return strings.NewReplacer(pairs...)
}

// New makes a client of the server at a base URL; no connection is made yet.
func New(name, base string, o Options) *Client {
	c := &Client{name: name, base: strings.TrimRight(base, "/")}
	if o.Transport == nil {
		c.own = &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: connectTime}).DialContext,
			TLSHandshakeTimeout: connectTime,
			DisableCompression:  true,
			DisableKeepAlives:   !strings.HasPrefix(c.base, "https:"),
			IdleConnTimeout:     30 * time.Second,
		}
		o.Transport = c.own
	}
	c.http, c.hidden = HTTP(o.Header, o.Transport), Hide(o.Secret)
	return c
}

// Base gives the server's address, without a slash at the end.
func (c *Client) Base() string { return c.base }

// Close ends idle connections.
func (c *Client) Close() {
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
}

// Do sends in as JSON (nil: no body) and gives the response if its status is
// 2xx; the caller closes its body. Closing, or the end of ctx, closes the
// connection, by which a model server stops generating.
func (c *Client) Do(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", c.name, llm.ErrDown, err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.Broken(ctx, err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
	if ctx.Err() != nil {
		return nil, c.Broken(ctx, err)
	}
	return nil, c.Refused(resp.StatusCode, ErrorText(text, resp.StatusCode))
}

// JSON sends in and decodes the answer into out, if it isn't nil.
func (c *Client) JSON(ctx context.Context, method, path string, in, out any) error {
	resp, err := c.Do(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return c.Broken(ctx, err)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("%s: %w: its answer to %s is not understood: %w", c.name, llm.ErrServer, path, err)
	}
	return nil
}

// Broken makes an error of a connection that was not made or broke: the
// context's, if it ended, else ErrDown, or ErrServer if somebody is there who
// doesn't speak HTTP.
func (c *Client) Broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", c.name, ctx.Err())
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var op net.Error
	if errors.As(err, &op) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("%s: %w: %w", c.name, llm.ErrDown, err)
	}
	return fmt.Errorf("%s: %w: %w", c.name, llm.ErrServer, err)
}

// Refused makes an error of what a server said instead of an answer. Status
// is 0 for what it said in mid-stream.
func (c *Client) Refused(status int, text string) error {
	return fmt.Errorf("%s: %w: %s", c.name, Classify(status, text), c.hidden.Replace(text))
}
