package pool

import (
	"fmt"
	"time"

	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/internal/shm"
)

// A flow finds rings of a link that stand still, although both nodes live. One wrong word can do that: the
// consumer waits for a packet whose slot was overwritten, or the producer for room that the consumer has
// given. Nothing that is written into the ring later ends that. So the link begins anew, with empty rings.
type flow struct {
	rings [2]struct { // the ring that this node sends into, and the ring that it receives from
		w     *packetring.Witness
		moved time.Duration // when the ring was seen last to move, or to be empty
	}
	next time.Duration // when the rings are looked at next
	page uint32        // where the peer's ring was when it was looked at last
	base uint64        // first packet in it; 0: it has not moved. Two moves may come between two looks
}

// begin notes that the link has come up: from now on, its rings have to move.
func (f *flow) begin(r *pair, ran time.Duration) {
	p := r.l.p
	theirs := r.l.read()
	ring, err := theirs.ringIn(r.l.space())
	count := p.view.mem[r.l.theirsAt()+countAt:][:line]
	if err == nil {
		at := packetring.Place{Ring: r.bytes(), Count: count}
		f.rings[0].w, err = packetring.NewWitness(at, r.growth.ring, p.cache(), true, baseOf(r.mine))
	}
	if err == nil {
		at := packetring.Place{Ring: ring, Count: p.view.mem[r.at+countAt:][:line]}
		f.rings[1].w, err = packetring.NewWitness(at, theirs.ring, p.cache(), false, baseOf(r.yours))
	}
	if err != nil {
		f.rings[0].w, f.rings[1].w = nil, nil // the table has changed meanwhile: the next step sees that
	}
	f.rings[0].moved, f.rings[1].moved, f.next, f.page, f.base = ran, ran, ran, 0, 0
}

// follow notes that this node has moved the ring that it sends into.
func (f *flow) follow(ring []byte, slots int, base uint64) {
	if w := f.rings[0].w; w != nil {
		w.Follow(ring, slots, base)
	}
}

// received notes that the peer has moved the ring that this node receives from.
func (f *flow) received(r *pair) {
	page, slots, base := r.receive.Moves()
	if w := f.rings[1].w; w != nil && slots != 0 && (page != f.page || base != f.base) {
		f.page, f.base = page, base
		w.Follow(r.l.space()[uint64(page)*shm.PageSize:], slots, base)
	}
}

// stands returns why the link must begin anew, or "". Packets may wait for as long as a node may
// give no sign of life. An engine for which packets wait is woken: perhaps the word that says that it
// sleeps was overwritten.
func (l *link) stands(ran time.Duration) string {
	f := &l.pair.flow
	if ran < f.next || f.rings[1].w == nil {
		return ""
	}
	f.next = ran + min(ownPeriod, l.p.cfg.Dead/4)
	f.received(l.pair)
	for i := range f.rings {
		r := &f.rings[i]
		if !r.w.Observe() {
			r.moved = ran
			continue
		}
		if i == 1 {
			l.pair.port.Arrived()
		}
		if ran-r.moved > l.p.cfg.Dead {
			return fmt.Sprintf("the ring %s node %d stands still, with packets in it", [2]string{"to", "from"}[i], l.peer)
		}
	}
	return ""
}
