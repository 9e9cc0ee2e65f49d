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
}

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
	w.mem, w.mask, w.base = ring[:slots*SlotSize], uint64(slots)-1, base
	w.slots = shm.Blocks(w.mem)
}

// Observe reads the count of consumed packets. It reports whether the ring looks as if packets were
// waiting in it, and its consumer has taken none since the call before. A ring that is used costs one
// load. The slots of a ring whose count has not changed are loaded one by one.
func (w *Witness) Observe() bool {
	if w.cache != nil && w.producer {
		w.cache.Invalidate(w.consumerLine)
	}
	last := w.count
	w.count = w.consumed.Observe()
	if w.count != last {
		return false
	}
	if w.cache != nil && !w.producer {
		w.cache.Invalidate(w.mem)
	}
	for i := range w.mask + 1 {
		if uint32(w.slots[i*lines].Word(0)>>32) != w.empty(i) {
			return true
		}
	}
	return false
}

// empty returns the sequence that a slot has if its last packet has been consumed.
func (w *Witness) empty(slot uint64) uint32 {
	back := (w.count - 1 - slot) & w.mask // so many packets were consumed after the slot's last one
	if w.count < w.base || back >= w.count-w.base {
		return 0 // there was none: the ring is in its first lap
	}
	return uint32(w.count - back)
}
