//go:build linux && (amd64 || arm64)

package explore

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/verdict"
	"github.com/nicless/nicless/wqe"
)

// poll takes at most n completions of q, and judges them.
func (w *world) poll(q *end, n int) {
	for ; n > 0 && w.fault == nil && w.checked <= mostChecked; n-- {
		at := int(cqe.Slot(q.cq.next, q.cq.log)) * cqe.Size
		entry := (*[cqe.Size]byte)(q.cq.ring[at:])
		if !cqe.Valid(cqe.OpOwn(entry[cqe.Size-1]), q.cq.next, q.cq.log) {
			break
		}
		copied := *entry
		w.tape.polled(w, q, &copied)
		q.cq.next++
		put32(q.cq.record, uint32(q.cq.next)&0xffffff)
		w.polled++
		times := 1
		if p := w.plan.Plant; p != nil && p.Lose == w.polled {
			times = 0
		} else if p != nil && p.Repeat == w.polled {
			times = 2
		}
		for range times {
			w.completion(q, &copied)
		}
	}
	if w.fault == nil {
		w.compare(q)
	}
}

// blame notes a fault, unless there is one. Others follow from the first.
func (w *world) blame(k verdict.Kind, q *end, expected, format string, args ...any) {
	if w.fault != nil {
		return
	}
	w.fault = verdict.New(k, expected, format, args...)
	w.fault.Who = q.name()
}

// completion judges a completion.
func (w *world) completion(q *end, b *[cqe.Size]byte) {
	c := cqe.ParseWC(b)
	w.seen.Completions++
	switch {
	case c.Status == cqe.StatusFlush:
		w.seen.Flushed++
	case c.Status != cqe.StatusSuccess:
		w.seen.Errors++
	}
	switch {
	case c.Status == cqe.StatusNone:
		w.blame(verdict.WrongBytes, q, "a completion of a WQE or a receive", "a completion with the opcode %v", c.Kind)
	case c.QPN != q.qpn:
		w.blame(verdict.WrongBytes, q, hex(q.qpn), "a completion of qp %s", hex(c.QPN))
	case index(b) != q.userIndex():
		w.blame(verdict.WrongBytes, q, "user index "+hex(q.userIndex()), "user index %s, %s for index %d",
			hex(index(b)), c.Status, c.Counter)
	case c.Requester():
		w.sendDone(q, c, b[cqe.OffQPN])
	default:
		w.receiveDone(q, c)
	}
}

// index returns the user index of a completion.
func index(b *[cqe.Size]byte) uint32 { return binary.BigEndian.Uint32(b[cqe.OffUIdx:]) & 0xffffff }

// sendDone judges the completion of a work request, and of those before it that complete silently. op is
// the opcode of the WQE that it names.
func (w *world) sendDone(q *end, c cqe.WC, op byte) {
	i := slices.IndexFunc(q.work, func(r *request) bool { return r.index == c.Counter })
	if i < 0 {
		w.blame(verdict.Repeated, q, "one completion for each WQE that is posted", "%s for wqe %d, which is not posted or has completed", c.Status, c.Counter)
		return
	}
	l := q.life
	failed := l.sendFlushed || len(l.failed) > 0
	for len(q.work) > 0 && q.work[0].index != c.Counter {
		r := q.work[0]
		if !r.Silent || failed {
			w.blame(verdict.Lost, q, "a completion of "+r.name()+" first", "%s for wqe %d", c.Status,
				c.Counter)
			return
		}
		q.work = q.work[1:]
		w.succeeded(r)
	}
	r := q.work[0]
	q.work = q.work[1:]
	switch {
	case op != byte(r.opcode):
		w.blame(verdict.WrongBytes, q, "the opcode of "+r.name(), "the opcode 0x%02x, %s for it", op, c.Status)
	case c.Syndrome == cqe.Flush:
		if !failed || w.late {
			w.mayHaveHappened(r) // it was under way
		}
		l.sendFlushed, l.flushed = true, true
	case failed:
		w.blame(verdict.WrongBytes, q, "WR_FLUSH_ERR after an error", "%s for %s", c.Status, r.name())
	case c.Status != cqe.StatusSuccess:
		l.failed = append(l.failed, failure{r, c.Syndrome, c.VendorErr})
		w.mayHaveHappened(r)
	case r.Silent:
		w.blame(verdict.Repeated, q, "no completion, because "+r.name()+" has no signal", "%s for it", c.Status)
	case cannot(r):
		w.blame(verdict.WrongBytes, q, "LOC_QP_OP_ERR", "SUCCESS for %s on %s", r.name(), q.link.Transport)
	default:
		w.checkFields(q, r, c)
		w.succeeded(r)
	}
}

