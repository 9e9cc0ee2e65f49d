package pool

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/internal/shm"
)

// Offsets in a pair of a node's table. The first line has how the two nodes agree on a session
// (session.go), where the ring is that this node sends into, and two words that wake a sleeping engine
// (wake.go). The second line has how many packets of the other node's ring this node has consumed.
const (
	mineAt   = 0  // the session that the node offers; 0: none
	yoursAt  = 8  // the session of the other node that the node has accepted; 0: none
	bellAt   = 16 // 4 bytes: number of the other node's sleep that the node has ended
	asleepAt = 20 // 4 bytes: number of the sleep of the node's engine; 0: it is awake
	peerAt   = 24 // 1 + number of the other node:16 | binary logarithm of the slots:8 | flags:8 | page:32
	sizeAt   = 32 // bytes of the data area
	heldAt   = 40 // 16 bytes: two extents that the other node may read; the second is of a larger ring
	heldByAt = 56 // 1 + number of the other node; kept when the pair ends (inherit.go)

	countAt = line
)

// flagUsed says in a pair that queue pairs of the node use it, or are about to.
const flagUsed = 1

// A place says to which node a pair leads, and where the ring to that node is.
type place struct {
	peer int    // number of the other node; -1: none
	page uint32 // where the ring begins, in pages from the first ring of the part on
	ring packetring.Geometry
	used bool // queue pairs of the node use the pair, or are about to
}

// An entry is a pair of another node's table.
type entry struct {
	place
	offered  uint64 // session
	accepted uint64 // session of the other node
}

var noEntry = entry{place: place{peer: -1}}

// errNoRing says that a pair's ring is not where a ring can be.
var errNoRing = errors.New("it says that its ring is where none can be")

// peerOf returns which node the word peerAt names, -1 for none.
func peerOf(word uint64) int { return int(word>>48) - 1 }

// words returns what is written at peerAt and sizeAt.
func (e *place) words() (peer, size uint64) {
	if e.peer < 0 {
		return 0, 0
	}
	peer = uint64(e.peer+1)<<48 | uint64(bits.TrailingZeros(uint(e.ring.Slots)))<<40 | uint64(e.page)
	if e.used {
		peer |= flagUsed << 32
	}
	return peer, uint64(e.ring.Data)
}

// putPlace writes a pair but for its sessions. writeBack follows.
func (v *view) putPlace(at uint64, e *place) {
	peer, size := e.words()
	v.put(at+sizeAt, size)
	v.put(at+peerAt, peer)
}

// pair reads a pair of another node. Where the ring is belongs to the session that is offered, or to a newer
// one. A node accepts after it has offered, so the offer read after the acceptance is at least as new.
//
// Observe: the other node's offer, published by pair.offer, and its acceptance, published by pair.accept.
func (v *view) pair(at uint64) (e entry) {
	v.invalidate(at, line)
	e.accepted = v.word(at + yoursAt)
	e.offered = v.word(at + mineAt)
	size, word := v.word(at+sizeAt), v.word(at+peerAt)
	e.peer, e.page, e.used = peerOf(word), uint32(word), word>>32&flagUsed != 0
	e.ring = packetring.Geometry{Slots: 1 << min(word>>40&0xff, 31), Data: int(min(size, 1<<33))}
	return e
}

// ringIn returns the bytes of a pair's ring in the memory of a node's rings.
func (e *place) ringIn(space []byte) ([]byte, error) {
	if err := e.ring.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoRing, err)
	}
	from, size := uint64(e.page)*shm.PageSize, uint64(e.ring.RingSize())
	if from > uint64(len(space)) || size > uint64(len(space))-from {
		return nil, fmt.Errorf("%w: %d bytes at byte %d of %d", errNoRing, size, from, len(space))
	}
	return space[from:][:size], nil
}

// find returns the index of the pair that names a node in the table of another one, -1 if there is none.
func (v *view) find(h *header, node, named int) int {
	for i := range h.pairs() {
		at := h.pairAt(node, i)
		v.invalidate(at, line)
		if peerOf(v.word(at+peerAt)) == named {
			return i
		}
	}
	return -1
}
