//go:build linux && (amd64 || arm64)

package transport

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/traffic"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
)

// sendMessage continues to send message number At. It returns how many packets it has sent, and whether the
// message has now been sent whole.
func (sh *sender) sendMessage(q *object.QP, bytes *int) (done int, all bool) {
	r := &q.Wire.Out
	m := r.Message(r.Sending)
	if q.Wire.Recovery != nil && r.Job == nil && passesOver(q.Wire, m) {
		return 0, true
	}
	if r.Job != nil && !sh.KeysUnchanged(r.Job) {
		sh.DropRequestJob(r)
	}
	if r.Job == nil {
		j := sh.checkAgain(q, m, r.Sending == r.First)
		if j == nil {
			return 0, false
		}
		if !m.Answers {
			j.Skip(uint64(r.Sent) * uint64(q.Wire.MTU))
		}
		r.Job = j
	}
	done, all = sh.sendPackets(q, m, bytes)
	if !all {
		sh.KeepRequestJob(r, m)
	}
	return done, all
}

// checkAgain checks the WQE of a message again, because a packet of the message is to be sent again, or its
// answer has come. It returns the scratch job, or nil if the WQE fails the check or has changed. If the
// message is the oldest one, its WQE then fails; otherwise it fails when it has become the oldest.
func (sh *sender) checkAgain(q *object.QP, m *object.Message, oldest bool) *object.Job {
	done := q.SQ.Done
	q.SQ.Done = m.Index
	sh.Snapshot(q)
	h := object.ParseHead((*[wqe.CtrlSize]byte)(sh.Scratch.WQE[:]))
	sh.Trial = !oldest
	v := object.Failed
	if h == m.Head {
		v = sh.Check(q, uint16(m.Blocks))
	}
	same := h == m.Head && (v != object.Accepted || sh.Scratch.Job.Total == m.Total)
	sh.Trial = false
	if !oldest || v == object.Accepted && same {
		q.SQ.Done = done
	}
	switch {
	case !same && oldest:
		sh.ExplainQueue(q, codes.WQEChanged, "the WQE at index %#04x was changed while it was being sent", uint16(m.Index))
		sh.Scratch.Job.Reset(m.Head)
		sh.Fail(q, sh.Scratch.Job, cqe.LocalQPOp)
		return nil
	case v != object.Accepted || !same:
		return nil
	}
	return sh.Scratch.Job
}

// sendPackets sends packets of a message from number Sent on, as long as the ring has room, the window is
// open and the budget is not used up. It returns how many packets it has sent, and whether the message has
// now been sent whole.
func (sh *sender) sendPackets(q *object.QP, m *object.Message, bytes *int) (done int, all bool) {
	w := q.Wire
	r := &w.Out
	for r.Sent < m.PSNs {
		if w.Recovery != nil {
			if n := passes(w, m); n > 0 {
				r.Sent += n
				continue
			}
		}
		if *bytes <= 0 || r.Closed() {
			return done, false
		}
		n, ok := uint32(1), false
		if m.Answers {
			n, ok = sh.sendRequest(q, m)
		} else {
			ok = sh.sendData(q, m, bytes)
		}
		if !ok {
			if r.First != r.Last && q.Reliable() && !w.Timer.Running() {
				sh.startTimer(w) // the ring is full; if it stays so, the message must not wait for ever
			}
			return done, false
		}
		done++
		if s := w.Recovery; s != nil {
			if psn := packet.AddPSN(m.PSN, r.Sent); s.Note(&r.Limit, psn, n, r.Most, m.Answers) {
				s.Time(psn, sh.Now())
			}
		}
		r.Sent += n
		if next := packet.AddPSN(m.PSN, r.Sent); packet.DiffPSN(next, r.Most) > 0 {
			r.Most = next
		} else {
			w.Port.Stats.Resent += uint64(n)
			w.Losses.Resent += uint64(n)
		}
		if !q.Reliable() {
			r.UNA = r.Most // packets of an unreliable connection are not acknowledged
		} else if !w.Timer.Running() {
			sh.startTimer(w)
		}
	}
	r.Sending++
	r.Sent = 0
	sh.DropRequestJob(r)
	if !q.Reliable() {
		r.First++
		return done, sh.finishMessage(q, m)
	}
	return done, true
}

