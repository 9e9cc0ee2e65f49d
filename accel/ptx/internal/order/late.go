package order

import "maps"

// A Pair is two stores of a lane, by their instructions: the memory of the system has seen the second one
// while the first was still at a level.
type Pair struct {
	First, Second int
	Level         Scope // Weak: in the lane's buffer
}

// Addresses are where the two stores of a pair went.
type Addresses struct {
	First, Second uint64
	Varies        bool // the second one has gone to other addresses, too
}

// arrive lets the system see a store, and notes which older ones of the lane it has overtaken.
func (m *Memory) arrive(s store) {
	for _, b := range [...]*buffer{&s.lane.buffer, &s.lane.block.buffer, &m.gpu} {
		for k := range b.stores {
			if o := &b.stores[k]; o.lane == s.lane && o.number < s.number {
				m.overtaken(Pair{o.where, s.where, b.level}, Addresses{First: o.address, Second: s.address})
			}
		}
	}
	m.raw.Store(s.address, s.size, s.value)
}

// overtaken notes a pair. Of its addresses it prefers those that are in different blocks of 64 bytes.
func (m *Memory) overtaken(p Pair, at Addresses) {
	before, again := m.late[p]
	at.Varies = again && (before.Varies || before.Second != at.Second)
	if again && (before.apart() || !at.apart()) {
		at.First, at.Second = before.First, before.Second
	}
	m.late[p] = at
}

// apart reports whether the two are in different blocks of 64 bytes: a WQE and its record are, parts of a
// WQE are not.
func (a Addresses) apart() bool { return a.First/64 != a.Second/64 }

// Late returns the pairs that were seen, each with addresses of two stores.
func (m *Memory) Late() map[Pair]Addresses {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.late)
}
