// Package lift is what the mutation test is tested with.
package lift

import (
	"errors"
	"time"
)

// Lift knows how heavy things may be.
type Lift struct {
	limit, at int
	pause     time.Duration
}

// Load is refused above the limit.
func (l *Lift) Load(kg int) error {
	if kg > l.limit {
		return errors.New("too heavy")
	}
	return nil
}

// Floors are tested far from their borders only.
func Floors(n int) bool { return n >= 0 && n < 40 }

// Wait is tested for 3 seconds.
func Wait(people int) time.Duration { return time.Duration(people) * time.Second }

// To goes there floor by floor: without a step it goes for ever.
func (l *Lift) To(floor int) {
	for l.at < floor {
		l.at++
	}
}

// Alarm has no test.
func Alarm(ring func()) { ring() }

const most = 8

type kind bool

// Kinds are there because not everything can be a variable.
func Kinds(x int) (kind, [2 + 1]int) {
	switch k := kind(x > most); {
	case x == 1+1:
		return k, [2 + 1]int{1: 7}
	default:
		return !k, [2 + 1]int{}
	}
}
