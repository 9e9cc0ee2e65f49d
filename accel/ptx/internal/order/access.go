package order

// Load returns the value at an address as a lane sees it. The address is a multiple of the size, which is
// 1, 2, 4 or 8, so that no value is seen in parts. A load with acquire order lets the lane see no lines
// that are older.
func (l *Lane) Load(address uint64, size int, s Scope, acquire bool) uint64 {
	b := l.block
	m := b.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tick()
	var n *line
	if s <= Block {
		n = l.line(address / lineBytes)
	}
	var v uint64
	var view *clock
	if n != nil {
		for k := range uint64(size) {
			v |= uint64(n.bytes[address%lineBytes+k]) << (8 * k)
		}
	} else {
		found := l.strong(address / 8)
		view = found.view
		v = found.value >> (address % 8 * 8) & (1<<(8*size) - 1)
	}
	v = l.buffer.over(b.buffer.over(v, address, size), address, size)
	l.observe(s, acquire, view)
	return v
}

// load returns a value as the whole GPU sees it.
func (m *Memory) load(address uint64, size int) uint64 {
	return m.gpu.over(m.raw.Load(address, size), address, size)
}

// over returns a value after the stores of a buffer.
func (b *buffer) over(v, address uint64, size int) uint64 {
	for k := range b.stores {
		s := &b.stores[k]
		if !overlaps(s.address, s.size, address, size) {
			continue
		}
		for n := range uint64(s.size) {
			if at := s.address + n - address; at < uint64(size) {
				v = v&^(0xff<<(8*at)) | s.value>>(8*n)&0xff<<(8*at)
			}
		}
	}
	return v
}

// Store stores a value.
func (l *Lane) Store(address uint64, size int, v uint64, where int) {
	m := l.block.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	l.store(address, size, v, where)
}

func (l *Lane) store(address uint64, size int, v uint64, where int) {
	l.block.memory.tick()
	l.stores++
	view := l.fenced.join(l.released[address/8])
	l.buffer.put(store{address, v, size, l, l.stores, where, view})
}

// Release is a Store that comes after everything that the lane sees, for those of a scope.
func (l *Lane) Release(address uint64, size int, v uint64, s Scope, where int) {
	m := l.block.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	fenced := l.fenced
	l.release(s)
	if l.released == nil {
		l.released = map[uint64]*clock{}
	}
	l.released[address/8] = l.fenced // also for later stores to the same word
	l.store(address, size, v, where)
	l.fenced = fenced
}

// observe notes that a lane has read a version with a view. Only an acquire, now or as a fence later, makes
// use of it.
func (l *Lane) observe(s Scope, acquire bool, view *clock) {
	if s < GPU && !acquire {
		return
	}
	if s >= GPU {
		l.block.pending = l.block.pending.join(view)
		if !acquire {
			return
		}
		l.block.sees = l.block.sees.join(view)
	}
	l.sees = l.block.sees
}

// Refresh lets the lane, which leaves a barrier, see what others of its block have acquired, because
// causality is transitive.
func (l *Lane) Refresh() {
	l.block.memory.mu.Lock()
	defer l.block.memory.mu.Unlock()
	l.sees = l.block.sees
}

// release moves what the lane sees to the level of a scope. Stores that come later have a view of it.
func (l *Lane) release(s Scope) {
	m := l.block.memory
	m.tick()
	for level, b := range [...]*buffer{&l.buffer, &l.block.buffer, &m.gpu} {
		if Scope(level) < s {
			b.drain(every)
		}
	}
	if s >= GPU {
		l.fenced = l.sees.with(l.block.writer, m.stamp)
	}
	if s == System {
		m.device = m.device.join(l.fenced)
	}
}

// Fence is a release of what the lane sees, and an acquire of what it has read. Sequentially consistent
// fences also come after all others that came before.
func (l *Lane) Fence(s Scope, sequential bool) {
	m := l.block.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if s >= GPU {
		l.block.sees = l.block.sees.join(l.block.pending)
		if sequential {
			l.block.sees = l.block.sees.join(m.sequential)
		}
	}
	if s == System && sequential {
		l.block.sees = always(m.stamp) // the system's fences are not known
	}
	l.sees = l.block.sees
	l.release(s)
	if s >= GPU && sequential {
		m.sequential = m.sequential.join(l.fenced)
	}
}

// Atomic executes an operation in memory: do gets it done. Older stores of the lane to the same bytes come
// before, and those of others that the lane sees.
func (l *Lane) Atomic(address uint64, size int, s Scope, acquire, release bool, do func() uint64) uint64 {
	m := l.block.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tick()
	fenced := l.fenced
	if release {
		l.release(s)
	}
	same := func(o store) bool { return overlaps(o.address, o.size, address, size) }
	for _, b := range [...]*buffer{&l.buffer, &l.block.buffer, &m.gpu} {
		b.drain(same)
	}
	p := m.look(address / 8)
	old := p.view
	l.block.read(p, address/8, p.begin)
	v := do()
	m.wrote(address/8, l.block, old.join(l.fenced))
	l.fenced = fenced
	l.block.update(store{address: address, value: m.load(address, size), size: size})
	l.observe(max(s, GPU), acquire && s >= GPU, old)
	if acquire {
		l.sees = l.block.sees
	}
	return v
}
