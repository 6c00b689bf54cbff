package value

import (
	"fmt"
	"math"
	"strings"
	"time"

	startime "go.starlark.net/lib/time"
	"go.starlark.net/starlark"
)

// ToDuration reads a span of time as scripts write it: "250ms", "1m30s", a
// time.duration, or a number of seconds. Negative spans and NaN are errors, as
// is text without a unit.
func ToDuration(v starlark.Value) (time.Duration, error) {
	var d time.Duration
	switch v := v.(type) {
	case startime.Duration:
		d = time.Duration(v)
	case starlark.String:
		var err error
		if d, err = ParseDuration(string(v)); err != nil {
			return 0, err
		}
	case starlark.Int:
		s, ok := v.Int64()
		if !ok || s > int64(math.MaxInt64/time.Second) || s < int64(math.MinInt64/time.Second) {
			return 0, fmt.Errorf("%.40s seconds is out of range", v.String())
		}
		d = time.Duration(s) * time.Second
	case starlark.Float:
		s := float64(v)
		if math.IsNaN(s) || math.Abs(s) > math.MaxInt64/float64(time.Second)-1 {
			return 0, fmt.Errorf("%v seconds is out of range", v)
		}
		d = time.Duration(s * float64(time.Second))
	default:
		return 0, fmt.Errorf("got %s", describe(v))
	}
	if d < 0 {
		return 0, fmt.Errorf("%v is negative", d)
	}
	return d, nil
}

// ParseDuration reads "250ms", "1m30s" or "2h45m", and days as "1d". It is
// time.ParseDuration with days and with errors for people.
func ParseDuration(s string) (time.Duration, error) {
	t := strings.TrimSpace(s)
	if days, rest, ok := strings.Cut(t, "d"); ok && days != "" && strings.Trim(days, "0123456789") == "" && len(days) < 6 {
		n := 0
		for _, c := range days {
			n = n*10 + int(c-'0')
		}
		d := time.Duration(n) * 24 * time.Hour
		if rest == "" {
			return d, nil
		}
		r, err := time.ParseDuration(rest)
		if err != nil || r < 0 {
			return 0, fmt.Errorf("%.40q is not a duration (write it like \"1d12h\")", s)
		}
		return d + r, nil
	}
	d, err := time.ParseDuration(t)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not a duration (write it like \"250ms\", \"5s\" or \"1m30s\")", s)
	}
	return d, nil
}
