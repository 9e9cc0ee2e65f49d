package order

import (
	"math/rand/v2"
	"slices"
	"sync"
)

// A Scope says who is meant by an operation.
type Scope uint8

// The scopes. Weak operations have none.
const (
	Weak Scope = iota
	Block
	GPU
	System
)

func (s Scope) String() string { return [...]string{"weak", "cta", "gpu", "sys"}[s] }

// Raw is the memory that all of the system share, with values of 1, 2, 4 or 8 bytes.
type Raw interface {
	Load(address uint64, size int) uint64
	Store(address uint64, size int, value uint64)
}

// A Memory is what a GPU has between its lanes and the memory of the system. Its methods, and those of its
// lanes, are safe for concurrent use; what one goroutine does with it, a seed repeats.
type Memory struct {
	mu            sync.Mutex
	raw           Raw
	rng           *rand.Rand
	gpu           buffer
	dirty         []*buffer // those that have stores
	stamp         uint64    // counts operations
	delay         [4]int    // of the stores of a level, one in so many goes on at each operation
	late          map[Pair]Addresses
	words         map[uint64]*past
	known         []uint64 // the keys of words
	dropped       uint64   // what was stored before this operation may not be in words
	blocks        int      // how many there were
	sequential    *clock   // what sequentially consistent fences have released
	sinceFlush    *clock   // what everybody knows
	device        *clock   // what has been released to the system: the device may know it
	turns, pauses int
	lingers       bool   // a warp often pauses for long after a release, before it does what comes next
	slow          uint64 // of the store instructions, one in four is slower still: those with this remainder
}

// New returns a memory.
func New(raw Raw, seed uint64) *Memory {
	m := &Memory{
		raw: raw, rng: rand.New(rand.NewPCG(seed, 0x6e69636c657373)), late: map[Pair]Addresses{},
		words: map[uint64]*past{},
	}
	m.gpu = buffer{memory: m, level: GPU}
	for level := range m.delay {
		m.delay[level] = []int{2, 8, 64, 512}[m.rng.IntN(4)]
	}
	m.slow = m.rng.Uint64N(4)
	m.turns = []int{16, 128, 1024}[m.rng.IntN(3)]
	m.pauses = []int{0, 16, 128}[m.rng.IntN(3)]
	m.lingers = m.rng.IntN(2) == 0
	return m
}

// A buffer has stores that only some lanes see.
type buffer struct {
	memory *Memory
	level  Scope   // Weak: of a lane
	up     *buffer // nil: memory
	block  *Shared // of a block's buffer
	stores []store
	listed int // 1 + its index in dirty, or 0
}

// A store is bytes that are not in memory yet.
type store struct {
	address, value uint64
	size           int
	lane           *Lane
	number         uint64 // of the lane's stores
	where          int    // the instruction
	view           *clock // those who acquire it know this much
}

// overlaps reports whether two accesses have bytes in common.
func overlaps(a uint64, n int, b uint64, m int) bool { return a < b+uint64(m) && b < a+uint64(n) }

// A Shared is a block: its buffer, and the lines that it has loaded.
type Shared struct {
	memory  *Memory
	buffer  buffer
	lines   map[uint64]*line
	writer  int               // its entry in clocks
	sees    *clock            // what its lanes have acquired
	pending *clock            // what they would, if they had a fence after what they have read
	seen    map[uint64]uint64 // words: older versions than this operation's are not seen
}

// NewBlock returns a block.
func (m *Memory) NewBlock() *Shared {
	b := &Shared{memory: m, lines: map[uint64]*line{}, seen: map[uint64]uint64{}, sees: m.sinceFlush}
	b.writer = m.blocks % writers
	m.blocks++
	b.buffer = buffer{memory: m, level: Block, up: &m.gpu, block: b}
	return b
}

// A Lane is a lane of a block.
type Lane struct {
	block    *Shared
	buffer   buffer
	stores   uint64            // how many it has begun
	sees     *clock            // older lines and versions are not seen
	released map[uint64]*clock // as fenced, by words that it has released
	fenced   *clock            // what those know who acquire its later stores
}