// sendData sends one packet of a SEND or a WRITE, and reports whether it could: the ring had room, and the
// memory was reached.
func (sh *sender) sendData(q *object.QP, m *object.Message, bytes *int) bool {
	w := q.Wire
	i := w.Out.Sent
	j := w.Out.Job
	off := uint64(i) * uint64(w.MTU)
	n := int(min(m.Total-off, uint64(w.MTU)))
	last := i+1 == m.PSNs
	op := packet.MakeOpcode(q.Service(), operationOf(m.Head.Opcode(), i == 0, last))
	info := op.Info()
	if !w.Port.Up { // the packet is lost, and the timer notices it
		j.Skip(uint64(n))
		*bytes -= object.PieceCost
		return true
	}
	h, payload, ok := w.Port.Reserve(info.HeaderSize, n)
	if !ok {
		return false
	}
	if n > 0 {
		j.Dst.Reset()
		j.Dst.Add(payload, nil, 0, uint64(n))
		if !sh.Transfer(j, uint64(n)) {
			sh.localGap(q, j, m)
			return false
		}
		if q.Faults != nil {
			sh.FlipPacket(q, payload, off, m.Total)
		}
	}
	psn := packet.AddPSN(m.PSN, i)
	// Without an acknowledgement only the timer opens a closed window.
	closes := packet.DiffPSN(psn, w.Out.UNA)+1 >= int32(w.Out.Window+w.Out.Spared())
	again := w.Recovery != nil && packet.DiffPSN(psn, w.Out.Most) < 0
	w.PutBTH(h, op, psn, last || closes || again || i%ACKEvery == ACKEvery-1,
		last && m.Head.Solicited() && info.Last)
	if again {
		putCopy(w, h, psn, 1)
	}
	w.PutExtensions(h, info, m, j, off)
	traffic.Sent(q, n)
	w.Port.Publish(w.Path, n)
	*bytes -= n + object.PieceCost + sh.TakeEffort()
	return true
}

// sendRequest sends the request of a READ or an atomic, and returns how many packets of the answer it asks
// for. ok is false if the request has to wait, for the window or for room in the ring. A long READ is
// requested in parts that fit into the window, by as many requests at a time as mayRequest allows. When a
// part is requested again, the request ends where the part ends, because a responder takes no request of
// which it has executed only the first half before. If the peer reports what has come, only those packets of
// the answer are requested again that are missing.
func (sh *sender) sendRequest(q *object.QP, m *object.Message) (n uint32, ok bool) {
	w := q.Wire
	r := &w.Out
	op := packet.MakeOpcode(q.Service(), requestOperation(m.Head.Opcode(), r.Job))
	info := op.Info()
	var operands []byte // that are the payload
	if info.Payload {
		operands = r.Job.Request.Operand
	}
	n = min(m.PSNs-r.Sent, m.Part-r.Sent%m.Part)
	psn := packet.AddPSN(m.PSN, r.Sent)
	if r.Selective && packet.DiffPSN(psn, r.Most) < 0 {
		n = w.Recovery.Run(&r.Limit, psn, n)
	} else if !mayRequest(q, m) || !r.Fits(r.UNA, psn, n) {
		return 0, false
	}
	if !w.Port.Up {
		return n, true
	}
	h, payload, ok := w.Port.Reserve(info.HeaderSize, len(operands))
	if !ok {
		return 0, false
	}
	w.PutBTH(h, op, psn, true, false)
	if w.Recovery != nil && packet.DiffPSN(psn, r.Most) < 0 {
		putCopy(w, h, psn, n)
	}
	if !info.Atomic {
		off := uint64(r.Sent) * uint64(w.MTU)
		part := min(m.Total-off, uint64(n)*uint64(w.MTU))
		w.PutExtensions(h, info, &object.Message{Head: m.Head, Total: off + part}, r.Job, off)
	} else {
		w.PutExtensions(h, info, m, r.Job, 0)
		if info.AtomicETH {
			putAtomic(h[info.OffAtomicETH:], r.Job)
		}
		copy(payload, operands)
	}
	traffic.Sent(q, len(operands))
	w.Port.Publish(w.Path, len(operands))
	return n, true
}

