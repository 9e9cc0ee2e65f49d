package packetring

import "github.com/nicless/nicless/internal/shm"

// A Witness looks at a ring from outside, to find one that stands still: one wrong word, of a slot or of
// the count, can make the consumer wait for a packet that never comes, or the producer for room. It
// belongs to one side of the ring, but uses none of its state, so it may run beside it on another
// thread. It is not safe for concurrent use itself.
type Witness struct {
	slots        []shm.Block
	consumed     *shm.Word64
	consumerLine []byte
	mem          []byte
	cache        Cache
	producer     bool
	mask         uint64
	base         uint64 // number of the first packet in these slots
	count        uint64
	rests        int // so many looks at an empty ring go by before all slots are loaded again
}

// FullLook is how often a witness looks at an empty ring in memory without coherence until it loads all its
// slots again. Otherwise it loads the next slot only, because each line comes from the memory: all slots of
// 16 idle rings of 512 slots would be more lines than the looks of an idle node at a thousand others. The
// slot of a packet that somebody has replaced by exactly what was there before is found as much later.
const FullLook = 16

// NewWitness returns a witness of the ring in a place for its producer or for its consumer. base is the
// number of the first packet in the ring.
func NewWitness(at Place, g Geometry, cache Cache, producer bool, base uint64) (*Witness, error) {
	if err := g.check(at); err != nil {
		return nil, err
	}
	w := &Witness{
		consumed: shm.Word64At(at.Count, 0), consumerLine: at.Count[:line], cache: cache, producer: producer,
	}
	w.Follow(at.Ring, g.Slots, base)
	return w, nil
}

// Follow makes the witness look at another ring, whose first packet has the number base.
func (w *Witness) Follow(ring []byte, slots int, base uint64) {
	w.mem, w.mask, w.base, w.rests = ring[:slots*SlotSize], uint64(slots)-1, base, 0
	w.slots = shm.Blocks(w.mem)
}

// Observe reads the count of consumed packets. It reports whether the ring looks as if packets were
// waiting in it, and its consumer has taken none since the call before. A ring that is used costs one
// load. The slots of a ring whose count has not changed are loaded one by one, without coherence seldom
// (FullLook).
func (w *Witness) Observe() bool {
	if w.cache != nil && w.producer {
		w.cache.Invalidate(w.consumerLine)
	}
	last := w.count
	w.count = w.consumed.Observe()
	if w.count != last {
		w.rests = 0
		return false
	}
	if w.cache != nil && !w.producer {
		at := w.count & w.mask
		w.cache.Invalidate(w.mem[at*SlotSize:][:line])
		if w.rests > 0 && w.isEmpty(at) {
			w.rests--
			return false
		}
		w.cache.Invalidate(w.mem)
	}
	w.rests = 0
	for i := range w.mask + 1 {
		if !w.isEmpty(i) {
			return true
		}
	}
	w.rests = FullLook - 1
	return false
}

// isEmpty reports whether the packet that was in a slot last has been consumed.
func (w *Witness) isEmpty(slot uint64) bool {
	return uint32(w.slots[slot*lines].Word(0)>>32) == w.empty(slot)
}

// empty returns the sequence that a slot has if its last packet has been consumed.
func (w *Witness) empty(slot uint64) uint32 {
	back := (w.count - 1 - slot) & w.mask // so many packets were consumed after the slot's last one
	if w.count < w.base || back >= w.count-w.base {
		return 0 // there was none: the ring is in its first lap
	}
	return uint32(w.count - back)
}
