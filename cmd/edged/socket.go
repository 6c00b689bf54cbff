package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"edged/cmd/edged/internal/control"
	"edged/starlark/lib"
)

// Who may talk to a running robot: the socket, signals, the space bar, the
// editor that saves a file.

// socket is the server while it runs.
type socket struct {
	server *control.Server
	forget func()
	cancel context.CancelFunc
	done   chan struct{}
}

func (r *robot) handlers() map[string]control.Handler {
	return map[string]control.Handler{
		control.Stop: r.handleStop, control.Resume: r.handleResume, "reload": r.afterReady(r.handleReload),
		control.Status: r.handleStatus, "inspect": r.handleInspect,
		"pub": r.handlePub, "sub": r.handleSub, "bb": r.afterReady(r.handleBB),
		"ask": r.handleAsk, "confirm": r.handleConfirm, "answer": r.handleAnswer, "record": r.handleRecord,
		"trace": r.handleTrace, "snapshot": r.handleSnapshot, "graph": r.handleGraph, "runs": r.afterReady(r.handleRuns), "why": r.handleWhy, "page": r.handlePage, "backup": r.handleBackup,
		"eval": r.afterReady(evalHandler(func() *lib.Behaviour {
			b, _ := r.scripts.behaviour()
			return b
		})),
	}
}

// openSocket opens the socket and the page.
func (r *robot) openSocket() error {
	server, err := control.Listen(filepath.Join(dataDir(r.cfg), socketName), r.handlers())
	if err != nil {
		return err
	}
	server.Take("mcp", r.streamMCP)
	dir, err := filepath.Abs(r.cfg.Dir())
	if err != nil {
		dir = r.cfg.Dir()
	}
	path, err := filepath.Abs(server.Path())
	if err != nil {
		path = server.Path()
	}
	forget, err := control.Announce(control.Instance{Name: r.cfg.Name, Dir: dir, Socket: path, PID: os.Getpid()})
	if err != nil { // it can still be reached from its folder
		r.log.Warn("other folders won't find this robot", "err", err)
		forget = func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &socket{server, forget, cancel, make(chan struct{})}
	r.control = s
	r.openPage()
	go func() {
		defer close(s.done)
		if err := server.Serve(ctx); err != nil {
			r.log.Error("socket", "err", err)
		}
	}()
	return nil
}

func (r *robot) closeSocket() {
	r.closePage()
	r.control.forget()
	r.control.cancel()
	<-r.control.done
}

// listen takes signals, the space bar and edits until ctx ends; the returned
// function gives the terminal back.
func (r *robot) listen(ctx context.Context) (restore func()) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGHUP)
	go func() {
		defer signal.Stop(signals)
		for {
			select {
			case s := <-signals:
				if s == syscall.SIGUSR1 {
					r.rig.Trip(ctx, "signal", "SIGUSR1")
					continue
				}
				r.refresh(ctx, "signal")
			case <-ctx.Done():
				return
			}
		}
	}()
	err := watchFolder(ctx, r.cfg.Dir(), func(still time.Duration) time.Duration { return r.edited(ctx, still) })
	if err != nil {
		r.log.Warn("edits are not noticed; use 'edged reload'", "err", err)
	}
	restore = func() {}
	if r.keys != nil {
		if undo, ok := onKeys(ctx, r.keys, func(key byte) { r.pressed(ctx, key) }); ok {
			restore = undo
			r.persons.atTerminal(func(q question) {
				fmt.Fprintf(r.out, "%s: press y to allow it, n to refuse, within %v\n", q, confirmTime)
			}, func(q inquiry) {
				how := ""
				if len(q.Options) > 0 {
					how = ", or its first letter here"
				}
				fmt.Fprintf(r.out, "%s (%s): 'edged answer %s TEXT'%s\n", q, q.wait(), q.ID, how)
			})
		}
	}
	return restore
}

// pressed is a key in the robot's terminal: the space bar stops it, others
// answer the one question that is open.
func (r *robot) pressed(ctx context.Context, key byte) {
	switch key {
	case ' ':
		_, stopped := r.rig.Stopped()
		r.rig.Trip(ctx, "keyboard", "space bar")
		if !stopped { // a key that is held down says it once
			fmt.Fprintln(r.out, "stopped; 'edged resume' goes on")
		}
	default:
		if said, ok := r.persons.key(key); ok {
			fmt.Fprintln(r.out, said)
		}
	}
}

// lockedWriter lets several goroutines print whole lines.
type lockedWriter struct {
	mu sync.Mutex // guards w
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// edited is told that files in the folder were edited and have been still for a
// time. What looks like a file that is being written is given longer; a file
// that stays empty is no version that somebody wants to run by saving it.
func (r *robot) edited(ctx context.Context, still time.Duration) (again time.Duration) {
	file, empty := r.scripts.halfWritten()
	switch {
	case file != "" && still < halfWritten:
		return halfWritten - still
	case empty:
		r.scripts.refuse(ctx, fmt.Errorf("%s is empty; if it is to be, 'edged reload' loads it", file))
		fmt.Fprintf(r.out, "%s is empty; if it is to be, 'edged reload' loads it\nthe old version goes on\n", file)
	default:
		r.refresh(ctx, "edit")
	}
	return 0
}

// refresh reloads and tells whoever sees the robot's output.
func (r *robot) refresh(ctx context.Context, why string) {
	began := time.Now()
	b, err := r.scripts.reload(ctx, why)
	switch {
	case errors.Is(err, errUnchanged):
	case err != nil:
		fmt.Fprintf(r.out, "%s\nthe old version goes on\n", strings.TrimPrefix(text(err), "edged: "))
	default:
		fmt.Fprintf(r.out, "reloaded %s %.8s in %d ms\n", b.Folder(), b.Hash(), time.Since(began).Milliseconds())
	}
}

// stopRequest is who stops and why.
type stopRequest struct {
	Reason string `json:"reason,omitempty"`
}

// handleStop goes straight to the rig.
func (r *robot) handleStop(ctx context.Context, with json.RawMessage, send func(any) error) error {
	began := time.Now()
	q := stopRequest{Reason: "edged stop"}
	_ = json.Unmarshal(with, &q) // a stop that is badly asked for is a stop
	if q.Reason == "" {
		q.Reason = "edged stop"
	}
	err := r.rig.Stop(context.WithoutCancel(ctx), control.Who(ctx), q.Reason)
	out := map[string]any{"stopped": true, "ms": float64(time.Since(began).Microseconds()) / 1000}
	if err != nil {
		out["error"] = err.Error()
	}
	return send(out)
}

func (r *robot) handleResume(ctx context.Context, _ json.RawMessage, send func(any) error) error {
	record, was := r.rig.Stopped()
	if err := r.rig.Resume(ctx, control.Who(ctx)); err != nil {
		return err
	}
	return send(map[string]any{"was_stopped": was, "by": record.Source, "reason": record.Reason})
}

func (r *robot) handleReload(ctx context.Context, _ json.RawMessage, send func(any) error) error {
	b, err := r.scripts.reload(context.WithoutCancel(ctx), control.Who(ctx))
	if err != nil && !errors.Is(err, errUnchanged) {
		return err
	}
	return send(map[string]any{"hash": b.Hash(), "unchanged": err != nil})
}
