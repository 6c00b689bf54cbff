package background

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"edged/bus"
	"edged/bus/timer"

	"github.com/robfig/cron/v3"
)

// Every fires once per interval, first when one has passed. Firings keep to
// the grid of the start; one that could not be in time is skipped, not made up
// for. The task is {"every", "time"}: seconds, and when in RFC 3339.
func Every(interval time.Duration) (Trigger, error) {
	if interval < time.Millisecond {
		return nil, fmt.Errorf("background: every: the interval is %v, it must be at least 1ms", interval)
	}
	return every(interval), nil
}

type every time.Duration

func (v every) Open(o Outlet) (func(context.Context, bus.Event), func()) {
	interval, start := time.Duration(v), time.Now()
	next := start.Add(interval)
	a := alarm{wait: func(now time.Time) (fire bool, wait time.Duration) {
		if fire = !now.Before(next); fire {
			next = start.Add((now.Sub(start)/interval + 1) * interval)
		}
		return fire, next.Sub(now)
	}, fire: func(now time.Time) {
		o.Emit(bus.Event{}, map[string]any{"every": interval.Seconds(), "time": now.Format(time.RFC3339Nano)})
	}}
	a.start(o.Timers)
	return func(context.Context, bus.Event) {}, a.stop
}

// Cron fires by the wall clock, in local time: minute, hour, day of month,
// month, day of week ("0 7 * * 1-5"), or @hourly, @daily, "@every 1h30m"; a
// leading "CRON_TZ=Europe/Zurich " gives another time zone. The task is
// {"cron", "time"}.
//
// A wall clock that is set is noticed within a minute. A time that it jumped
// over fires once; one that it comes back to fires again. The hour that summer
// time leaves out or repeats is no such jump: a time of day that does not exist
// fires when it would have been, at the end of the gap, and one that comes twice
// fires the first time; what is to fire in every hour does so by real time.
func Cron(spec string) (Trigger, error) {
	s, err := schedule(spec)
	if err != nil {
		return nil, fmt.Errorf("background: cron %q: %w", spec, err)
	}
	return &crontab{spec, s}, nil
}

// schedule reads a cron line. The parser panics on a time zone with nothing
// after it, and takes any short or negative interval for a second.
func schedule(spec string) (s cron.Schedule, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it can't be read: %v", p)
		}
	}()
	if every, ok := strings.CutPrefix(spec, "@every "); ok {
		if d, err := time.ParseDuration(every); err == nil && d < time.Second {
			return nil, fmt.Errorf("the interval is %v, it must be at least 1s", d)
		}
	}
	s, err = cron.ParseStandard(spec)
	if of, ok := s.(*cron.SpecSchedule); ok && of.Hour&anyHour == 0 {
		loc := of.Location
		days := *of
		days.Location = time.UTC
		s = timesOfDay{&days, loc}
	}
	return s, err
}

// anyHour is how the parser marks a field that is a star.
const anyHour = 1 << 63

// timesOfDay is a schedule that names hours. It is asked as if clocks were
// never changed, and the answer is then looked up in the time zone.
type timesOfDay struct {
	*cron.SpecSchedule // in UTC
	loc                *time.Location
}

// Next implements cron.Schedule.
func (s timesOfDay) Next(now time.Time) time.Time {
	for c := civil(now.In(s.loc)); ; {
		if c = s.SpecSchedule.Next(c); c.IsZero() {
			return c
		}
		// In a repeated hour c may have been before.
		if t := instant(c, s.loc); t.After(now) {
			return t
		}
	}
}

// civil is what a clock on the wall shows, as if it showed UTC.
func civil(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// instant is when a clock on the wall shows a time: the first of two times, or
// the end of a gap in which it never does.
func instant(c time.Time, loc *time.Location) time.Time {
	t := time.Date(c.Year(), c.Month(), c.Day(), c.Hour(), c.Minute(), c.Second(), 0, loc)
	start, end := t.ZoneBounds()
	if !civil(t).Equal(c) { // t is on one side of the gap
		if civil(t).Before(c) {
			return end
		}
		return start
	}
	if start.IsZero() {
		return t
	}
	_, before := start.Add(-time.Second).Zone()
	if first := c.Add(-time.Duration(before) * time.Second); first.Before(start) {
		return first.In(loc)
	}
	return t
}

type crontab struct {
	spec     string
	schedule cron.Schedule
}

// look is how often a waiting cron looks at the wall clock; a machine without
// a battery clock is set by years soon after its start.
const look = time.Minute

func (c *crontab) Open(o Outlet) (func(context.Context, bus.Event), func()) {
	last := time.Now().Round(0) // without the monotonic clock: as people see it
	next := c.schedule.Next(last)
	a := alarm{wait: func(now time.Time) (fire bool, wait time.Duration) {
		now = now.Round(0)
		fire = !next.IsZero() && !now.Before(next)
		if fire || now.Before(last) {
			next = c.schedule.Next(now)
		}
		last = now
		if next.IsZero() { // never again, say the 30th of February
			return fire, look
		}
		return fire, min(next.Sub(now), look)
	}, fire: func(now time.Time) {
		o.Emit(bus.Event{}, map[string]any{"cron": c.spec, "time": now.Format(time.RFC3339)})
	}}
	a.start(o.Timers)
	return func(context.Context, bus.Event) {}, a.stop
}

// alarm is a timer that sets itself again and again.
type alarm struct {
	wait func(now time.Time) (fire bool, wait time.Duration)
	fire func(now time.Time)

	mu      sync.Mutex // guards timer, stopped and what wait changes
	timer   *timer.Timer
	stopped bool
}

func (a *alarm) start(w *timer.Wheel) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, wait := a.wait(time.Now())
	a.timer = w.After(wait, a.ring)
}

func (a *alarm) ring() {
	now := time.Now()
	a.mu.Lock()
	if a.stopped {
		a.mu.Unlock()
		return
	}
	fire, wait := a.wait(now)
	a.timer.Reset(wait)
	a.mu.Unlock()
	if fire {
		a.fire(now)
	}
}

func (a *alarm) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	a.timer.Stop()
}
