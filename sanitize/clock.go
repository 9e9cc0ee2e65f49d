package sanitize

import "math"

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

// A clocks makes clocks, and counts their nodes. The zero clocks is ready.
type clocks struct{ made int }

func (k *clocks) node(level uint8) *clock {
	k.made++
	if level == 0 {
		return &clock{ends: make([]uint64, fan)}
	}
	return &clock{level: level, kids: make([]*clock, fan)}
}

// copied returns a copy of c that the caller may change until somebody else gets it.
func (k *clocks) copied(c *clock) *clock {
	n := k.node(c.level)
	copy(n.kids, c.kids)
	copy(n.ends, c.ends)
	return n
}

// holds reports whether a slot is among the entries that c has room for.
func (c *clock) holds(slot uint32) bool { return uint64(slot)>>(fanLog*(uint(c.level)+1)) == 0 }

// place returns where in c the entry of a slot is.
func (c *clock) place(slot uint32) int { return int(slot>>(fanLog*uint(c.level))) & (fan - 1) }

// mostSlots is how many entries clocks have, because two clocks are joined entry by entry. Of a queue pair
// that has none everybody knows everything: so orders between more accesses are assumed, and no race is
// reported that is none.
const mostSlots = 1 << 14

// at returns the entry of a slot.
func (c *clock) at(slot uint32) uint64 {
	if slot >= mostSlots {
		return math.MaxUint64
	}
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
func (k *clocks) raised(c *clock, slot uint32, number uint64) *clock {
	if c.at(slot) >= number {
		return c
	}
	if c == nil {
		c = k.node(0)
	}
	for !c.holds(slot) {
		up := k.node(c.level + 1)
		up.kids[0] = c
		c = up
	}
	return k.set(c, slot, number)
}

func (k *clocks) set(c *clock, slot uint32, number uint64) *clock {
	n, i := k.copied(c), c.place(slot)
	if c.level == 0 {
		n.ends[i] = number
		return n
	}
	kid := c.kids[i]
	if kid == nil {
		kid = k.node(c.level - 1)
	}
	n.kids[i] = k.set(kid, slot, number)
	return n
}

// joined returns a clock with everything that a or b knows: one of them, if that knows it all.
func (k *clocks) joined(a, b *clock) *clock {
	switch {
	case a == b || b == nil:
		return a
	case a == nil:
		return b
	case a.level < b.level:
		a, b = b, a
	}
	if a.level > b.level {
		if kid := k.joined(a.kids[0], b); kid != a.kids[0] {
			a = k.copied(a)
			a.kids[0] = kid
		}
		return a
	}
	n := a // until something of b is missing there
	for i, kid := range b.kids {
		if both := k.joined(n.kids[i], kid); both != n.kids[i] {
			if n == a {
				n = k.copied(a)
			}
			n.kids[i] = both
		}
	}
	for i, end := range b.ends {
		if end > n.ends[i] {
			if n == a {
				n = k.copied(a)
			}
			n.ends[i] = end
		}
	}
	return n
}

// A counter counts nodes of clocks, each once.
type counter struct {
	seen map[*clock]struct{}
	most int // more are not counted
}

func (x *counter) count(c *clock) {
	if c == nil || len(x.seen) >= x.most {
		return
	}
	if _, again := x.seen[c]; again {
		return
	}
	x.seen[c] = struct{}{}
	for _, kid := range c.kids {
		x.count(kid)
	}
}
