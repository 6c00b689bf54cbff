package lib

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// slew bounds how fast a parameter of a tool changes from call to call.
type slew struct {
	most float64 // a second
	was  float64
	at   time.Time // of the last call; zero is none
}

// check returns an error if a value is too far from the last one by now.
func (s *slew) check(name string, v float64, now time.Time) error {
	since := now.Sub(s.at)
	if s.at.IsZero() || math.Abs(v-s.was) <= s.most*since.Seconds() {
		return nil
	}
	num := func(f float64) string { return strconv.FormatFloat(f, 'g', 6, 64) }
	return fmt.Errorf("%s = %s is too great a step: at most %s a second is allowed, and it was %s %v ago", name, num(v), num(s.most), num(s.was), since.Round(time.Millisecond))
}

// steps holds the numbers of a call to the tool's slew limits; note keeps them
// for the next one. The caller holds mu.
func (t *tool) steps(args map[string]any, note bool) error {
	for _, name := range t.names {
		s := t.slews[name]
		if s == nil {
			continue
		}
		var v float64
		switch n := args[name].(type) {
		case int64:
			v = float64(n)
		case float64:
			v = n
		default:
			continue
		}
		if note {
			s.was, s.at = v, time.Now()
		} else if err := s.check(name, v, time.Now()); err != nil {
			return err
		}
	}
	return nil
}
