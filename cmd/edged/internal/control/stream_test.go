package control

import (
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"testing"
)

// A stream has the connection to itself, from the first byte after its request.
func TestStream(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s, err := Listen(path, map[string]Handler{"status": func(_ context.Context, _ json.RawMessage, send func(any) error) error { return send("up") }})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	s.Take("echo", func(_ context.Context, with json.RawMessage, c io.ReadWriteCloser) error {
		if string(with) != `"hello"` {
			t.Errorf("asked with %s", with)
		}
		_, err := io.Copy(c, c)
		ended <- err
		return err
	})
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- s.Serve(ctx) }()
	defer func() {
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	}()
	cl, err := Dial(path)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var up string
	if err := cl.Call(ctx, "status", nil, &up); err != nil || up != "up" {
		t.Fatalf("status: %q, %v", up, err)
	}
	c, err := cl.Take("echo", "hello")
	if err != nil {
		t.Fatal(err)
	}
	want := "no json\n\x00"
	if _, err := io.WriteString(c, want); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	c.Close()
	if err := <-ended; err != nil {
		t.Errorf("the stream ended with %v", err)
	}
	other, err := Dial(path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Take("ecko", nil); err == nil {
		t.Error("a stream that nobody has was taken")
	}
}

// The end of the server ends its streams.
func TestStreamEndsWithServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s, err := Listen(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Take("wait", func(_ context.Context, _ json.RawMessage, c io.ReadWriteCloser) error {
		_, err := io.ReadAll(c)
		return err
	})
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- s.Serve(ctx) }()
	cl, err := Dial(path)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := cl.Take("wait", nil); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-over; err != nil {
		t.Error(err)
	}
}
