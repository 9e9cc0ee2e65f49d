package order

import "maps"

// A Pair is two stores of a lane, by their instructions: the memory of the system has seen the second one
// while the first was still at a level.
type Pair struct {
	First, Second int
	Level         Scope // Weak: in the lane's buffer
}

// arrive lets the system see a store, and notes which older ones of the lane it has overtaken.
func (m *Memory) arrive(s store) {
	for _, b := range [...]*buffer{&s.lane.buffer, &s.lane.block.buffer, &m.gpu} {
		for k := range b.stores {
			if o := &b.stores[k]; o.lane == s.lane && o.number < s.number {
				m.late[Pair{o.where, s.where, b.level}] = o.address
			}
		}
	}
	m.raw.Store(s.address, s.size, s.value)
}

// Late returns the pairs that were seen, each with the address of a first store.
func (m *Memory) Late() map[Pair]uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.late)
}
