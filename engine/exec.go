package engine

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// visit executes what is new in one queue pair, within its budget, and returns
// how many WQEs it completed or moved on with.
func (e *lane) visit(q *qp) int {
	e.cur = q
	switch q.attr.State {
	case control.StateRTS:
		if q.stall.kind != noStall {
			return 0
		}
		if q.flame != nil && q.hot() {
			if n := e.flareOf(q, q.flame.next); n > 0 || q.flame.heat > 0 {
				return n
			}
		}
		n := e.pending(q)
		if q.job != nil {
			// What has been begun was announced, whatever the record says now.
			n = max(n, uint16(q.job.blocks))
		} else if n == 0 {
			if q.flame != nil {
				return e.flare(q)
			}
			return 0
		}
		e.clock() // read while the WQE's line is on its way
		if e.several {
			return e.burstAcross(q, n)
		}
		return e.burst(q, n)
	case control.StateSQD:
		if q.job != nil { // what was started is finished
			if e.several {
				return e.burstAcross(q, uint16(q.job.blocks))
			}
			return e.burst(q, uint16(q.job.blocks))
		}
	case control.StateERR, control.StateSQE:
		return e.flush(q)
	}
	return 0
}

// indivisible is how many bytes are always moved in one go, whatever is left of
// the budget: the result of an atomic, which must not be judged, and so
// executed, a second time. It is also what a transfer moves on by whose budget
// went into judging it.
const indivisible = 8

// burst executes WQEs of q, of which n blocks are announced, until the budget
// of this step is used up or there is a reason to wait.
func (e *lane) burst(q *qp, n uint16) (done int) {
	bytes := e.cfg.Slice
	e.effort = 0
	for done < e.cfg.Burst && n > 0 && bytes > 0 {
		j := q.job
		if j != nil && !e.resume(q) {
			done++
			if q.attr.State != control.StateRTS {
				break // its send queue has stopped
			}
			j = nil
		}
		if j == nil {
			if k, cost := e.express(q, min(int(n), e.cfg.Burst-done), bytes); k > 0 {
				done += k
				n -= uint16(k)
				bytes -= cost
				if q.sendCQ.dead {
					break
				}
				continue
			}
			e.snapshot(q)
			if !e.judge(q, n) {
				break // it waits, or it failed and the queue is in error
			}
			j = e.now
		}
		done++
		bytes -= e.effort
		e.effort = 0
		if j.fault != 0 {
			e.memoryFault(q, j.fault)
			break
		}
		if !j.src.away && !j.dst.away {
			bytes -= e.move(q, j, max(bytes, indivisible))
		} else {
			used, ok := e.moveAway(q, j, max(bytes, indivisible))
			if bytes -= used; !ok {
				break
			}
		}
		if !j.over() {
			if q.job == nil {
				e.keep(q)
			}
			break
		}
		n -= uint16(j.blocks)
		ok := e.finish(q, j)
		e.park(q)
		if !ok {
			break
		}
	}
	e.spent = e.cfg.Slice - bytes
	return done
}

// move goes on with a job of q within a budget of bytes, and returns how much of it
// was used.
func (e *lane) move(q *qp, j *job, budget int) (used int) {
	switch {
	case len(e.workers) > 0 && j.total >= e.worth.transfer:
		return e.lend(q, j, budget)
	case j.total >= e.beyond:
		return j.move(budget, &q.client.copier)
	}
	return j.move(budget, nil)
}

// snapshot copies the first block of the next WQE to private memory. Nothing in
// it is read again where the client could change it.
func (e *lane) snapshot(q *qp) {
	slot := q.sent & q.sqMask
	*(*[wqe.BlockSize]byte)(e.wqe[:]) = *(*[wqe.BlockSize]byte)(q.sq[slot*wqe.BlockSize:])
}

