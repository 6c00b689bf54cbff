package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"edged/starlark/value"
)

// A Duration is a span of time, written "250ms", "1m30s" or "1d".
type Duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := value.ParseDuration(string(b))
	if err != nil {
		return err
	}
	*d = Duration(v)
	return nil
}

func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// A Size is a number of bytes, written "64MiB", "256KiB" or "1GiB".
type Size int64

var units = []struct {
	name string
	size Size
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(b []byte) error {
	text := strings.TrimSpace(string(b))
	for _, u := range units {
		if n, ok := strings.CutSuffix(text, u.name); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(n), 64)
			if err != nil || v < 0 || v*float64(u.size) > 1<<50 {
				break
			}
			*s = Size(v * float64(u.size))
			return nil
		}
	}
	if v, err := strconv.ParseInt(text, 10, 50); err == nil && v >= 0 {
		*s = Size(v)
		return nil
	}
	return fmt.Errorf("%q is no size: write 64MiB, 256KiB or a number of bytes", text)
}

func (s Size) String() string {
	for _, u := range units[:3] {
		if s >= u.size && s%u.size == 0 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}
