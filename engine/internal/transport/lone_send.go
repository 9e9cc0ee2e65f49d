//go:build linux && (amd64 || arm64)

package transport

import (
	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/linepacket"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/traffic"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// A program that waits for each completion announces one WQE at a time. The time until the packet of such a
// WQE is in the ring is part of each round trip, so what the loops over many WQEs need is left out, and
// everything that can wait is done after the packet has been published: while its line is on its way.

// sendLone sends q's next WQE if it is the only one that is announced and a WRITE whose packet is one line.
// It reports whether it has. When it is called, q is in RTS, all its messages have been sent, and it has no
// job.
//
// The clock is read after the packet has been published. If reading the WQE or its payload takes long,
// because of their memory, this counts as a slow poll of q.
func (sh *sender) sendLone(q *object.QP) bool {
	w := q.Wire
	if uint16(q.SQ.Record.Observe()) != uint16(q.SQ.Done+1) || q.SQ.Managed {
		return false
	}
	if q.Stall.Kind != object.NoStall || !sh.mayRequest(q) || !w.CanFetch() {
		return false
	}
	b := q.SQ.Blocks.At(q.SQ.Done)
	h := execution.HeadOf(b)
	near, _, ok := sh.shortPiece(q, b, h, min(linepacket.MostPayload, uint64(w.MTU)), new(foundKey))
	if !ok || h.Opcode() != wqe.OpRDMAWrite || !isPlain(q, h) || !publishLine(w, b, near) {
		return false
	}
	sh.Started(q)
	noteLine(w, h, len(near))
	sh.allSent(w)
	sh.Sched.Spent = len(near) + object.PieceCost
	return true
}

// sendLine is sendLines for one WRITE.
func sendLine(w *object.Wire, b *shm.Block, h object.Head, near []byte) (done int) {
	if !publishLine(w, b, near) {
		return 0
	}
	noteLine(w, h, len(near))
	return 1
}

// publishLine sends the WRITE in block b, whose payload is near, as a packet of one line, which goes from
// registers into the ring. It reports whether the ring had room.
func publishLine(w *object.Wire, b *shm.Block, near []byte) bool {
	return linepacket.PublishWrite(w.Port.Settings.Send, w.Path, w.Q.Attr.DestQPN, w.Out.PSN,
		wqe.KeyWord(b.Word(wqe.WordRKey)).RKey(), b.Word(wqe.WordRAddr), near)
}

// noteLine makes a message of the WRITE of n bytes that publishLine has sent. h is its control segment.
func noteLine(w *object.Wire, h object.Head, n int) {
	q := w.Q
	w.Port.Sent(1, n)
	traffic.Sent(q, n)
	w.Out.Push(q, h, uint64(n), 1, false)
	q.SQ.Done++
}
