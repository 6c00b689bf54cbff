package graph

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"
)

// Traits lists what characters are made of: HEXACO, each from 0 to 1.
func Traits() []string {
	return []string{"honesty", "emotionality", "extraversion", "agreeableness", "conscientiousness", "openness"}
}

// Moods lists what moods are made of: PAD, each from -1 to 1.
func Moods() []string { return []string{"valence", "arousal", "dominance"} }

// bounds gives the least value of a trait or mood; the most is 1.
func bounds(name string) (least float64, ok bool) {
	switch {
	case slices.Contains(Traits(), name):
		return 0, true
	case slices.Contains(Moods(), name):
		return -1, true
	}
	return 0, false
}

// A Character has traits, which stay, and a mood, which changes and, if it has
// a half-life, goes back to what it was at first. It may be used concurrently.
type Character struct {
	name   string
	traits map[string]float64
	rest   map[string]float64 // mood at first
	half   time.Duration

	mu   sync.Mutex // guards mood and at
	mood map[string]float64
	at   time.Time
}

// NewCharacter makes a character. halfLife is the time in which half of a
// change of mood is gone; 0 = it stays.
func NewCharacter(name string, traits, mood map[string]float64, halfLife time.Duration) (*Character, error) {
	c := &Character{name: name, traits: maps.Clone(traits), rest: maps.Clone(mood), mood: map[string]float64{}, half: halfLife, at: time.Now()}
	for _, part := range []struct {
		what  string
		known []string
		m     map[string]float64
	}{{"trait", Traits(), traits}, {"mood", Moods(), mood}} {
		for _, k := range slices.Sorted(maps.Keys(part.m)) {
			if !slices.Contains(part.known, k) {
				return nil, fmt.Errorf("graph: %s: %q is no %s; there are %q", name, k, part.what, part.known)
			}
			if err := within(k, part.m[k]); err != nil {
				return nil, fmt.Errorf("graph: %s: %w", name, err)
			}
		}
	}
	maps.Copy(c.mood, mood)
	return c, nil
}

func within(name string, v float64) error {
	least, _ := bounds(name)
	if !(v >= least && v <= 1) {
		return fmt.Errorf("%s is %v; it is a number from %v to 1", name, v, least)
	}
	return nil
}

// Name is whose character it is.
func (c *Character) Name() string { return c.name }

// has reports whether a trait or mood is set.
func (c *Character) has(name string) bool {
	if _, ok := c.traits[name]; ok {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.mood[name]
	return ok
}

// Value gives a trait or mood as it is now. What is not set is an error.
func (c *Character) Value(name string) (float64, error) {
	if v, ok := c.traits[name]; ok {
		return v, nil
	}
	if v, ok := c.Mood()[name]; ok {
		return v, nil
	}
	return 0, fmt.Errorf("graph: %s has no %s", c.name, name)
}

// Mood gives the mood as it is now.
func (c *Character) Mood() map[string]float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.decay()
	return maps.Clone(c.mood)
}

// decay is called with mu held.
func (c *Character) decay() {
	now := time.Now()
	if c.half > 0 {
		left := math.Exp2(-float64(now.Sub(c.at)) / float64(c.half))
		for k, v := range c.mood {
			c.mood[k] = c.rest[k] + (v-c.rest[k])*left
		}
	}
	c.at = now
}

// SetMood changes parts of the mood.
func (c *Character) SetMood(mood map[string]float64) error {
	for k, v := range mood {
		if !slices.Contains(Moods(), k) {
			return fmt.Errorf("graph: %s: %q is no mood; there are %q", c.name, k, Moods())
		}
		if err := within(k, v); err != nil {
			return fmt.Errorf("graph: %s: %w", c.name, err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.decay()
	maps.Copy(c.mood, mood)
	return nil
}

// AddMood adds to parts of the mood; the sums stay within their bounds.
func (c *Character) AddMood(more map[string]float64) error {
	for k, d := range more {
		if !slices.Contains(Moods(), k) {
			return fmt.Errorf("graph: %s: %q is no mood; there are %q", c.name, k, Moods())
		}
		if math.IsNaN(d) {
			return fmt.Errorf("graph: %s: %s is no number", c.name, k)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.decay()
	for k, d := range more {
		c.mood[k] = max(-1, min(1, c.mood[k]+d))
	}
	return nil
}
