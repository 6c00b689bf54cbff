package lib_test

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"edged/blackboard"
	"edged/bus"
	"edged/starlark/lib"
)

// folder makes a robot's folder of a text in which "-- name --" begins a file.
func folder(text string) fstest.MapFS {
	m := fstest.MapFS{}
	name := ""
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "-- "); ok {
			name = strings.TrimSuffix(strings.TrimSpace(rest), " --")
			m[name] = &fstest.MapFile{}
		} else if name != "" {
			m[name].Data = append(m[name].Data, line...)
		}
	}
	return m
}

// shown is an error as it is shown to people.
func shown(err error) string {
	var e interface{ Text() string }
	if errors.As(err, &e) {
		return e.Text()
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// play runs every test function of a folder, each with a robot of its own.
func play(t *testing.T, text string) {
	t.Helper()
	playWith(t, text, lib.TestOptions{Grants: lib.Grants{All: true}})
}

func playWith(t *testing.T, text string, o lib.TestOptions) {
	t.Helper()
	o.Folder, o.Name = folder(text), "box"
	files, err := lib.Tests(o.Folder)
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests: %v", err)
	}
	for _, f := range files {
		if len(f.Funcs) == 0 {
			t.Fatalf("%s has no tests", f.Path)
		}
		for _, fn := range f.Funcs {
			t.Run(fn, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := o
					o.File, o.Func, o.Settle, o.Out = f.Path, fn, synctest.Wait, t.Output()
					if err := lib.Test(t.Context(), o); err != nil {
						t.Error("\n" + shown(err))
					}
				})
			})
		}
	}
}

// rig is a bus and a board in memory for tests in Go.
type rig struct {
	t     *testing.T
	bus   *bus.Bus
	board *blackboard.Board
	host  *lib.Host

	mu    sync.Mutex // guards heard
	heard []bus.Event
}

func newRig(t *testing.T) *rig {
	t.Helper()
	b := bus.New(bus.Options{})
	board, err := blackboard.Open(b, blackboard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, bus: b, board: board, host: &lib.Host{Name: "box", Bus: b, Board: board}}
	if _, err := b.Tap("*", func(e bus.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.heard = append(r.heard, e.Stamped())
	}); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) close() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := errors.Join(r.board.Close(), r.bus.Close(ctx)); err != nil {
		r.t.Error(err)
	}
}

// load loads main.star of a text, with everything granted.
func (r *rig) load(main string) *lib.Behaviour {
	r.t.Helper()
	b, err := r.try(main)
	if err != nil {
		r.t.Fatal("\n" + shown(err))
	}
	return b
}

func (r *rig) try(main string) (*lib.Behaviour, error) {
	return lib.Load(context.Background(), r.host, source(main), lib.Options{Grants: lib.Grants{All: true}})
}

func source(main string) fs.FS {
	return fstest.MapFS{"main.star": {Data: []byte(main)}}
}

func (r *rig) start(main string) *lib.Behaviour {
	r.t.Helper()
	b := r.load(main)
	if err := b.Start(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
	return b
}

func (r *rig) stop(b *lib.Behaviour) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := b.Stop(ctx); err != nil {
		r.t.Error(err)
	}
}

func (r *rig) publish(topic string, payload any) {
	r.t.Helper()
	if _, err := r.bus.Publish(context.Background(), "test", topic, payload); err != nil {
		r.t.Fatal(err)
	}
}

// all lists what was published.
func (r *rig) all() []bus.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.heard)
}

// payloads lists what was published on a topic.
func (r *rig) payloads(topic string) []any {
	var list []any
	for _, e := range r.all() {
		if e.Topic == topic {
			list = append(list, e.Payload())
		}
	}
	return list
}

func (r *rig) errors() string {
	var list []string
	for _, e := range r.all() {
		if e.Topic == bus.ErrorTopic {
			list = append(list, string(e.Bytes()))
		}
	}
	return strings.Join(list, "\n")
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