// judge decides what the WQE of the snapshot does, into e.now. It returns false
// when there is nothing to be done now: the queue waits for its peer, or the
// WQE is at fault and the queue is in error.
//
// Local keys are judged before the peer, as a NIC that gathers before it sends.
func (e *lane) judge(q *qp, n uint16) bool {
	j := e.now
	h := parseHead((*[wqe.CtrlSize]byte)(e.wqe[:]))
	j.head, j.blocks = h, h.blocks()
	j.total, j.moved, j.recv, j.lost, j.peer, j.taken = 0, 0, false, false, nil, nil
	j.recalled, j.fault = false, 0
	j.src.reset()
	j.dst.reset()
	if j.blocks != 1 {
		if j.blocks == 0 || j.blocks > int(n) {
			return e.badSize(q, j, n)
		}
		for i := 1; i < j.blocks; i++ {
			from := (q.sent + uint64(i)) & q.sqMask * wqe.BlockSize
			copy(e.wqe[i*wqe.BlockSize:][:wqe.BlockSize], q.sq[from:])
		}
	}
	if q.signed && wqe.Sign(e.wqe[:h.ds()*wqe.UnitSize]) != h.signature() {
		return e.badSignature(q, j)
	}
	if q.allowed>>(h.opcode()&63)&1 == 0 || h.opcode() > 63 {
		return e.badOpcode(q, j)
	}
	e.compare(q, h)
	switch h.opcode() {
	case wqe.OpRDMAWrite:
		return e.judgeWrite(q, j)
	case wqe.OpRDMAWriteImm:
		j.recv = true
		return e.judgeWrite(q, j)
	case wqe.OpRDMARead:
		return e.judgeRead(q, j)
	case wqe.OpSend, wqe.OpSendImm, wqe.OpSendInval:
		j.recv = true
		return e.judgeSend(q, j)
	case wqe.OpAtomicCS, wqe.OpAtomicFA, wqe.OpAtomicMaskedCS, wqe.OpAtomicMaskedFA:
		return e.judgeAtomic(q, j)
	case wqe.OpUMR:
		return e.judgeUMR(q, j)
	case wqe.OpDump:
		return e.judgeDump(q, j)
	case wqe.OpMMO:
		return e.judgeMMO(q, j)
	case wqe.OpWait:
		return e.judgeWait(q, j)
	case wqe.OpSendEn:
		return e.judgeSendEnable(q, j)
	case wqe.OpNop:
		return true
	}
	return e.badOpcode(q, j)
}

// dataOffset is where the data segments of an RDMA WQE begin.
const dataOffset = wqe.CtrlSize + wqe.RaddrSize

func (e *lane) judgeWrite(q *qp, j *job) bool {
	end := j.head.ds() * wqe.UnitSize
	if end < dataOffset {
		return e.badSize(q, j, 0)
	}
	if !e.gather(q, j, &j.src, dataOffset, end, 0) || !e.reach(q, j) || j.recv && !e.receive(q, j) {
		return j.lost
	}
	// With no bytes to move, neither key nor address is looked at.
	if j.total > 0 && !e.remote(q, j, &j.dst, control.AccessRemoteWrite) {
		return j.lost
	}
	if j.recv {
		e.open(j) // its list is not used
	}
	return true
}

func (e *lane) judgeRead(q *qp, j *job) bool {
	end := j.head.ds() * wqe.UnitSize
	if end < dataOffset {
		return e.badSize(q, j, 0)
	}
	if !e.gather(q, j, &j.dst, dataOffset, end, control.AccessLocalWrite) || !e.reach(q, j) {
		return false
	}
	if j.peer.attr.MaxDestRdAtomic == 0 {
		return e.refused(q, j, "READ")
	}
	if j.total == 0 {
		return true
	}
	return e.remote(q, j, &j.src, control.AccessRemoteRead)
}

func (e *lane) judgeSend(q *qp, j *job) bool {
	end, data := j.head.ds()*wqe.UnitSize, wqe.CtrlSize
	if q.transport == control.QPTypeUD {
		if data += wqe.AVSize; end < data {
			return e.badSize(q, j, 0)
		}
	}
	if !e.gather(q, j, &j.src, data, end, 0) || !e.reach(q, j) || !e.receive(q, j) || !e.scatter(q, j, e.open(j)) {
		return j.lost
	}
	return true
}

