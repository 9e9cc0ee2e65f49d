//go:build linux && (amd64 || arm64)

package report

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"time"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/states"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// A client that writes the right bytes to the wrong place sees no effect. To explain this, the
// device diagnoses one queue pair in every ArmRoundSteps-th step. The diagnosis never changes what is
// executed.

const (
	// SuspicionTime is how long a suspicion must last before it is explained. The memory of a
	// correct client can look the same, but only between two of its stores.
	SuspicionTime = 500 * time.Millisecond

	// BlindToRings keeps the device from reading WQEs that have not been announced. Such a read
	// is a race, which the race detector rightly reports. The device does not depend on the value
	// read.
	BlindToRings = shm.RaceEnabled
)

// Diagnose diagnoses the next queue pair.
func (sh *Reporter) Diagnose() {
	if len(sh.Running) == 0 {
		return
	}
	sh.Diagnosed = (sh.Diagnosed + 1) % len(sh.Running)
	q := sh.Running[sh.Diagnosed]
	if sh.TimedUntil != 0 {
		sh.TimePoll()
	}
	sh.Enter(q)
	sh.DiagnoseQP(q)
	sh.Fault.QP = nil
}

// DiagnoseQP explains what looks wrong with q. It explains a record in host byte order at
// once, and other suspicions after SuspicionTime.
func (sh *Reporter) DiagnoseQP(q *object.QP) {
	send, receive := q.SQ.Record.Observe(), q.RQ.Record.Observe()
	if q.Attr.State == control.StateRTS && swapped(send, q.SQ.Done, q.SQ.Mask+1) {
		sh.badRecord(q, send) // Pending does not notice this: the low half of the record announces nothing
	}
	if q.RQ.Ring != nil && !q.Suspicion.Receive && swapped(receive, q.RQ.Done, q.RQ.Mask+1) {
		q.Suspicion.Receive = true
		sh.ExplainQueue(q, codes.RecordByteOrder, "receive record says %#08x, which is %d in host byte order; records are big-endian",
			receive, bits.ReverseBytes32(receive))
	}
	if q.Suspicion.Explained {
		return
	}
	code, why := sh.suspect(q, send, receive)
	now := sh.Hooks.Hold(clock.Now())
	s := &q.Suspicion
	switch {
	case why == "":
		s.Since = 0
	case s.Since == 0 || s.Suspected != code:
		s.Suspected, s.Since = code, now
	case now-s.Since > clock.Cycles(SuspicionTime):
		s.Explained = true
		sh.ExplainQueue(q, code, "%s", why)
	}
}

// suspect returns a code and a text for something that looks wrong with q. A queue pair of a
// correct client can look the same, but not for long. If nothing looks wrong, the text is
// empty.
func (sh *Reporter) suspect(q *object.QP, send, receive uint32) (code codes.Code, why string) {
	switch q.Attr.State {
	case control.StateINIT, control.StateRTR:
		if n := uint16(send) - uint16(q.SQ.Done); n != 0 && uint64(n) <= q.SQ.Mask+1 {
			return codes.PostState, fmt.Sprintf("send record announces %d blocks in state %s; they are executed in RTS", n, states.Name(q.Attr.State))
		}
	case control.StateRTS:
		if q.Source != nil {
			return suspectRegisters(q)
		}
		if q.SQ.Done != 0 || send != 0 || q.SQ.Managed || q.Suspicion.WasReset || BlindToRings ||
			q.BlocksAt(0) == 0 {
			break
		}
		// The first WQE is there, and the send record has never changed.
		switch {
		case countsBlocks(q, receive):
			return codes.RecordWord, fmt.Sprintf("word 0 of the doorbell record says %d, as many blocks as the send queue has in WQEs; "+
				"it counts receives. The send counter is word 1, at offset 4, and is 0", receive)
		case namedByRegister(q):
			return codes.RegisterOnly, "a UAR register was written for this queue, but its send record is 0; the record is what counts"
		}
	}
	return 0, ""
}

// WalkEntries is how many entries countsBlocks reads at each end of the announced part of a
// ring, which can have 32768 entries.
const WalkEntries = 16

// countsBlocks reports whether word, which is the value of word 0 of a record, seems to count blocks of
// the send queue and not receives. Two things must be true. The WQEs at the beginning of the send queue have
// exactly as many blocks as the value says. The queue pair has no receive queue, or a receive queue with
// fewer entries than the value says, or one whose entries were never written. If there are many entries,
// countsBlocks reads only the first and the last ones.
func countsBlocks(q *object.QP, word uint32) bool {
	n := uint64(word)
	if n == 0 || n > q.SQ.Mask+1 || q.RQ.Done != 0 {
		return false
	}
	at := uint64(0)
	for range WalkEntries {
		if at == n {
			break
		}
		blocks := q.BlocksAt(at)
		at += uint64(blocks)
		if blocks == 0 || at > n {
			return false
		}
	}
	endsAtN := at == n || q.EndsAt(n)
	if !endsAtN || q.BlocksAt(n) != 0 {
		return false // fewer or more blocks have been written
	}
	if q.RQ.Ring == nil || n > q.RQ.Mask+1 {
		return true
	}
	for i := range min(n, WalkEntries) {
		for _, entry := range [...]uint64{i, n - 1 - i} {
			if *(*[wqe.DataSize]byte)(q.RQ.Ring[entry<<q.RQ.Stride:]) != [wqe.DataSize]byte{} {
				return false
			}
		}
	}
	return true
}

// namedByRegister reports whether a register in the bank of q's UAR page names q.
func namedByRegister(q *object.QP) bool {
	mem := q.SQ.Registers.Bytes()
	for page := uint64(0); page < uint64(len(mem)); page += doorbell.UARPageSize {
		for at := page + doorbell.BFOffset; at < page+doorbell.UARPageSize; at += doorbell.BFHalf {
			if uint32(shm.BE64At(mem, at).Observe())>>8 == q.Num {
				return true
			}
		}
	}
	return false
}

// CheckPlace compares the index and the QPN in a WQE's control segment with the WQE's slot
// and queue. If they differ, the slot and the queue decide, and the difference is explained
// once. Managed queues may execute the same WQEs round after round, so they are not
// checked.
func (sh *Reporter) CheckPlace(q *object.QP, h object.Head) {
	if h.Place() != object.Place(q.Num, q.SQ.Done) {
		sh.misplaced(q, h)
	}
}

func (sh *Reporter) misplaced(q *object.QP, h object.Head) {
	if !q.NewlyMisplaced(h) {
		return
	}
	if index := h.First.Index(); index != uint16(q.SQ.Done) && !q.Suspicion.Index {
		q.Suspicion.Index = true
		sh.Explain(q, codes.IndexMismatch, "index %#04x in the control segment of block %#04x; it counts blocks of 64 bytes. The WQE is executed", index, uint16(q.SQ.Done))
	}
	if qpn := h.First.QPN(); qpn != q.Num && !q.Suspicion.QPN {
		q.Suspicion.QPN = true
		why := ""
		if binary.BigEndian.Uint32(sh.Scratch.WQE[4:]) == q.Num {
			why = ", which is not shifted by 8 bits"
		}
		sh.Explain(q, codes.QPNMismatch, "QPN %#06x in the control segment of QP %#06x%s. The WQE is executed", qpn, q.Num, why)
	}
}
