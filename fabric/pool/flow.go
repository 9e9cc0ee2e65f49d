package pool

import (
	"fmt"
	"time"

	"github.com/nicless/nicless/internal/packetring"
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
}

// open makes the flow of a link, from the ring that this node sends into and the one that it receives from.
func (f *flow) open(p *Pool, send, receive []byte) (err error) {
	f.rings[0].w, err = packetring.NewWitness(send, p.header.ring, p.cache(), true)
	if err != nil {
		return err
	}
	f.rings[1].w, err = packetring.NewWitness(receive, p.header.ring, p.cache(), false)
	return err
}

// begin notes that the link has come up: from now on, its rings have to move.
func (f *flow) begin(ran time.Duration) {
	f.rings[0].moved, f.rings[1].moved, f.next = ran, ran, ran
}

// stands returns why the link must begin anew, or "". Packets may wait for as long as a node may
// give no sign of life. An engine for which packets wait is woken: perhaps the word that says that it
// sleeps was overwritten.
func (l *link) stands(ran time.Duration) string {
	f := &l.flow
	if ran < f.next {
		return ""
	}
	f.next = ran + min(ownPeriod, l.p.cfg.Dead/4)
	for i := range f.rings {
		r := &f.rings[i]
		if !r.w.Observe() {
			r.moved = ran
			continue
		}
		if i == 1 {
			l.port.Arrived()
		}
		if ran-r.moved > l.p.cfg.Dead {
			return fmt.Sprintf("the ring %s node %d stands still, with packets in it", [2]string{"to", "from"}[i], l.peer)
		}
	}
	return ""
}