// NewLane returns a lane.
func (b *Shared) NewLane() *Lane {
	l := &Lane{block: b, sees: b.sees, fenced: b.sees}
	l.buffer = buffer{memory: b.memory, level: Weak, up: &b.buffer}
	return l
}

// put appends a store to a buffer.
func (b *buffer) put(s store) {
	b.stores = append(b.stores, s)
	if b.listed == 0 {
		b.memory.dirty = append(b.memory.dirty, b)
		b.listed = len(b.memory.dirty)
	}
}

// clean takes a buffer that is empty out of the list.
func (b *buffer) clean() {
	if len(b.stores) > 0 || b.listed == 0 {
		return
	}
	m := b.memory
	last := m.dirty[len(m.dirty)-1]
	m.dirty[b.listed-1], last.listed = last, b.listed
	m.dirty = m.dirty[:len(m.dirty)-1]
	b.listed = 0
}

// advance moves a store to the next level, and before it those that are older and overlap it.
func (b *buffer) advance(k int) {
	s := b.stores[k]
	for j := 0; j < k; {
		if o := b.stores[j]; !overlaps(o.address, o.size, s.address, s.size) {
			j++
			continue
		}
		n := len(b.stores)
		b.advance(j)
		gone := n - len(b.stores) // that one, and those that it overlaps
		k -= gone
		j -= gone - 1
	}
	b.stores = slices.Delete(b.stores, k, k+1)
	if b.block != nil {
		b.block.update(s)
	}
	switch {
	case b.block != nil:
		b.memory.look(s.address / 8)
		b.up.put(s)
		b.memory.wrote(s.address/8, b.block, s.view)
	case b.up != nil:
		b.up.put(s)
	default:
		b.memory.arrive(s)
	}
	b.clean()
}

// drain moves all stores that pass to the next level.
func (b *buffer) drain(passes func(store) bool) {
	for k := 0; k < len(b.stores); {
		if !passes(b.stores[k]) {
			k++
			continue
		}
		n := len(b.stores)
		b.advance(k)
		k = max(0, k-(n-len(b.stores)-1))
	}
}

func every(store) bool { return true }

// tick counts an operation, and lets some stores go on.
func (m *Memory) tick() {
	m.stamp++
	if len(m.known) > 0 && m.stamp%2 == 0 {
		m.look(m.known[m.rng.IntN(len(m.known))])
	}
	for range 2 {
		if len(m.dirty) == 0 {
			return
		}
		b := m.dirty[m.rng.IntN(len(m.dirty))]
		k := m.rng.IntN(len(b.stores))
		delay := m.delay[b.level]
		if uint64(b.stores[k].where)%4 == m.slow {
			delay *= 32
		}
		if len(b.stores) > maxStores || m.rng.IntN(delay) == 0 {
			b.advance(k)
		}
	}
}

// maxStores is how many stores a buffer has before they go on in any case.
const maxStores = 1 << 12

// Turn returns how many instructions a warp executes, most at most, before others have their turn, and
// how many turns it lets pass then.
func (m *Memory) Turn(most int) (instructions, pause int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rng.IntN(8) == 0 {
		pause = m.rng.IntN(64)
	}
	return 1 + m.rng.IntN(min(m.turns, most)), pause
}

// Preempt returns for how many turns a warp pauses after a store or a fence, a release or not: what matters
// happens there. Most of the time it is 0.
func (m *Memory) Preempt(release bool) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if release && m.lingers && m.rng.IntN(2) == 0 {
		return 1 + m.rng.IntN(mostTurns)
	}
	if m.rng.IntN(4) != 0 {
		return 0
	}
	return 1 + m.rng.IntN(1+m.pauses)
}

// mostTurns is for how many turns a warp lingers at most: some hundred instructions of each other one.
const mostTurns = 512

// Flush moves all stores to memory, in any order, as the end of a grid does. Those who come later see nothing
// older.
func (m *Memory) Flush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.dirty) > 0 {
		b := m.dirty[m.rng.IntN(len(m.dirty))]
		b.advance(m.rng.IntN(len(b.stores)))
	}
	m.drop()
	m.sinceFlush = always(m.stamp)
}
