package mask

// Nothing in this file allocates.

func (m *Mask) push(s *State, n int16) {
	s.stack[s.top] = frame{node: n, hi: int16(len(m.nodes[n].entries))}
	s.top++
}

// pop ends the value on top.
func (m *Mask) pop(s *State) {
	s.top--
	s.done = s.top == 0
}

// step moves over one byte.
func (m *Mask) step(s *State, c byte) bool {
	for !s.done {
		f := &s.stack[s.top-1]
		n := &m.nodes[f.node]
		switch n.kind {
		case literal:
			if n.narrow(f, c) {
				if n.last(f) {
					m.pop(s)
				}
				return true
			}
			if !m.complete(f) {
				return false
			}
			m.pop(s) // 1 of 1 and 12, and then a comma: look again from above
		case numeral:
			if n.digit(f, c) {
				return true
			}
			if !m.complete(f) {
				return false
			}
			m.pop(s)
		case text:
			return m.stepText(s, f, n, c)
		case object:
			return m.stepObject(s, f, n, c)
		case array:
			return m.stepArray(s, f, n, c)
		case call:
			return m.stepCall(s, f, n, c)
		}
	}
	return false
}

// narrow keeps the entries that go on with c.
func (n *node) narrow(f *frame, c byte) bool {
	lo, hi := f.lo, f.lo
	for i := f.lo; i < f.hi; i++ {
		t := n.entries[i].text
		if int(f.pos) >= len(t) || t[f.pos] < c {
			lo, hi = i+1, i+1
			continue
		}
		if t[f.pos] > c {
			break
		}
		hi = i + 1
	}
	if lo == hi {
		return false
	}
	f.lo, f.hi, f.pos = lo, hi, f.pos+1
	return true
}

// ends tells whether an entry may end here.
func (n *node) ends(f *frame) bool {
	for i := f.lo; i < f.hi; i++ {
		e := &n.entries[i]
		if int(f.pos) == len(e.text) || e.words && int(f.pos) < len(e.text) && e.text[f.pos] == ' ' {
			return true
		}
	}
	return false
}

// last tells whether the one entry left is written.
func (n *node) last(f *frame) bool {
	for i := f.lo; i < f.hi; i++ {
		if int(f.pos) != len(n.entries[i].text) {
			return false
		}
	}
	return true
}

// complete tells whether a value without an end of its own may end.
func (m *Mask) complete(f *frame) bool {
	n := &m.nodes[f.node]
	switch n.kind {
	case literal:
		return f.pos > 0 && n.ends(f)
	case numeral:
		return n.inRange(f)
	}
	return false
}

func (m *Mask) stepText(s *State, f *frame, n *node, c byte) bool {
	switch {
	case f.phase == 0:
		f.phase = 1
		return c == '"'
	case f.phase == 1 && c == '"':
		if f.pos == 0 && n.empty || f.pos > 0 && n.ends(f) {
			m.pop(s)
			return true
		}
		return false
	}
	return n.narrow(f, c)
}

// The phases of an object.
const (
	objectOpen = iota
	objectFirst
	objectKey
	objectColon
	objectNext
	objectQuote
)

func (m *Mask) stepObject(s *State, f *frame, n *node, c byte) bool {
	all := uint64(1)<<len(n.entries) - 1
	switch f.phase {
	case objectOpen:
		f.phase = objectFirst
		return c == '{'
	case objectFirst, objectNext:
		if c == '}' && n.need&^f.seen == 0 {
			m.pop(s)
			return true
		}
		if f.seen == all || c != ',' && f.phase == objectNext || c != '"' && f.phase == objectFirst {
			return false
		}
		f.lo, f.hi, f.pos = 0, int16(len(n.entries)), 0
		f.phase = objectQuote
		if c == '"' {
			f.phase = objectKey
		}
		return true
	case objectQuote:
		f.phase = objectKey
		return c == '"'
	case objectKey:
		// Entries end with the quote, so that no key is the beginning of another.
		if !n.narrow(f, c) || f.seen>>f.lo&(1<<(f.hi-f.lo)-1) == 1<<(f.hi-f.lo)-1 {
			return false
		}
		if n.last(f) {
			f.phase = objectColon
		}
		return true
	case objectColon:
		if c != ':' {
			return false
		}
		f.seen |= 1 << f.lo
		f.phase = objectNext
		m.push(s, n.sub[f.lo])
		return true
	}
	return false
}

// The phases of an array.
const (
	arrayOpen = iota
	arrayFirst
	arrayNext
)

func (m *Mask) stepArray(s *State, f *frame, n *node, c byte) bool {
	switch f.phase {
	case arrayOpen:
		f.phase = arrayFirst
		return c == '['
	case arrayFirst:
		if c == ']' && n.least == 0 {
			m.pop(s)
			return true
		}
		if n.most == 0 {
			return false
		}
		f.phase, f.count = arrayNext, 1
		m.push(s, n.sub[0])
		return m.step(s, c)
	}
	switch {
	case c == ']' && f.count >= n.least:
		m.pop(s)
		return true
	case c == ',' && f.count < n.most:
		f.count++
		m.push(s, n.sub[0])
		return true
	}
	return false
}

func (m *Mask) stepCall(s *State, f *frame, n *node, c byte) bool {
	if f.phase == 1 {
		m.pop(s)
		return c == '}'
	}
	if !n.narrow(f, c) {
		return false
	}
	if n.last(f) {
		f.phase = 1
		m.push(s, n.sub[f.lo])
	}
	return true
}

// digit moves over one byte of a number, if some number in the range goes on so.
func (n *node) digit(f *frame, c byte) bool {
	next := *f
	next.pos++
	switch {
	case c == '-' && f.pos == 0:
		next.neg = true
		*f = next
		return n.lo < 0
	case c == '.' && f.phase == 1 && n.scale > 0:
		next.phase = 2
	case c >= '0' && c <= '9':
		if f.phase == 1 && f.digits == 0 || f.phase == 2 && f.frac >= n.scale || f.digits > 1e16 {
			return false // no zeros in front, no more digits than there are
		}
		next.digits = 10*f.digits + int64(c-'0')
		if f.phase == 2 {
			next.frac++
		} else {
			next.phase = 1
		}
	default:
		return false
	}
	if !n.reaches(&next) {
		return false
	}
	*f = next
	return true
}

// span is the range of magnitudes for the sign that was written.
func (n *node) span(f *frame) (lo, hi int64) {
	if f.neg {
		return max(1, -n.hi), -n.lo
	}
	return max(0, n.lo), n.hi
}

// reaches tells whether more digits lead into the range.
func (n *node) reaches(f *frame) bool {
	lo, hi := n.span(f)
	unit := int64(1)
	for range n.scale - f.frac {
		unit *= 10
	}
	if f.phase == 2 { // only the fraction can grow
		return f.digits*unit <= hi && f.digits*unit+unit-1 >= lo
	}
	for {
		low := f.digits * unit
		if low > hi {
			return false
		}
		if low+unit-1 >= lo {
			return true
		}
		if f.digits == 0 {
			return false
		}
		unit *= 10
	}
}

// inRange tells whether the number as it stands will do.
func (n *node) inRange(f *frame) bool {
	if f.phase == 0 || f.phase == 2 && f.frac == 0 {
		return false
	}
	v := f.digits
	for range n.scale - f.frac {
		v *= 10
	}
	lo, hi := n.span(f)
	return v >= lo && v <= hi
}