// mayRequest reports whether the next part of m, a READ or an atomic, may be requested. The responder counts
// each part as a READ, and allows max_rd_atomic of them. On a short path, whose window one part fills, a part
// is requested when the one before it has come. Parts may still be on the way from when the path was long.
func mayRequest(q *object.QP, m *object.Message) bool {
	w := q.Wire
	r := &w.Out
	if s := w.Recovery; s != nil && r.Requests(s.AnsweredOnce()) >= uint32(max(q.Attr.MaxRdAtomic, 1)) {
		return false
	}
	return r.Long() || r.Sent <= m.Answered
}

// requests returns how many READs and atomics are on the way, or how many requests of those, if a READ has
// several.
func requests(w *object.Wire) uint32 {
	r := &w.Out
	if s := w.Recovery; s != nil && r.Reading > 0 {
		return max(r.Reading, r.Requests(s.AnsweredOnce()))
	}
	return r.Reading
}

// requestOperation returns the operation of the request of j, a READ or an atomic. A masked atomic whose
// masks change nothing is sent as a plain one, which devices of other makers execute too. Its operands
// begin as those of the plain one do.
func requestOperation(op wqe.Opcode, j *object.Job) packet.Operation {
	const all = ^uint64(0)
	switch {
	case op == wqe.OpAtomicMaskedCS && j.Total == 8:
		m := wqe.ParseMaskedCS8((*[wqe.MaskedCS8Size]byte)(j.Request.Operand))
		if m.SwapMask&m.CompareMask == all {
			return packet.CompareSwap
		}
	case op == wqe.OpAtomicMaskedFA && j.Total == 8:
		if wqe.ParseMaskedFA8((*[wqe.MaskedFA8Size]byte)(j.Request.Operand)).Boundary == 0 {
			return packet.FetchAdd
		}
	}
	return operationOf(op, true, true)
}

// putAtomic writes the header of the atomic of j. The operands are big-endian, as in the WQE.
func putAtomic(h []byte, j *object.Job) {
	a := wqe.ParseAtomic((*[wqe.AtomicSize]byte)(j.Request.Operand))
	packet.AtomicETH{Addr: j.Request.Addr, RKey: j.Request.RKey, SwapAdd: a.SwapAdd,
		Compare: a.Compare}.Put((*[packet.AtomicETHSize]byte)(h))
}

// operationOf returns the operation of a packet of a WQE. first and last say where the packet is in its
// message.
func operationOf(op wqe.Opcode, first, last bool) packet.Operation {
	switch op {
	case wqe.OpRDMARead:
		return packet.ReadRequest
	case wqe.OpAtomicCS:
		return packet.CompareSwap
	case wqe.OpAtomicFA:
		return packet.FetchAdd
	case wqe.OpAtomicMaskedCS:
		return packet.MaskedCompareSwap
	case wqe.OpAtomicMaskedFA:
		return packet.MaskedFetchAdd
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

// localGap is called when local memory of a message cannot be reached. If the message is the oldest, it
// fails. Otherwise the queue waits until all earlier messages have completed, and tries again.
func (sh *sender) localGap(q *object.QP, j *object.Job, m *object.Message) {
	r := &q.Wire.Out
	sh.DropRequestJob(r)
	if r.Message(r.First) != m {
		return
	}
	why := sh.Scratch.Gap.Why()
	sh.RewindQueue(q)
	if sh.SnapshotHead(q) {
		sh.Explain(q, why.Code, "%v: %s", m.Head.Opcode(), why)
		sh.Fail(q, sh.Scratch.Job, cqe.LocalProtection)
	}
}

// finishMessage completes a message. It returns false if the queue is in error afterwards.
func (sh *sender) finishMessage(q *object.QP, m *object.Message) bool {
	count := &q.Client.Count
	count[control.CounterWQEs]++
	count[control.CounterBytes] += m.Total
	q.SQ.WQEs++
	q.SQ.Moved += m.Total
	ce := m.Head.CE()
	if ce < wqe.CEAlways {
		return true
	}
	n := uint32(0)
	if m.Answers {
		n = uint32(m.Total)
	}
	attention := object.Quietly
	if ce == wqe.CEEvent {
		attention = object.Event
	}
	if !sh.Complete(q.SQ.CQ, 0, q.UIDX, 0, n, sh.Clock(),
		object.RequesterTail(m.Head.Opcode(), q.Num, uint16(m.Index)), attention) {
		sh.Overrun(q.SQ.CQ)
		sh.SetError(q)
		return false
	}
	return true
}
