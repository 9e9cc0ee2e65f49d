package engine

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// expressBytes is the longest payload that goes by express, expressCost what the
// shortest takes of the budget of a visit.
const (
	expressBytes = 4096
	expressCost  = 256
)

// expressInline is the most inline data of a WQE of one block.
const expressInline = wqe.BlockSize - dataOffset - wqe.InlineHead

// express executes WQEs of q, at most that many and as the budget of bytes allows,
// as long as they are the commonest there are, WRITEs and READs of one short
// piece. It returns how many it did and what of the budget they took.
//
// It asks everything that the long way asks, but keeps the snapshot of a WQE, six
// words of it, and the answers in registers: a store less is a line more that can
// be on its way from the other side. Whatever is unusual in any way it leaves
// alone, for the long way to copy anew, to judge and to explain. A fault of memory
// leaves the WQEs of its run before it out of the client's counters.
func (e *lane) express(q *qp, most, budget int) (done, cost int) {
	p := q.peer
	if !q.express || e.longWay || !q.connected(p) {
		return 0, 0
	}
	var local, remote *mkey
	var lkey, rkey uint32
	moved := uint64(0)
	for done < most && cost < budget {
		at := q.sent & q.sqMask * wqe.BlockSize
		b := shm.BlockAt(q.sq, at)
		h := head{b.Word(0), b.Word(1)}
		op := h.opcode()
		need, ok := q.expressRight(p, op)
		if !ok || h.ce() == wqe.CEEvent || h.place() != place(q.num, q.sent) && q.news(h) {
			break
		}
		if k := uint32(b.Word(3) >> 32); remote == nil || rkey != k {
			if remote, rkey = e.keys.find(k), k; remote == nil {
				break
			}
		}
		if !remote.serves(p) || remote.access&need == 0 {
			break
		}
		length := b.Word(4) // byte_count:32 lkey:32
		n := length >> 32
		var near []byte
		if n&wqe.InlineFlag != 0 {
			n &^= wqe.InlineFlag
			if n == 0 || n > expressInline || op != wqe.OpRDMAWrite || h.ds() != 2+int(wqe.InlineHead+n+wqe.UnitSize-1)/wqe.UnitSize {
				break
			}
			near = q.sq[at+dataOffset+wqe.InlineHead:][:n]
		} else {
			if n == 0 || n > expressBytes || n > expressCost && n > uint64(budget-cost) || h.ds() != 3 {
				break
			}
			if k := uint32(length); local == nil || lkey != k {
				if local, lkey = e.keys.find(k), k; local == nil {
					break
				}
			}
			if local.pd != q.pd || op == wqe.OpRDMARead && local.access&control.AccessLocalWrite == 0 {
				break
			}
			if near, ok = local.span(b.Word(5), n); !ok {
				break
			}
		}
		far, ok := remote.span(b.Word(2), n)
		if !ok {
			break
		}
		bytes := uint64(0) // of the completion
		if op == wqe.OpRDMARead {
			copy(near, far)
			bytes = n
		} else {
			copy(far, near)
		}
		counter := uint16(q.sent)
		q.sent++
		done++
		cost += max(int(n), expressCost)
		moved += n
		if h.ce() == wqe.CEAlways &&
			!e.complete(q.sendCQ, 0, q.uidx, 0, bytes, e.clock(), tail(op, q.num, counter, cqe.Req), quietly) {
			e.overrun(q.sendCQ)
			e.setError(q)
			break
		}
	}
	count := &q.client.count
	count[control.CounterWQEs] += uint64(done)
	count[control.CounterBytes] += moved
	return done, cost
}

// expressRight returns the right that the remote key must give for an operation,
// and whether it goes by express to p, which is connected with q.
func (q *qp) expressRight(p *qp, op wqe.Opcode) (need uint32, ok bool) {
	switch op {
	case wqe.OpRDMAWrite:
		need = control.AccessRemoteWrite
	case wqe.OpRDMARead:
		need = control.AccessRemoteRead
		if q.transport != control.QPTypeRC || p.attr.MaxDestRdAtomic == 0 {
			return 0, false
		}
	}
	return need, p.attr.Access&need != 0
}
