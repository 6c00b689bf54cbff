package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
)

// A Client is a connection to a running robot. It asks one thing at a time.
type Client struct {
	c     net.Conn
	lines *bufio.Scanner
}

// Dial connects to the socket at path.
func Dial(path string) (*Client, error) {
	c, err := dial(path)
	if err != nil {
		return nil, fmt.Errorf("control: nobody answers at %s: %w", path, errors.Unwrap(err))
	}
	lines := bufio.NewScanner(c)
	lines.Buffer(make([]byte, 0, 4096), MaxLine)
	return &Client{c, lines}, nil
}

// Close ends the connection, and with it what it asked for.
func (c *Client) Close() error { return c.c.Close() }

// Stream asks for something and calls each for every piece of the answer,
// until it is over, ctx ends (nil then) or each gives an error.
func (c *Client) Stream(ctx context.Context, do string, with any, each func(json.RawMessage) error) error {
	stop := context.AfterFunc(ctx, func() { c.c.Close() })
	defer stop()
	b, err := json.Marshal(with)
	if err != nil {
		return err
	}
	line, err := json.Marshal(request{Do: do, With: b})
	if err != nil {
		return err
	}
	if _, err := c.c.Write(append(line, '\n')); err != nil {
		return gone(ctx, err)
	}
	for c.lines.Scan() {
		var r reply
		if err := json.Unmarshal(c.lines.Bytes(), &r); err != nil {
			return fmt.Errorf("control: %w", err)
		}
		switch {
		case r.Error != nil:
			return r.Error
		case r.Done:
			return nil
		}
		if err := each(r.Data); err != nil {
			return err
		}
	}
	err = c.lines.Err()
	if err == nil {
		err = io.EOF
	}
	return gone(ctx, err)
}

// Take asks for a stream and gives the connection, which is the caller's from
// then on; the client is of no more use but to be closed.
func (c *Client) Take(do string, with any) (net.Conn, error) {
	b, err := json.Marshal(with)
	if err != nil {
		return nil, err
	}
	line, err := json.Marshal(request{Do: do, With: b})
	if err != nil {
		return nil, err
	}
	if _, err := c.c.Write(append(line, '\n')); err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	if !c.lines.Scan() {
		return nil, gone(context.Background(), errors.Join(c.lines.Err(), io.EOF))
	}
	var r reply
	if err := json.Unmarshal(c.lines.Bytes(), &r); err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	if r.Error != nil {
		return nil, r.Error
	}
	return c.c, nil
}

func gone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return errors.New("control: the robot ended the connection")
	}
	return fmt.Errorf("control: %w", err)
}

// Call asks for something and decodes the last piece of the answer into out,
// which may be nil.
func (c *Client) Call(ctx context.Context, do string, with, out any) error {
	err := c.Stream(ctx, do, with, func(b json.RawMessage) error {
		if out == nil {
			return nil
		}
		return json.Unmarshal(b, out)
	})
	if err == nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func dial(path string) (c net.Conn, err error) {
	err = within(path, func(short string) error {
		c, err = net.DialUnix("unix", nil, &net.UnixAddr{Name: short, Net: "unix"})
		return err
	})
	return c, err
}

// within calls f with a name for path that fits a socket address, which the
// system limits to 107 bytes.
func within(path string, f func(short string) error) error {
	if len(path) < 104 {
		return f(path)
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	return f(fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), filepath.Base(path)))
}
