package mqtt

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"edged/bus"
)

// What came in and is no order: see bus.Old. A retained copy, what the broker
// kept while the robot was away (catchup.go tells it apart), what a robot that
// died had not handled, and what is older than its route allows.

// arrival is how a message came.
type arrival struct {
	retained bool          // a copy from the broker's store
	keep     bool          // news, to be kept as the last of its topic
	queued   string        // why it is not from now, "" = it is
	away     time.Duration // it waited so long at most; 0 = not known
}

// order reports what a message is instead of an order; nil if it is one. The
// age goes by what the route's Time names in the payload.
func (r *Route) order(a arrival, val any, now time.Time) *bus.Old {
	age, known := r.age(val, now)
	old := &bus.Old{Age: max(age, 0)}
	because := func(setting, format string, args ...any) *bus.Old {
		old.Reason = fmt.Sprintf(format, args...)
		old.Remedy = fmt.Sprintf("mqtt.subscribe %q: %s", r.Filter, setting)
		return old
	}
	switch {
	case a.retained && !r.ActOnRetained:
		return because("act_on_retained", "it is a retained copy, not news")
	case a.queued != "" && !r.ActOnQueued && !known && a.away > 0:
		return because("act_on_queued", "%s, for %v at most", a.queued, a.away.Round(time.Second))
	case a.queued != "" && !r.ActOnQueued:
		return because("act_on_queued", "%s", a.queued)
	case r.MaxAge <= 0:
		return nil
	case known && age > r.MaxAge:
		return because("max_age", "it is older than max_age = %v", r.MaxAge)
	case known && age < -r.MaxAge:
		return because("max_age", "it says that it was sent %v from now: the clocks differ", (-age).Round(time.Second))
	case !known && r.Time != "":
		return because("time", "how old it is is not known: its payload has no time in %q", r.Time)
	case !known && a.queued != "" && 0 < a.away && a.away <= r.MaxAge:
		return nil // it can't have waited longer
	case !known && (a.retained || a.queued != ""):
		return because("time", "how old it is is not known, and max_age = %v", r.MaxAge)
	}
	return nil
}

// age is how long ago a message says that it was sent.
func (r *Route) age(val any, now time.Time) (time.Duration, bool) {
	if r.Time == "" {
		return 0, false
	}
	if raw, ok := val.(bus.RawJSON); ok {
		if err := json.Unmarshal(raw, &val); err != nil {
			return 0, false
		}
	}
	for name := range strings.SplitSeq(r.Time, ".") {
		m, _ := val.(map[string]any)
		val = m[name]
	}
	t, ok := timeOf(val)
	return now.Sub(t), ok
}

// timeOf reads a time: RFC 3339, or a number since 1970 in seconds,
// milliseconds, microseconds or nanoseconds, by its size.
func timeOf(v any) (time.Time, bool) {
	var n float64
	switch x := v.(type) {
	case string:
		t, err := time.Parse(time.RFC3339, x)
		return t, err == nil
	case float64:
		n = x
	case int64:
		n = float64(x)
	case uint64:
		n = float64(x)
	}
	for n > 1e11 { // seconds reach that in the year 5138
		n /= 1000
	}
	return time.UnixMicro(int64(n * 1e6)), n > 0
}
