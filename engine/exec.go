package engine

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// visit executes what is new in one queue pair, within its budget, and returns
// how many WQEs it completed or moved on with.
func (sh *shard) visit(q *qp) int {
	if sh.near != 0 {
		sh.timeLook()
	}
	sh.enter(q)
	switch q.attr.State {
	case control.StateRTS:
		if q.stall.kind != noStall {
			return 0
		}
		if q.sq.blueFlame != nil && q.hot() {
			if n := sh.pollBlueFlameHalf(q, q.sq.blueFlame.next); n > 0 || q.sq.blueFlame.hot > 0 {
				return n
			}
		}
		n := sh.pending(q)
		if q.job != nil {
			// What has been begun was announced, whatever the record says now.
			n = max(n, uint16(q.job.blocks))
		} else if n == 0 {
			if q.sq.blueFlame != nil {
				return sh.pollBlueFlame(q)
			}
			return 0
		}
		sh.started(q) // the clock is read while the WQE's line is on its way
		if sh.several {
			return sh.burstCrossing(q, n)
		}
		return sh.burst(q, n)
	case control.StateSQD:
		if q.job != nil { // what was started is finished
			if sh.several {
				return sh.burstCrossing(q, uint16(q.job.blocks))
			}
			return sh.burst(q, uint16(q.job.blocks))
		}
	case control.StateERR, control.StateSQE:
		return sh.flush(q)
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
func (sh *shard) burst(q *qp, n uint16) (done int) {
	bytes := sh.cfg.Slice
	sh.sched.effort = 0
	for done < sh.cfg.Burst && n > 0 && bytes > 0 {
		j := q.job
		if j != nil && !sh.resumeJob(q) {
			done++
			if q.attr.State != control.StateRTS {
				break // its send queue has stopped
			}
			j = nil
		}
		if j == nil {
			if k, cost := sh.fastPath(q, min(int(n), sh.cfg.Burst-done), bytes); k > 0 {
				done += k
				n -= uint16(k)
				bytes -= cost
				if q.sq.cq.dead {
					break
				}
				continue
			}
			sh.snapshot(q)
			if !sh.judge(q, n) {
				break // it waits, or it failed and the queue is in error
			}
			j = sh.scratch.job
		}
		done++
		bytes -= sh.sched.effort
		sh.sched.effort = 0
		if j.fault != 0 {
			sh.memoryFault(q, j.fault)
			break
		}
		if !j.src.unmapped && !j.dst.unmapped {
			bytes -= sh.move(q, j, max(bytes, indivisible))
		} else {
			used, ok := sh.moveUnmapped(q, j, max(bytes, indivisible))
			if bytes -= used; !ok {
				break
			}
		}
		if !j.over() {
			if q.job == nil {
				sh.keepJob(q)
			}
			break
		}
		n -= uint16(j.blocks)
		ok := sh.finish(q, j)
		sh.parkJob(q)
		if !ok {
			break
		}
	}
	sh.sched.spent = sh.cfg.Slice - bytes
	return done
}

// move goes on with a job of q within a budget of bytes, and returns how much of it
// was used.
func (sh *shard) move(q *qp, j *job, budget int) (used int) {
	switch {
	case len(sh.dma.workers) > 0 && j.total >= sh.dma.sizes.transfer:
		return sh.offload(q, j, budget)
	case j.total >= sh.dma.beyond:
		return j.move(budget, &q.client.copier)
	}
	return j.move(budget, nil)
}

// snapshot copies the first block of the next WQE to private memory. Nothing in
// it is read again where the client could change it.
func (sh *shard) snapshot(q *qp) {
	slot := q.sq.done & q.sq.mask
	*(*[wqe.BlockSize]byte)(sh.scratch.wqe[:]) = *(*[wqe.BlockSize]byte)(q.sq.ring[slot*wqe.BlockSize:])
}

// judge decides what the WQE of the snapshot does, into e.now. It returns false
// when there is nothing to be done now: the queue waits for its peer, or the
// WQE is at fault and the queue is in error.
//
// Local keys are judged before the peer, as a NIC that gathers before it sends.
func (sh *shard) judge(q *qp, n uint16) bool {
	j := sh.scratch.job
	h := parseHead((*[wqe.CtrlSize]byte)(sh.scratch.wqe[:]))
	j.head, j.blocks = h, h.blocks()
	j.total, j.moved, j.recv, j.lost, j.peer, j.taken = 0, 0, false, false, nil, nil
	j.recalled, j.fault = false, 0
	j.src.reset()
	j.dst.reset()
	if j.blocks != 1 {
		if j.blocks == 0 || j.blocks > int(n) {
			return sh.badSize(q, j, n)
		}
		for i := 1; i < j.blocks; i++ {
			from := (q.sq.done + uint64(i)) & q.sq.mask * wqe.BlockSize
			copy(sh.scratch.wqe[i*wqe.BlockSize:][:wqe.BlockSize], q.sq.ring[from:])
		}
	}
	if q.signed && wqe.Sign(sh.scratch.wqe[:h.ds()*wqe.UnitSize]) != h.signature() {
		return sh.badSignature(q, j)
	}
	if q.allowed>>(h.opcode()&63)&1 == 0 || h.opcode() > 63 {
		return sh.badOpcode(q, j)
	}
	sh.checkPlace(q, h)
	switch h.opcode() {
	case wqe.OpRDMAWrite:
		return sh.judgeWrite(q, j)
	case wqe.OpRDMAWriteImm:
		j.recv = true
		return sh.judgeWrite(q, j)
	case wqe.OpRDMARead:
		return sh.judgeRead(q, j)
	case wqe.OpSend, wqe.OpSendImm, wqe.OpSendInval:
		j.recv = true
		return sh.judgeSend(q, j)
	case wqe.OpAtomicCS, wqe.OpAtomicFA, wqe.OpAtomicMaskedCS, wqe.OpAtomicMaskedFA:
		return sh.judgeAtomic(q, j)
	case wqe.OpUMR:
		return sh.judgeUMR(q, j)
	case wqe.OpDump:
		return sh.judgeDump(q, j)
	case wqe.OpMMO:
		return sh.judgeMMO(q, j)
	case wqe.OpWait:
		return sh.judgeWait(q, j)
	case wqe.OpSendEn:
		return sh.judgeSendEnable(q, j)
	case wqe.OpNop:
		return true
	}
	return sh.badOpcode(q, j)
}

// dataOffset is where the data segments of an RDMA WQE begin.
const dataOffset = wqe.CtrlSize + wqe.RaddrSize

func (sh *shard) judgeWrite(q *qp, j *job) bool {
	end := j.head.ds() * wqe.UnitSize
	if end < dataOffset {
		return sh.badSize(q, j, 0)
	}
	if !sh.gather(q, j, &j.src, dataOffset, end, 0) || !sh.reach(q, j) || j.recv && !sh.receive(q, j) {
		return j.lost
	}
	// With no bytes to move, neither key nor address is looked at.
	if j.total > 0 && !sh.remote(q, j, &j.dst, control.AccessRemoteWrite) {
		return j.lost
	}
	if j.recv {
		sh.open(j) // its list is not used
	}
	return true
}

func (sh *shard) judgeRead(q *qp, j *job) bool {
	end := j.head.ds() * wqe.UnitSize
	if end < dataOffset {
		return sh.badSize(q, j, 0)
	}
	if !sh.gather(q, j, &j.dst, dataOffset, end, control.AccessLocalWrite) || !sh.reach(q, j) {
		return false
	}
	if j.peer.attr.MaxDestRdAtomic == 0 {
		return sh.refused(q, j, "READ")
	}
	if j.total == 0 {
		return true
	}
	return sh.remote(q, j, &j.src, control.AccessRemoteRead)
}

func (sh *shard) judgeSend(q *qp, j *job) bool {
	end, data := j.head.ds()*wqe.UnitSize, wqe.CtrlSize
	if q.transport == control.QPTypeUD {
		if data += wqe.AVSize; end < data {
			return sh.badSize(q, j, 0)
		}
	}
	if !sh.gather(q, j, &j.src, data, end, 0) || !sh.reach(q, j) || !sh.receive(q, j) || !sh.scatter(q, j, sh.open(j)) {
		return j.lost
	}
	return true
}

// gather turns the data segments in e.wqe[off:end] into pieces and adds up
// their lengths. need is the right that each key must give.
func (sh *shard) gather(q *qp, j *job, l *list, off, end int, need uint32) bool {
	total := uint64(0)
	for off < end {
		d := wqe.ParseData((*[wqe.UnitSize]byte)(sh.scratch.wqe[off:]))
		if d.Inline() {
			size := wqe.InlineLength(d.ByteCount)
			start := off + 4
			off += (4 + size + wqe.UnitSize - 1) &^ (wqe.UnitSize - 1)
			if off > end || need != 0 {
				return sh.badInline(q, j, size, off, end)
			}
			if size > 0 {
				l.add(sh.scratch.wqe[start:start+size], nil, 0, uint64(size))
				total += uint64(size)
			}
			continue
		}
		off += wqe.UnitSize
		n := d.Length()
		k := sh.keys.find(d.LKey)
		if k == nil || k.pd != q.pd || k.access&need != need {
			return sh.badLocal(q, j, d, need)
		}
		if !sh.admit(l, k, d.Addr, n, need) {
			return sh.badLocal(q, j, d, need)
		}
		total += n
	}
	if total > 1<<maxMessageLog {
		return sh.tooLong(q, j, total, 1<<maxMessageLog)
	}
	j.total = total
	return true
}

// reach finds the peer, or lets the queue wait until there is one.
func (sh *shard) reach(q *qp, j *job) bool {
	if q.transport == control.QPTypeUD {
		return sh.address(q, j)
	}
	if !q.connected(q.conn.peer) {
		if !sh.find(q) {
			if q.transport == control.QPTypeUC {
				why := sh.whyNoPeer(q)
				sh.explain(q, why.code, "%s; the message is lost", why)
				return sh.lose(q, j)
			}
			return sh.wait(q, noPeer)
		}
		if p := q.conn.peer; p.attr.State == control.StateRTR {
			p.client.event(control.EventEstablished, p.num)
		}
	}
	j.peer = q.conn.peer
	return true
}

// find looks for the peer, and reports whether q may send to it.
func (sh *shard) find(q *qp) bool {
	p := sh.boundPeer(q)
	if !q.connected(p) {
		return false
	}
	q.conn.peer = p
	return true
}

// remote translates the remote address segment into one piece of j.total bytes.
func (sh *shard) remote(q *qp, j *job, l *list, need uint32) bool {
	if j.peer.attr.Access&need == 0 {
		return sh.refused(q, j, "this operation")
	}
	r := wqe.ParseRaddr((*[wqe.RaddrSize]byte)(sh.scratch.wqe[wqe.CtrlSize:]))
	k := sh.keys.find(r.RKey)
	if k == nil || !k.serves(j.peer) || k.access&need == 0 || !sh.admit(l, k, r.Addr, j.total, need) {
		return sh.badRemote(q, j, r, need)
	}
	return true
}

// finish reports a WQE whose bytes have all been moved: first to the peer whose
// receive it consumed, then to the poster. It returns false when a completion
// queue had no room, which puts the queues that need it into error.
func (sh *shard) finish(q *qp, j *job) bool {
	if j.recv && !sh.finishReceive(q, j) && !j.lost {
		return false
	}
	count := &q.client.count
	count[control.CounterWQEs]++
	count[control.CounterBytes] += j.total
	counter := uint16(q.sq.done)
	q.sq.done += uint64(j.blocks)
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
	if !sh.complete(q.sq.cq, 0, q.uidx, 0, n, sh.clock(), tail(j.head.opcode(), q.num, counter, cqe.Req), attention) {
		sh.overrun(q.sq.cq)
		sh.setError(q)
		return false
	}
	return true
}
