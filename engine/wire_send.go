//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
)

// sendMessage continues to send message at, and reports whether all its packets were sent.
func (sh *sender) sendMessage(q *qp, bytes *int) (done int, all bool) {
	r := &q.wire.out
	m := r.message(r.at)
	if r.job != nil && !sh.current(r.job) {
		sh.dropJob(r)
	}
	if r.job == nil {
		j := sh.judgeAgain(q, m, r.at == r.first)
		if j == nil {
			return 0, false
		}
		if !m.answers {
			j.skip(uint64(r.sent) * uint64(q.wire.mtu))
		}
		r.job = j
	}
	done, all = sh.sendPackets(q, m, bytes)
	if !all {
		sh.keepScratch(r, m)
	}
	return done, all
}

// skip advances the source of j by n bytes.
func (j *job) skip(n uint64) {
	if n > 0 {
		j.src.skip(n)
		j.moved += n
	}
}

// judgeAgain judges the WQE of a message again, because a packet of it is to be sent again or
// its answer has come. It returns nil if that is not possible. If the message is the oldest, its
// WQE has failed then.
func (sh *sender) judgeAgain(q *qp, m *message, oldest bool) *job {
	done := q.sq.done
	q.sq.done = m.index
	sh.snapshot(q)
	h := parseHead((*[wqe.CtrlSize]byte)(sh.scratch.wqe[:]))
	sh.trial = !oldest
	v := failed
	if h == m.head {
		v = sh.judge(q, uint16(m.blocks))
	}
	same := h == m.head && (v != accepted || sh.scratch.job.total == m.total)
	sh.trial = false
	if !oldest || v == accepted && same {
		q.sq.done = done
	}
	switch {
	case !same && oldest:
		sh.explainQueue(q, codes.WQEChanged, "the WQE at index %#04x was changed while it was being sent", uint16(m.index))
		sh.scratch.job.reset(m.head)
		sh.fail(q, sh.scratch.job, cqe.LocalQPOp)
		return nil
	case v != accepted || !same:
		return nil
	}
	return sh.scratch.job
}

// sendPackets sends packets of a message from number sent on, while there is room and budget, and
// reports whether the last one was sent.
func (sh *sender) sendPackets(q *qp, m *message, bytes *int) (done int, all bool) {
	w := q.wire
	r := &w.out
	for r.sent < m.psns {
		if *bytes <= 0 || r.closed() {
			return done, false
		}
		n, ok := uint32(1), false
		switch {
		case m.answers:
			n, ok = sh.sendAsk(q, m)
		default:
			ok = sh.sendData(q, m, bytes)
		}
		if !ok {
			if r.first != r.last && q.reliable() && !w.timer.running() {
				sh.startTimer(w) // the ring is full; if it stays so, the message must not wait for ever
			}
			return done, false
		}
		done++
		r.sent += n
		if now := packet.AddPSN(m.psn, r.sent); packet.DiffPSN(now, r.most) > 0 {
			r.most = now
		} else {
			w.port.stats.Resent += uint64(n)
		}
		if !q.reliable() {
			r.una = r.most // nothing acknowledges them
		} else if !w.timer.running() {
			sh.startTimer(w)
		}
	}
	r.at++
	r.sent = 0
	sh.dropJob(r)
	if !q.reliable() {
		r.first++
		return done, sh.finishMessage(q, m)
	}
	return done, true
}

// sendData sends one packet of a SEND or a WRITE.
func (sh *sender) sendData(q *qp, m *message, bytes *int) bool {
	w := q.wire
	i := w.out.sent
	j := w.out.job
	off := uint64(i) * uint64(w.mtu)
	n := int(min(m.total-off, uint64(w.mtu)))
	last := i+1 == m.psns
	op := packet.MakeOpcode(q.service(), operationOf(m.head.opcode(), i == 0, last))
	info := op.Info()
	if !w.port.up { // the packet is lost, and the timer notices it
		j.skip(uint64(n))
		*bytes -= pieceCost
		return true
	}
	h, payload, ok := w.port.reserve(info.HeaderSize, n)
	if !ok {
		return false
	}
	if n > 0 {
		j.dst.reset()
		j.dst.add(payload, nil, 0, uint64(n))
		if !sh.transfer(j, uint64(n)) {
			sh.localGap(q, j, m)
			return false
		}
	}
	psn := packet.AddPSN(m.psn, i)
	// Without an acknowledgement nothing opens a closed window, if not the timer.
	closes := packet.DiffPSN(psn, w.out.una)+1 >= int32(w.out.window)
	w.putBTH(h, op, psn, last || closes || i%ackEvery == ackEvery-1, last && m.head.solicited() && info.Last)
	w.putExtensions(h, info, m, j, off)
	w.port.publish(w.path, n)
	*bytes -= n + pieceCost + sh.takeEffort()
	return true
}

// putExtensions writes the extension headers of a request.
func (w *wire) putExtensions(h []byte, info *packet.Info, m *message, j *job, off uint64) {
	r := &j.request
	if info.XRCETH {
		packet.XRCETH{SRQN: r.srqn}.Put((*[packet.XRCETHSize]byte)(h[info.OffXRCETH:]))
	}
	if info.RETH {
		packet.RETH{Addr: r.addr + off, RKey: r.rkey, Length: uint32(m.total - off)}.Put((*[packet.RETHSize]byte)(h[info.OffRETH:]))
	}
	if info.Imm {
		packet.ImmDt(m.head.imm()).Put((*[packet.ImmDtSize]byte)(h[info.OffImm:]))
	}
	if info.IETH {
		packet.IETH{RKey: m.head.imm()}.Put((*[packet.IETHSize]byte)(h[info.OffIETH:]))
	}
}

