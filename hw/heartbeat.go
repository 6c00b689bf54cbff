package hw

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"edged/bus"
)

// A Probe returns nil once what it looks at has done a bit of work. One that
// does not return is what a watchdog is for.
type Probe func(ctx context.Context) error

// A Heartbeat feeds systemd's watchdog, and only while everything advances:
// every probe has returned since the last beat. If one hangs or fails, no beat
// is sent and systemd restarts the process after WatchdogSec. It is a service.
type Heartbeat struct {
	Probes map[string]Probe // by what they look at: "actuators", "bus", "tree"
	Socket string           // $NOTIFY_SOCKET; empty: Serve waits for ctx and does nothing
	Every  time.Duration    // half of $WATCHDOG_USEC; 0: Serve says READY and STOPPING, no more
	Log    *slog.Logger
}

// HeartbeatFrom reads systemd's environment.
func HeartbeatFrom(getenv func(string) string, probes map[string]Probe) Heartbeat {
	h := Heartbeat{Probes: probes, Socket: getenv("NOTIFY_SOCKET")}
	usec, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64)
	if pid := getenv("WATCHDOG_PID"); err == nil && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		h.Every = time.Duration(usec) * time.Microsecond / 2
	}
	return h
}

// Serve says READY=1, beats until ctx ends, and says STOPPING=1.
func (h Heartbeat) Serve(ctx context.Context) error {
	if h.Socket == "" {
		<-ctx.Done()
		return nil
	}
	conn, err := dialNotify(h.Socket)
	if err != nil {
		return fmt.Errorf("hw: heartbeat: %w", err)
	}
	defer conn.Close()
	say := func(s string) error {
		if _, err := conn.Write([]byte(s)); err != nil {
			return fmt.Errorf("hw: heartbeat: %w", err)
		}
		return nil
	}
	if err := say("READY=1"); err != nil {
		return err
	}
	if h.Every <= 0 {
		<-ctx.Done()
		return say("STOPPING=1")
	}
	var lanes sync.WaitGroup // a probe that hangs can't be waited for
	runs := h.runs(ctx, &lanes)
	tick := time.NewTicker(h.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return say("STOPPING=1")
		case <-tick.C:
		}
		if missing := beat(runs, &lanes); missing != "" {
			if h.Log != nil {
				h.Log.Error("hw: no heartbeat", "stuck", missing)
			}
			if err := say("STATUS=stuck: " + missing); err != nil {
				return err
			}
			continue
		}
		if err := say("WATCHDOG=1"); err != nil {
			return err
		}
	}
}

// probeRun is a probe with a lane of its own.
type probeRun struct {
	name string
	lane func()

	mu      sync.Mutex // guards everything below
	running bool
	err     error
}

func (h Heartbeat) runs(ctx context.Context, lanes *sync.WaitGroup) []*probeRun {
	var list []*probeRun
	for _, name := range slices.Sorted(maps.Keys(h.Probes)) {
		p := &probeRun{name: name, running: true}
		probe := h.Probes[name]
		p.lane = func() {
			err := safely(func() error { return probe(ctx) })
			p.mu.Lock()
			p.running, p.err = false, err
			p.mu.Unlock()
		}
		lanes.Go(p.lane)
		list = append(list, p)
	}
	return list
}

// beat names the probes that have not come back well since the last beat, and
// sends those that have out again.
func beat(runs []*probeRun, lanes *sync.WaitGroup) string {
	var missing []string
	for _, p := range runs {
		p.mu.Lock()
		running, err := p.running, p.err
		if running || err != nil {
			missing = append(missing, p.name)
		}
		if !running {
			p.running = true
			lanes.Go(p.lane)
		}
		p.mu.Unlock()
	}
	return strings.Join(missing, ", ")
}

// dialNotify opens systemd's socket; a name that begins with @ is abstract.
func dialNotify(path string) (net.Conn, error) {
	return net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
}

// BusProbe returns once the bus has come to a pause between two events.
func BusProbe(b *bus.Bus) Probe {
	return func(context.Context) error {
		b.Pause()()
		return nil
	}
}

// Probe returns once every actuator's lane could run. A device that hangs is
// not a hang of the robot: it is reported as such.
func (r *Rig) Probe(ctx context.Context) error {
	fired := make(chan struct{})
	time.AfterFunc(time.Millisecond, func() { close(fired) }) // as the dead man does
	select {
	case <-fired:
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, a := range *r.actuators.Load() {
		a.mu.Lock()
		overdue := a.active && !a.until.IsZero() && time.Since(a.until) > time.Second &&
			!a.resting && !a.wantRest && a.unrested == nil
		a.mu.Unlock()
		if overdue {
			return errors.New("hw: " + a.name + ": its dead man did not act")
		}
	}
	return nil
}
