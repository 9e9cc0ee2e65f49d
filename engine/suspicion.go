//go:build linux && (amd64 || arm64)

package engine

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"time"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// A client that writes the right bytes to the wrong place sees nothing happen. To explain
// this, the device diagnoses one queue pair in every hintTurns-th step. What the diagnosis
// finds never changes what is executed.

// suspicionTime is how long a suspicion must last before it is explained. The memory of a
// correct client can look the same, but only between two of its stores.
const suspicionTime = 500 * time.Millisecond

// A suspicion is what a queue pair has been suspected of since RST. It also holds what has
// been explained, so that nothing is explained twice.
type suspicion struct {
	record    uint32 // value of the last send record that was explained, plus one; 0: none
	suspected codes.Code
	since     uint64 // device clock at which suspected was first found; 0: nothing is suspected
	said      bool   // suspected has been explained
	index     bool   // a wrong index in a control segment has been explained
	qpn       bool   // a wrong QPN in a control segment has been explained
	waits     bool   // it has been explained that the queue waits for ever
	receive   bool   // a receive record in host byte order has been explained
	reborn    bool   // the ring may hold WQEs from before a reset
}

// blindToRings keeps the device from reading WQEs that have not been announced. Such a read
// is a race, which the race detector rightly reports. Nothing depends on the value read.
const blindToRings = shm.RaceEnabled

// diagnose diagnoses the next queue pair.
func (sh *reporter) diagnose() {
	if len(sh.running) == 0 {
		return
	}
	sh.diagnosed = (sh.diagnosed + 1) % len(sh.running)
	q := sh.running[sh.diagnosed]
	if sh.timedUntil != 0 {
		sh.timePoll()
	}
	sh.enter(q)
	sh.diagnoseQP(q)
	sh.fault.qp = nil
}

// diagnoseQP explains what looks wrong with q. It explains a record in host byte order at
// once, and other suspicions after suspicionTime.
func (sh *reporter) diagnoseQP(q *qp) {
	send, receive := q.sq.record.Observe(), q.rq.record.Observe()
	if q.attr.State == control.StateRTS && q.suspicion.record != send+1 && swapped(send, q.sq.done, q.sq.mask+1) {
		sh.badRecord(q, send) // the function pending does not notice this: the low half of the record announces nothing
	}
	if q.rq.ring != nil && !q.suspicion.receive && swapped(receive, q.rq.done, q.rq.mask+1) {
		q.suspicion.receive = true
		sh.explainQueue(q, codes.RecordByteOrder, "receive record says %#08x, which is %d in host byte order; records are big-endian",
			receive, bits.ReverseBytes32(receive))
	}
	if q.suspicion.said {
		return
	}
	code, why := sh.suspect(q, send, receive)
	now := sh.hooks.hold(clock.Now())
	switch o := &q.suspicion; {
	case why == "":
		o.since = 0
	case o.since == 0 || o.suspected != code:
		o.suspected, o.since = code, now
	case now-o.since > clock.Cycles(suspicionTime):
		o.said = true
		sh.explainQueue(q, code, "%s", why)
	}
}

// suspect returns a code and a text for something that looks wrong with q. A queue pair of a
// correct client can look the same, but not for long. If nothing looks wrong, the text is
// empty.
func (sh *reporter) suspect(q *qp, send, receive uint32) (codes.Code, string) {
	switch q.attr.State {
	case control.StateINIT, control.StateRTR:
		if n := uint16(send) - uint16(q.sq.done); n != 0 && uint64(n) <= q.sq.mask+1 {
			return codes.PostState, fmt.Sprintf("send record announces %d blocks in state %s; they are executed in RTS", n, stateName(q.attr.State))
		}
	case control.StateRTS:
		if q.sq.done != 0 || send != 0 || q.sq.managed || q.suspicion.reborn || blindToRings || q.blocksAt(0) == 0 {
			break
		}
		// The first WQE is there, and the send record has never changed.
		switch {
		case countsBlocks(q, receive):
			return codes.RecordWord, fmt.Sprintf("word 0 of the doorbell record says %d, as many blocks as the send queue has in WQEs; "+
				"it counts receives. The send counter is word 1, at offset 4, and is 0", receive)
		case sh.rung(q):
			return codes.RegisterOnly, "a UAR register was written for this queue, but its send record is 0; the record is what counts"
		}
	}
	return 0, ""
}

