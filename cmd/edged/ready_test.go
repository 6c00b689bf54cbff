package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"edged/bus"
	"edged/cmd/edged/internal/config"
	"edged/cmd/edged/internal/control"
	"edged/hw"
)

// TestWhatIsSaidAtTheStartIsHeard: who publishes, sets or asks in the very
// moment in which the robot first answers is heard by its scripts. Two thousand
// handlers make its start long.
func TestWhatIsSaidAtTheStartIsHeard(t *testing.T) {
	const starts = 6
	early := 0
	for range starts {
		dir := t.TempDir()
		main := `
on("bot/hello", lambda ev: bb.set("bot/heard", ev.payload))
bb.watch("bot/key", lambda key, old, new: bb.set("bot/watched", new))
echo = Agent("echo", fn = lambda task: "you said " + task)
[on("bot/%d" % i, lambda ev: None) for i in range(2000)]
`
		if err := os.WriteFile(filepath.Join(dir, "main.star"), []byte(main), 0o600); err != nil {
			t.Fatal(err)
		}
		settings := map[string]string{"mqtt.listen": "off", "page.listen": "off", "name": "bot", "log": "off"}
		cfg, err := config.Load(dir, nil, settings)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- Run(ctx, runOptions{cfg: cfg, settings: settings, sim: true, out: io.Discard, lines: func(*robot) []string { return nil }})
		}()
		within, over := context.WithTimeout(ctx, time.Minute)
		var c *control.Client
		for c == nil && within.Err() == nil {
			c, _ = control.Dial(filepath.Join(dataDir(cfg), socketName))
		}
		if c == nil {
			t.Fatalf("no socket: %v", within.Err())
		}
		var st status
		if err := c.Call(within, control.Status, nil, &st); err != nil {
			t.Fatal(err)
		}
		if st.Mode == "starting" {
			early++
		}
		if err := c.Call(within, "pub", pubRequest{Topic: "bot/hello", Payload: json.RawMessage("1")}, nil); err != nil {
			t.Fatal(err)
		}
		if err := c.Call(within, "bb", bbRequest{Op: "set", Key: "bot/key", Value: json.RawMessage("2")}, nil); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"bot/heard", "bot/watched"} {
			for within.Err() == nil {
				if c.Call(within, "bb", bbRequest{Op: "get", Key: key}, nil) == nil {
					break
				}
			}
			if within.Err() != nil {
				t.Errorf("%s: what was said when the robot answered was not heard", key)
			}
		}
		over()
		c.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d of %d starts were caught while it was starting", early, starts)
}

// Before the scripts listen nothing that is said goes out; a stop does.
func TestNobodySpeaksBeforeTheScriptsListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &robot{bus: bus.New(bus.Options{}), ready: make(chan struct{})}
		defer r.bus.Close(t.Context())
		var told []string
		if _, err := r.bus.Tap("#", func(e bus.Event) { told = append(told, e.Topic) }); err != nil {
			t.Fatal(err)
		}
		var done sync.Map
		call := func(name string, do control.Handler, with any) {
			text, err := json.Marshal(with)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				if err := do(t.Context(), text, func(any) error { return nil }); err != nil {
					t.Error(err)
				}
				done.Store(name, true)
			}()
			synctest.Wait()
		}
		call("pub", r.handlePub, pubRequest{Topic: "bot/hello"})
		called := false
		call("other", r.afterReady(func(context.Context, json.RawMessage, func(any) error) error { called = true; return nil }), nil)
		call("stop", r.handlePub, pubRequest{Topic: hw.StopTopic})
		_, early := done.Load("pub")
		_, stopped := done.Load("stop")
		if len(told) != 1 || told[0] != hw.StopTopic || called || early || !stopped {
			t.Errorf("before the scripts listen %v was told, called %v; want the stop alone", told, called)
		}
		if err := r.health(t.Context()); err == nil {
			t.Error("it calls itself healthy")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.handlePub(ctx, json.RawMessage(`{"topic":"bot/hello"}`), nil); err == nil {
			t.Error("who left got no error")
		}
		close(r.ready)
		synctest.Wait()
		if len(told) != 2 || told[1] != "bot/hello" || !called {
			t.Errorf("afterwards %v was told, called %v; want both", told, called)
		}
	})
}
