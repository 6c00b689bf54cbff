package intent

import "math"

// This file reads numbers, as digits or as words.

// A reading is a number that starts somewhere and ends before piece end.
type reading struct {
	end   int
	value float64
	words bool
}

// readings appends the numbers that begin at piece i, the longest first.
func (l *language) readings(out []reading, ps []piece, i int) []reading {
	first, sign := len(out), 1.0
	if l.minus[string(ps[i].text)] && i+1 < len(ps) {
		sign, i = -1, i+1
	}
	if ps[i].number {
		if ps[i].negative {
			sign = -1
		}
		v := ps[i].value
		out = append(out, reading{i + 1, sign * v, false})
		if n, ok := l.at(ps, i+1); ok && (n.class == hundred || n.class == thousand) {
			out = append(out, reading{i + 2, sign * v * n.value, false})
		}
	} else {
		out = l.spoken(out, ps, i, sign)
	}
	if len(out) == first {
		return out
	}
	// "two and a half", "2 point 5"
	last := out[len(out)-1]
	if end, v, ok := l.tail(ps, last.end); ok {
		out = append(out, reading{end, last.value + sign*v, last.words})
	}
	for a, b := first, len(out)-1; a < b; a, b = a+1, b-1 {
		out[a], out[b] = out[b], out[a]
	}
	return out
}

func (l *language) at(ps []piece, i int) (number, bool) {
	if i >= len(ps) {
		return number{}, false
	}
	n, ok := l.numbers[string(ps[i].text)]
	return n, ok
}

func (l *language) is(set map[string]bool, ps []piece, i int) bool {
	return i < len(ps) && set[string(ps[i].text)]
}

// spoken reads number words from i; every place where a number may end gives
// a reading.
func (l *language) spoken(out []reading, ps []piece, i int, sign float64) []reading {
	total, cur := 0.0, 0.0
	last := numberClass(255)
	start := i
	if l.is(l.article, ps, i) {
		n, ok := l.at(ps, i+1)
		if own, is := l.at(ps, i); ok && n.class == fraction {
			return append(out, reading{i + 2, sign * n.value, true})
		} else if ok && (n.class == hundred || n.class == thousand) {
			cur, last, i = 1, units, i+1
		} else if !is || own.class != units {
			return out
		}
	}
	for i < len(ps) {
		n, ok := l.at(ps, i)
		if !ok {
			if i > start && l.is(l.and, ps, i) && last != 255 {
				if n, ok = l.at(ps, i+1); ok && n.class <= tens && (last >= hundred || last == tens && n.class == units && n.value > 0) {
					i++
				} else {
					break
				}
			} else {
				break
			}
		}
		switch n.class {
		case units, tens, whole:
			fits := last == 255 || last == hundred || last == thousand || last == tens && n.class == units && n.value > 0 && n.value < 10
			if !fits {
				return out
			}
			cur += n.value
		case hundred:
			if last == hundred || last == thousand || last != 255 && (cur >= 100 || cur == 0) {
				return out
			}
			cur = math.Max(cur, 1) * n.value
		case thousand:
			if last == thousand || last != 255 && cur == 0 {
				return out
			}
			total += math.Max(cur, 1) * n.value
			cur = 0
		case fraction:
			switch {
			case last == 255: // "half", "half a"
				out = append(out, reading{i + 1, sign * n.value, true})
				if l.is(l.article, ps, i+1) {
					out = append(out, reading{i + 2, sign * n.value, true})
				}
			case n.value == 0.25 && cur == 3 && total == 0: // three quarters is said "three quarter"
				out = append(out, reading{i + 1, sign * 0.75, true})
			}
			return out
		}
		last = n.class
		i++
		out = append(out, reading{i, sign * (total + cur), true})
	}
	return out
}

// tail reads what makes a whole number more exact: "and a half", "point five".
func (l *language) tail(ps []piece, i int) (end int, value float64, ok bool) {
	if l.is(l.and, ps, i) {
		j := i + 1
		if l.is(l.article, ps, j) {
			j++
		}
		if n, is := l.at(ps, j); is && n.class == fraction {
			return j + 1, n.value, true
		}
		return 0, 0, false
	}
	if !l.is(l.point, ps, i) {
		return 0, 0, false
	}
	scale := 0.1
	for i++; i < len(ps); i++ {
		v := -1.0
		if n, is := l.at(ps, i); is && n.class == units && n.value < 10 {
			v = n.value
		} else if ps[i].number && ps[i].value < 10 && ps[i].value == math.Trunc(ps[i].value) {
			v = ps[i].value
		}
		if v < 0 {
			break
		}
		value, scale, ok = value+v*scale, scale/10, true
	}
	return i, value, ok
}

// fits gives the value that a tool gets for a number said, if r allows it.
func (r *Range) fits(n reading) (any, bool) {
	if n.words && r.NoWords || !n.words && r.NoDigits {
		return nil, false
	}
	v := math.Round(n.value*1e9) / 1e9
	step := r.Step
	if step == 0 {
		step = 1
	}
	if v < r.From || v > r.To {
		return nil, false
	}
	k := (v - r.From) / step
	if r.Step == 0 && r.From != math.Trunc(r.From) {
		k = v // whole numbers also in a range that begins between two
	}
	if math.Abs(k-math.Round(k)) > 1e-6 {
		return nil, false
	}
	if r.Multiplier != 0 {
		v = math.Round(v*r.Multiplier*1e9) / 1e9
	}
	if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		return int64(v), true
	}
	return v, true
}
