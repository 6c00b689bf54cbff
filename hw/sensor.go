package hw

import (
	"context"
	"fmt"
	"sync"
	"time"

	"edged/bus"
)

// sensor is one device that is read.
type sensor struct {
	r     *Rig
	dev   Sensor
	name  string
	topic string
	o     Bounds
	stale *time.Timer // of its own: a fence waits for it

	mu     sync.Mutex // guards everything below; never held while calling out
	last   Reading
	has    bool
	failed error
}

func newSensor(r *Rig, dev Sensor, o Bounds) *sensor {
	s := &sensor{r: r, dev: dev, name: dev.Name(), topic: "hw/" + dev.Name(), o: o}
	s.stale = idle(s.old)
	return s
}

// serve reads the device until ctx ends and tries again, with back-off, when
// it fails. It returns early only if the device has no more to give.
func (s *sensor) serve(ctx context.Context) error {
	defer s.stale.Stop()
	for tries := 0; ; {
		began := time.Now()
		err := safely(func() error { return s.dev.Sense(ctx, s.emit) })
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			return nil
		}
		s.fail(ctx, err)
		if time.Since(began) > s.r.opt.MaxBackoff {
			tries = 0
		}
		tries++
		pause := time.NewTimer(s.r.backoff(tries))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil
		}
	}
}

// emit takes a reading from the device.
func (s *sensor) emit(v any) error {
	var rd Reading
	switch x := v.(type) {
	case Reading:
		rd = x
	case *Reading:
		rd = *x
	default:
		rd.Value = v
	}
	if rd.Time.IsZero() {
		rd.Time = time.Now()
	}
	if rd.Quality == "" {
		rd.Quality = Good
	}
	if err := s.bound(&rd); err != nil {
		return fmt.Errorf("hw: %s: %w", s.name, err)
	}
	s.mu.Lock()
	s.last, s.has, s.failed = rd, true, nil
	s.mu.Unlock()
	if s.o.Stale > 0 {
		s.stale.Reset(s.o.Stale)
	}
	s.r.moved(s.name, rd)
	return s.publish(rd)
}

// bound marks a number outside the bounds; NaN and infinities, which JSON
// can't say, become null.
func (s *sensor) bound(rd *Reading) error {
	v, err := bus.Freeze(rd.Value)
	f, isFloat := rd.Value.(float64)
	switch {
	case err != nil && isFloat:
		rd.Value, rd.Quality = nil, OutOfRange
		return nil
	case err != nil:
		return err
	}
	rd.Value = v
	if i, ok := v.(int64); ok {
		f, isFloat = float64(i), true
	}
	if isFloat && (s.o.Min != 0 || s.o.Max != 0) && (f < s.o.Min || f > s.o.Max) {
		rd.Quality = OutOfRange
	}
	return nil
}

// lazyReading is a reading on the bus; it becomes a tree when somebody looks.
type lazyReading struct {
	bus.Cell
	Reading
	once sync.Once
	tree any
}

func (l *lazyReading) Tree() any {
	l.once.Do(func() { l.tree = l.Reading.Tree() })
	return l.tree
}

func (s *sensor) publish(rd Reading) error {
	_, err := s.r.b.Publish(context.Background(), "hw:"+s.name, s.topic, &lazyReading{Reading: rd})
	return err
}

// old marks the last reading as stale; it runs on a goroutine of its own.
func (s *sensor) old() { s.degrade(Stale) }

func (s *sensor) degrade(q Quality) {
	s.mu.Lock()
	rd, has := s.last, s.has
	again := rd.Quality == q
	s.last.Quality = q
	rd.Quality = q
	s.mu.Unlock()
	if has && !again {
		s.r.moved(s.name, rd)
		s.r.say(context.Background(), "hw:"+s.name, s.topic, &lazyReading{Reading: rd})
	}
}

// fail tells of a failed device, once per kind of failure.
func (s *sensor) fail(ctx context.Context, err error) {
	s.mu.Lock()
	news := s.failed == nil || s.failed.Error() != err.Error()
	s.failed = err
	s.mu.Unlock()
	s.stale.Stop()
	s.degrade(Missing)
	if news {
		s.r.complain(ctx, "hw:"+s.name, fmt.Errorf("hw: %s: %w", s.name, err), nil)
	}
}

func (s *sensor) read() (Reading, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, s.has
}

func (s *sensor) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{Name: s.name, Kind: "sensor"}
	if s.has {
		rd := s.last
		st.Reading, st.Value, st.Unit, st.Quality, st.Time = &rd, rd.Value, rd.Unit, rd.Quality, rd.Time
	}
	if s.failed != nil {
		st.Error = s.failed.Error()
	}
	return st
}