// blocksAt returns how many blocks the WQE at an index has. It returns 0 if no WQE with the
// right index and QPN is there.
func (q *qp) blocksAt(index uint64) int {
	var b [wqe.CtrlSize]byte
	copy(b[:], q.sq.blocks.At(index)[:])
	if h := parseHead(&b); h.place() == place(q.num, index) && h.opcode() < 64 && q.allowed>>h.opcode()&1 != 0 {
		return h.blocks()
	}
	return 0
}

// walkEntries is how many entries countsBlocks reads at each end of the announced part of a
// ring, which can have 32768 entries.
const walkEntries = 16

// countsBlocks reports whether word, which is the value of word 0 of a record, counts blocks of
// the send queue and not receives. This is so if the WQEs at the beginning of the send queue
// have exactly as many blocks as the value says, and the queue pair has no receive queue, or
// one with fewer entries, or one whose entries were never written. If there are many entries,
// countsBlocks reads only the first and the last ones.
func countsBlocks(q *qp, word uint32) bool {
	n := uint64(word)
	if n == 0 || n > q.sq.mask+1 || q.rq.done != 0 {
		return false
	}
	at := uint64(0)
	for range walkEntries {
		if at == n {
			break
		}
		blocks := q.blocksAt(at)
		if at += uint64(blocks); blocks == 0 || at > n {
			return false
		}
	}
	if at != n && !q.endsAt(n) || q.blocksAt(n) != 0 {
		return false // fewer or more blocks have been written
	}
	if q.rq.ring == nil || n > q.rq.mask+1 {
		return true
	}
	for i := range min(n, walkEntries) {
		for _, entry := range [...]uint64{i, n - 1 - i} {
			if *(*[wqe.DataSize]byte)(q.rq.ring[entry<<q.rq.stride:]) != [wqe.DataSize]byte{} {
				return false
			}
		}
	}
	return true
}

// endsAt reports whether a WQE ends right before block n.
func (q *qp) endsAt(n uint64) bool {
	for blocks := 1; blocks <= wqe.MaxBlocks; blocks++ {
		if uint64(blocks) <= n && q.blocksAt(n-uint64(blocks)) == blocks {
			return true
		}
	}
	return false
}

// rung reports whether a register in the bank of q's UAR page names q.
func (sh *reporter) rung(q *qp) bool {
	mem := q.sq.registers.Bytes()
	for page := uint64(0); page < uint64(len(mem)); page += doorbell.UARPageSize {
		for at := page + doorbell.BFOffset; at < page+doorbell.UARPageSize; at += doorbell.BFHalf {
			if uint32(shm.BE64At(mem, at).Observe())>>8 == q.num {
				return true
			}
		}
	}
	return false
}

// place returns the QPN and the index of a WQE at the bit positions that they have in the
// first word of a control segment.
func place(qpn uint32, index uint64) wqe.OpWord { return wqe.MakeOpWord(0, uint16(index), qpn, 0) }

func (h head) place() wqe.OpWord { return h.first.Place() }

// checkPlace compares the index and the QPN in a WQE's control segment with the WQE's slot
// and queue. If they differ, the slot and the queue decide, and the difference is explained
// once. Managed queues may execute the same WQEs round after round, so they are not
// checked.
func (sh *reporter) checkPlace(q *qp, h head) {
	if h.place() != place(q.num, q.sq.done) {
		sh.misplaced(q, h)
	}
}

// misplacedNews reports whether the index or the QPN of a control segment is wrong in a way
// that has not been explained yet.
func (q *qp) misplacedNews(h head) bool {
	return !q.sq.managed && h.ds() != 0 &&
		(h.first.Index() != uint16(q.sq.done) && !q.suspicion.index || h.first.QPN() != q.num && !q.suspicion.qpn)
}

func (sh *reporter) misplaced(q *qp, h head) {
	if !q.misplacedNews(h) {
		return
	}
	if index := h.first.Index(); index != uint16(q.sq.done) && !q.suspicion.index {
		q.suspicion.index = true
		sh.explain(q, codes.IndexMismatch, "index %#04x in the control segment of block %#04x; it counts blocks of 64 bytes. The WQE is executed", index, uint16(q.sq.done))
	}
	if qpn := h.first.QPN(); qpn != q.num && !q.suspicion.qpn {
		q.suspicion.qpn = true
		why := ""
		if binary.BigEndian.Uint32(sh.scratch.wqe[4:]) == q.num {
			why = ", which is not shifted by 8 bits"
		}
		sh.explain(q, codes.QPNMismatch, "QPN %#06x in the control segment of QP %#06x%s. The WQE is executed", qpn, q.num, why)
	}
}
