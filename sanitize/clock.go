package sanitize

// A clock says, for each queue pair, up to which of its WQEs somebody knows that they have ended. It is a
// vector clock: an entry is the slot of a queue pair (see queue), and its value the number of a WQE. A
// clock never changes, so a WQE keeps the clock of its program by keeping a pointer; a new value makes new
// nodes only on the way to its entry. The nil clock knows nothing.
type clock struct {
	level uint8    // the entries below are 16^(level+1)
	kids  []*clock // 16, if level is not 0
	ends  []uint64 // 16, if level is 0
}

const (
	fanLog = 4
	fan    = 1 << fanLog
)

func newClock(level uint8) *clock {
	if level == 0 {
		return &clock{ends: make([]uint64, fan)}
	}
	return &clock{level: level, kids: make([]*clock, fan)}
}

// copied returns a clock that the caller may change until somebody else gets it.
func (c *clock) copied() *clock {
	n := newClock(c.level)
	copy(n.kids, c.kids)
	copy(n.ends, c.ends)
	return n
}

// holds reports whether a slot is among the entries that c has room for.
func (c *clock) holds(slot uint32) bool { return uint64(slot)>>(fanLog*(uint(c.level)+1)) == 0 }

// place returns where in c the entry of a slot is.
func (c *clock) place(slot uint32) int { return int(slot>>(fanLog*uint(c.level))) & (fan - 1) }

// at returns the entry of a slot.
func (c *clock) at(slot uint32) uint64 {
	if c == nil || !c.holds(slot) {
		return 0
	}
	for ; c != nil; c = c.kids[c.place(slot)] {
		if c.level == 0 {
			return c.ends[c.place(slot)]
		}
	}
	return 0
}

// raised returns a clock with everything that c knows, and which knows a number of a slot, too.
func (c *clock) raised(slot uint32, number uint64) *clock {
	if c.at(slot) >= number {
		return c
	}
	if c == nil {
		c = newClock(0)
	}
	for !c.holds(slot) {
		up := newClock(c.level + 1)
		up.kids[0] = c
		c = up
	}
	return c.set(slot, number)
}

func (c *clock) set(slot uint32, number uint64) *clock {
	n, i := c.copied(), c.place(slot)
	if c.level == 0 {
		n.ends[i] = number
		return n
	}
	kid := c.kids[i]
	if kid == nil {
		kid = newClock(c.level - 1)
	}
	n.kids[i] = kid.set(slot, number)
	return n
}

// joined returns a clock with everything that a or b knows: one of them, if that knows it all.
func joined(a, b *clock) *clock {
	switch {
	case a == b || b == nil:
		return a
	case a == nil:
		return b
	case a.level < b.level:
		a, b = b, a
	}
	if a.level > b.level {
		return a.withKid(0, joined(a.kids[0], b))
	}
	if a.level > 0 {
		n := a
		for i, kid := range b.kids {
			n = n.withKid(i, joined(n.kids[i], kid))
		}
		return n
	}
	n := a
	for i, end := range b.ends {
		if end <= n.ends[i] {
			continue
		}
		if n == a {
			n = a.copied()
		}
		n.ends[i] = end
	}
	return n
}

// withKid returns c with another kid.
func (c *clock) withKid(i int, kid *clock) *clock {
	if c.kids[i] == kid {
		return c
	}
	n := c.copied()
	n.kids[i] = kid
	return n
}