// sendAsk sends the request of a READ or an atomic, and returns how many packets of the answer
// it asks for. A long READ is asked for in parts that fit into the window, one after another: the
// responder counts each as a READ, and allows max_rd_atomic of them. When a part is asked for
// again, the request ends where the part ends: a responder takes no request of which it has
// executed one half before.
func (sh *sender) sendAsk(q *qp, m *message) (n uint32, ok bool) {
	w := q.wire
	r := &w.out
	op := packet.MakeOpcode(q.service(), operationOf(m.head.opcode(), true, true))
	info := op.Info()
	n = min(m.psns-r.sent, m.part-r.sent%m.part)
	if ahead := packet.DiffPSN(r.next(), r.una); r.sent > m.answered || ahead > 0 && ahead+int32(n) > int32(r.window) {
		return 0, false
	}
	if !w.port.up {
		return n, true
	}
	h, _, ok := w.port.reserve(info.HeaderSize, 0)
	if !ok {
		return 0, false
	}
	w.putBTH(h, op, packet.AddPSN(m.psn, r.sent), true, false)
	if info.RETH {
		off := uint64(r.sent) * uint64(w.mtu)
		part := min(m.total-off, uint64(n)*uint64(w.mtu))
		w.putExtensions(h, info, &message{head: m.head, total: off + part}, r.job, off)
	} else {
		w.putExtensions(h, info, m, r.job, 0)
		putAtomic(h[info.OffAtomicETH:], r.job)
	}
	w.port.publish(w.path, 0)
	return n, true
}

// putAtomic writes the header of an atomic. Its operands are big-endian in the WQE, too.
func putAtomic(h []byte, j *job) {
	a := wqe.ParseAtomic((*[wqe.AtomicSize]byte)(j.request.operand))
	packet.AtomicETH{Addr: j.request.addr, RKey: j.request.rkey, SwapAdd: a.SwapAdd, Compare: a.Compare}.Put((*[packet.AtomicETHSize]byte)(h))
}

// operationOf returns the operation of a packet of a WQE.
func operationOf(op wqe.Opcode, first, last bool) packet.Operation {
	switch op {
	case wqe.OpRDMARead:
		return packet.ReadRequest
	case wqe.OpAtomicCS:
		return packet.CompareSwap
	case wqe.OpAtomicFA:
		return packet.FetchAdd
	}
	base, imm := packet.SendFirst, op == wqe.OpSendImm
	if op == wqe.OpRDMAWrite || op == wqe.OpRDMAWriteImm {
		base, imm = packet.WriteFirst, op == wqe.OpRDMAWriteImm
	}
	switch {
	case op == wqe.OpSendInval && last && first:
		return packet.SendOnlyInv
	case op == wqe.OpSendInval && last:
		return packet.SendLastInv
	case first && last && imm:
		return base + packet.SendOnlyImm
	case first && last:
		return base + packet.SendOnly
	case last && imm:
		return base + packet.SendLastImm
	case last:
		return base + packet.SendLast
	case first:
		return base
	}
	return base + packet.SendMiddle
}

// transfer moves the next n bytes of j. It adds to sched.effort what pieces cost besides their
// bytes, because a packet can have thousands of pieces. If some memory cannot be reached, it returns false, and
// sh.scratch.gap says which.
func (sh *mover) transfer(j *job, n uint64) bool {
	end := j.moved + n
	if !j.src.unmapped && !j.dst.unmapped {
		var at footing
		for begin := j.moved; j.moved < end; {
			dst := j.dst.next(end - j.moved)
			src := j.src.next(uint64(len(dst)))
			k := copy(dst, src)
			if cost := at.cost(dst, src, k); j.moved != begin { // the caller counts the first piece
				sh.sched.effort += cost - k
			}
			j.src.advance(k)
			j.dst.advance(k)
			j.moved += uint64(k)
		}
		return true
	}
	for j.moved < end {
		k, cost, g := sh.copyUnmapped(j, min(end-j.moved, unmappedBytes))
		sh.sched.effort += cost
		if k == 0 {
			sh.scratch.gap = g
			return false
		}
		j.src.skip(k)
		j.dst.skip(k)
		j.moved += k
	}
	return true
}

// localGap is called when local memory of a message cannot be reached. The message fails when all
// earlier ones have completed; until then the queue waits.
func (sh *sender) localGap(q *qp, j *job, m *message) {
	r := &q.wire.out
	sh.dropJob(r)
	if r.message(r.first) != m {
		return
	}
	why := sh.scratch.gap.why()
	sh.rewindQueue(q)
	if sh.snapshotHead(q) {
		sh.explain(q, why.code, "%v: %s", m.head.opcode(), why)
		sh.fail(q, sh.scratch.job, cqe.LocalProtection)
	}
}

// finishMessage completes a message. It returns false if the queue is in error afterwards.
func (sh *sender) finishMessage(q *qp, m *message) bool {
	count := &q.client.count
	count[control.CounterWQEs]++
	count[control.CounterBytes] += m.total
	ce := m.head.ce()
	if ce < wqe.CEAlways {
		return true
	}
	n := uint32(0)
	if m.answers {
		n = uint32(m.total)
	}
	attention := quietly
	if ce == wqe.CEEvent {
		attention = event
	}
	if !sh.complete(q.sq.cq, 0, q.uidx, 0, n, sh.clock(), requesterTail(m.head.opcode(), q.num, uint16(m.index)), attention) {
		sh.overrun(q.sq.cq)
		sh.setError(q)
		return false
	}
	return true
}
