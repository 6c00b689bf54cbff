package trace

import (
	"fmt"
	"io"
	"slices"
	"sort"
	"time"
)

// A Difference is what two runs did differently: an action that only one of
// them has, one with another value, or one that came at another time.
type Difference struct {
	Was *Action `json:"was,omitempty"` // nil if it is new
	Is  *Action `json:"is,omitempty"`  // nil if it is missing
}

// at is when the difference begins.
func (d Difference) at() time.Duration {
	switch {
	case d.Was == nil:
		return d.Is.At
	case d.Is == nil:
		return d.Was.At
	}
	return min(d.Was.At, d.Is.At)
}

// Compare finds what two runs did differently. Actions with one name are
// compared in their order; those of different names may come in any. A time
// counts as the same within the given one. What the second does after the end
// is of no interest: the first had no time for it. A state that was another
// 40 ms later is of none either if only one of them went through it: handlers
// that run at the same time do so in any order.
func Compare(was, is []Action, within, end time.Duration) []Difference {
	lanes := map[string][2][]Action{}
	var names []string
	put := func(side int, list []Action) {
		for _, a := range list {
			l, ok := lanes[a.Do]
			if !ok {
				names = append(names, a.Do)
			}
			l[side] = append(l[side], a)
			lanes[a.Do] = l
		}
	}
	put(0, was)
	put(1, is)
	var out []Difference
	for _, n := range names {
		out = append(out, lane(lanes[n][0], lanes[n][1], within)...)
	}
	out = slices.DeleteFunc(out, func(d Difference) bool { return d.Was == nil && d.Is.At > end })
	sort.SliceStable(out, func(i, j int) bool { return out[i].at() < out[j].at() })
	return out
}

// lane compares the actions of one name.
func lane(was, is []Action, within time.Duration) (out []Difference) {
	var missing, added []Action
	flush := func() {
		for i := range max(len(missing), len(added)) {
			var d Difference
			if i < len(missing) {
				d.Was = &missing[i]
			}
			if i < len(added) {
				d.Is = &added[i]
			}
			out = append(out, d)
		}
		missing, added = nil, nil
	}
	i, j := 0, 0
	for _, p := range pairs(was, is) {
		missing, added = append(missing, lasting(was[i:p[0]], was[p[0]])...), append(added, lasting(is[j:p[1]], is[p[1]])...)
		flush()
		a, b := was[p[0]], is[p[1]]
		if d := b.At - a.At; d > within || -d > within {
			out = append(out, Difference{&a, &b})
		}
		i, j = p[0]+1, p[1]+1
	}
	missing, added = append(missing, was[i:]...), append(added, is[j:]...)
	flush()
	return out
}

// lasting leaves out the states that did not last until the next one.
func lasting(list []Action, next Action) (out []Action) {
	for i, a := range list {
		after := next
		if i+1 < len(list) {
			after = list[i+1]
		}
		if !a.State || after.At-a.At > 2*blink {
			out = append(out, a)
		}
	}
	return out
}

// longest is how many actions of one name are compared with regard to those
// that one side has more; beyond that, one by one.
const longest = 4000

// pairs finds the longest common sequence of two lanes, by what was done.
func pairs(was, is []Action) (list [][2]int) {
	from := 0
	for from < len(was) && from < len(is) && was[from].Value == is[from].Value {
		list = append(list, [2]int{from, from})
		from++
	}
	w, s := was[from:], is[from:]
	if len(w) > longest || len(s) > longest {
		for i := range min(len(w), len(s)) {
			if w[i].Value == s[i].Value {
				list = append(list, [2]int{from + i, from + i})
			}
		}
		return list
	}
	// best[i][j] is how many pairs w[i:] and s[j:] have.
	best := make([][]int32, len(w)+1)
	for i := range best {
		best[i] = make([]int32, len(s)+1)
	}
	for i := len(w) - 1; i >= 0; i-- {
		for j := len(s) - 1; j >= 0; j-- {
			if w[i].Value == s[j].Value {
				best[i][j] = best[i+1][j+1] + 1
			} else {
				best[i][j] = max(best[i+1][j], best[i][j+1])
			}
		}
	}
	for i, j := 0, 0; i < len(w) && j < len(s); {
		switch {
		case w[i].Value == s[j].Value:
			list = append(list, [2]int{from + i, from + j})
			i, j = i+1, j+1
		case best[i+1][j] >= best[i][j+1]:
			i++
		default:
			j++
		}
	}
	return list
}

// WriteDifferences prints differences: - was done, + is done now.
func WriteDifferences(w io.Writer, list []Difference) error {
	for _, d := range list {
		var err error
		switch {
		case d.Was != nil && d.Is != nil && d.Was.Value == d.Is.Value:
			late := d.Is.At - d.Was.At
			word := "later"
			if late < 0 {
				late, word = -late, "earlier"
			}
			_, err = fmt.Fprintf(w, "~ %9.3fs %s: %v %s\n", d.Is.At.Seconds(), d.Is, late.Round(time.Millisecond), word)
		default:
			if d.Was != nil {
				_, err = fmt.Fprintf(w, "- %9.3fs %s\n", d.Was.At.Seconds(), d.Was)
			}
			if d.Is != nil && err == nil {
				_, err = fmt.Fprintf(w, "+ %9.3fs %s\n", d.Is.At.Seconds(), d.Is)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