// checkFields checks the fields of a completion without an error.
func (w *world) checkFields(q *end, r *request, c cqe.WC) {
	var op cqe.WCOpcode
	bytes := uint32(0)
	switch r.opcode {
	case wqe.OpSend, wqe.OpSendImm:
		op = cqe.WCSend
	case wqe.OpRDMAWrite, wqe.OpRDMAWriteImm:
		op = cqe.WCRDMAWrite
	case wqe.OpRDMARead:
		op, bytes = cqe.WCRDMARead, uint32(r.N)
	case wqe.OpAtomicFA:
		op, bytes = cqe.WCFetchAdd, 8
	case wqe.OpAtomicCS:
		op, bytes = cqe.WCCompSwap, 8
	default:
		return // only the poster knows
	}
	if c.Opcode != op || c.ByteLen != bytes {
		w.blame(verdict.WrongBytes, q, op.String()+", "+count(int(bytes), "byte"), "%s, %s for %s", c.Opcode,
			count(int(c.ByteLen), "byte"), r.name())
	}
}

// receiveDone judges the completion of a receive.
func (w *world) receiveDone(q *end, c cqe.WC) {
	r := q.receives
	index := c.Counter
	size, posted := r.list[index]
	if !posted {
		w.blame(verdict.Repeated, q, "one completion for each receive that is posted", "%s for receive %d, which is not posted or has completed", c.Status, index)
		return
	}
	if !r.shared && index != r.next {
		w.blame(verdict.Lost, q, "receive "+count(int(r.next), ""), "%s for receive %d", c.Status, index)
		return
	}
	r.next++
	delete(r.list, index)
	l := q.life
	from := l.peer
	if c.Status != cqe.StatusSuccess {
		if c.Syndrome == cqe.Flush {
			l.flushed = true
		} else {
			l.broken = true
			if !r.explains(c.Syndrome) && !(c.Syndrome == cqe.LocalAccess && w.refusesImmediate(q)) {
				w.blame(verdict.WrongBytes, q, "SUCCESS", "%s for receive %d of %s", c.Status, index, count(size, "byte"))
			}
		}
		could := w.stained(r, index)
		for _, m := range from.messages[from.matched:] {
			could = append(could, m.into(r, index))
		}
		w.adopt(q, &r.area, r.slot(index), messageSize, could)
		return
	}
	m := from.take(q, c)
	if m == nil {
		w.blame(verdict.Repeated, q, "no message", "%s, %s, immediate 0x%08x in receive %d", c.Opcode, count(int(c.ByteLen), "byte"), c.Imm, index)
		return
	}
	l.arrived++
	imm := uint32(0)
	op := cqe.WCRecv
	if m.opcode != wqe.OpSend {
		imm = m.immediate()
	}
	if m.opcode == wqe.OpRDMAWriteImm {
		op = cqe.WCRecvRDMAImm
	}
	got := c.Imm
	if c.Flags&cqe.WCWithImm == 0 {
		got = 0
	}
	grh := q.link.grh()
	if c.Opcode != op || int(c.ByteLen) != m.N+grh || got != imm {
		want := op.String() + ", " + count(m.N, "byte") + ", immediate " + hex(imm) + " of " + m.name()
		w.blame(verdict.WrongBytes, q, want, "%s, %s, immediate %s in receive %d", c.Opcode, count(int(c.ByteLen), "byte"), hex(got), index)
		return
	}
	n := 0
	if op == cqe.WCRecv {
		at := r.slot(index)
		copy(r.shadow[at:at+grh], r.mem[at:]) // the header has addresses that the plan does not know
		n = grh + copy(r.shadow[at+grh:], pattern(m.ID, m.N))
	}
	if grh > 0 && c.SrcQP != q.peer.qpn {
		w.blame(verdict.WrongBytes, q, "source "+hex(q.peer.qpn), "source %s of %s", hex(c.SrcQP), m.name())
		return
	}
	if could := w.stained(r, index); len(could) > 0 {
		w.adopt(q, &r.area, r.slot(index)+n, messageSize-n, could)
	}
}

// explains reports whether the plan explains the error of a receive.
func (r *receives) explains(s cqe.Syndrome) bool {
	switch s {
	case cqe.LocalLength:
		return r.least < messageSize
	case cqe.LocalProtection:
		return r.keyOut
	}
	return false
}

// take returns the message that a completed receive has, or nil if there is none for it. The messages of UC
// may be lost, so there it is the first one that fits.
func (l *life) take(q *end, c cqe.WC) *request {
	for l.matched < len(l.messages) {
		m := l.messages[l.matched]
		l.matched++
		if q.link.reliable() {
			m.arrived = true
			return m
		}
		imm := c.Flags&cqe.WCWithImm != 0
		if int(c.ByteLen) != m.N+q.link.grh() || imm != (m.opcode != wqe.OpSend) {
			continue
		}
		if imm && c.Imm != m.immediate() {
			continue
		}
		slot := q.receives.slot(c.Counter) + q.link.grh()
		same := bytes.Equal(q.receives.mem[slot:slot+m.N], pattern(m.ID, m.N))
		if m.opcode == wqe.OpRDMAWriteImm || same {
			m.arrived = true
			return m
		}
	}
	return nil
}