// gather turns the data segments in e.wqe[off:end] into pieces and adds up
// their lengths. need is the right that each key must give.
func (e *lane) gather(q *qp, j *job, l *list, off, end int, need uint32) bool {
	total := uint64(0)
	for off < end {
		d := wqe.ParseData((*[wqe.UnitSize]byte)(e.wqe[off:]))
		if d.Inline() {
			size := wqe.InlineLength(d.ByteCount)
			start := off + 4
			off += (4 + size + wqe.UnitSize - 1) &^ (wqe.UnitSize - 1)
			if off > end || need != 0 {
				return e.badInline(q, j, size, off, end)
			}
			if size > 0 {
				l.add(e.wqe[start:start+size], nil, 0, uint64(size))
				total += uint64(size)
			}
			continue
		}
		off += wqe.UnitSize
		n := d.Length()
		k := e.keys.find(d.LKey)
		if k == nil || k.pd != q.pd || k.access&need != need {
			return e.badLocal(q, j, d, need)
		}
		if !e.admit(l, k, d.Addr, n, need) {
			return e.badLocal(q, j, d, need)
		}
		total += n
	}
	if total > 1<<maxMessageLog {
		return e.tooLong(q, j, total, 1<<maxMessageLog)
	}
	j.total = total
	return true
}

// reach finds the peer, or lets the queue wait until there is one.
func (e *lane) reach(q *qp, j *job) bool {
	if q.transport == control.QPTypeUD {
		return e.address(q, j)
	}
	if !q.connected(q.peer) {
		if !e.find(q) {
			if q.transport == control.QPTypeUC {
				why := e.whyNoPeer(q)
				e.explain(q, why.code, "%s; the message is lost", why)
				return e.lose(q, j)
			}
			return e.wait(q, noPeer)
		}
		if p := q.peer; p.attr.State == control.StateRTR {
			p.client.event(control.EventEstablished, p.num)
		}
	}
	j.peer = q.peer
	return true
}

// find looks for the peer, and reports whether q may send to it.
func (e *lane) find(q *qp) bool {
	p := e.boundPeer(q)
	if !q.connected(p) {
		return false
	}
	q.peer = p
	return true
}

// remote translates the remote address segment into one piece of j.total bytes.
func (e *lane) remote(q *qp, j *job, l *list, need uint32) bool {
	if j.peer.attr.Access&need == 0 {
		return e.refused(q, j, "this operation")
	}
	r := wqe.ParseRaddr((*[wqe.RaddrSize]byte)(e.wqe[wqe.CtrlSize:]))
	k := e.keys.find(r.RKey)
	if k == nil || !k.serves(j.peer) || k.access&need == 0 || !e.admit(l, k, r.Addr, j.total, need) {
		return e.badRemote(q, j, r, need)
	}
	return true
}

// finish reports a WQE whose bytes have all been moved: first to the peer whose
// receive it consumed, then to the poster. It returns false when a completion
// queue had no room, which puts the queues that need it into error.
func (e *lane) finish(q *qp, j *job) bool {
	if j.recv && !e.finishReceive(q, j) && !j.lost {
		return false
	}
	count := &q.client.count
	count[control.CounterWQEs]++
	count[control.CounterBytes] += j.total
	counter := uint16(q.sent)
	q.sent += uint64(j.blocks)
	ce := j.head.ce()
	if ce < wqe.CEAlways {
		return true
	}
	n := uint64(0)
	if j.reads() {
		n = j.total
	}
	attention := quietly
	if ce == wqe.CEEvent {
		attention = event
	}
	if !e.complete(q.sendCQ, 0, q.uidx, 0, n, e.clock(), tail(j.head.opcode(), q.num, counter, cqe.Req), attention) {
		e.overrun(q.sendCQ)
		e.setError(q)
		return false
	}
	return true
}
