package engine

import (
	"encoding/binary"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// expressBytes is the longest payload that goes by express.
const expressBytes = 256

// express executes the WQE of the snapshot if it is the commonest there is, a
// WRITE of one short piece, and reports whether it did. It asks everything that
// the long way asks, but keeps the answers in registers, which takes a third
// off the time. Whatever is unusual in any way it leaves alone, for the long
// way to judge and to explain.
func (e *Engine) express(q *qp) bool {
	h := parseHead((*[wqe.CtrlSize]byte)(e.wqe[:]))
	if h.opcode() != wqe.OpRDMAWrite || h.ds() != 3 || h.ce() == wqe.CEEvent || q.signed || e.longWay || q.transport == control.QPTypeUD {
		return false
	}
	be := binary.BigEndian
	local := be.Uint64(e.wqe[dataOffset:]) // byte_count:32 lkey:32
	n := local >> 32
	if n == 0 || n > expressBytes {
		return false
	}
	k := e.keys.find(uint32(local))
	if k == nil || k.pd != q.pd {
		return false
	}
	src, ok := k.span(be.Uint64(e.wqe[dataOffset+8:]), n)
	if !ok {
		return false
	}
	p := q.peer
	if !q.connected(p) || p.attr.Access&control.AccessRemoteWrite == 0 {
		return false
	}
	k = e.keys.find(be.Uint32(e.wqe[wqe.CtrlSize+8:]))
	if k == nil || !k.serves(p) || k.access&control.AccessRemoteWrite == 0 {
		return false
	}
	dst, ok := k.span(be.Uint64(e.wqe[wqe.CtrlSize:]), n)
	if !ok {
		return false
	}
	copy(dst, src)
	counter := uint16(q.sent)
	q.sent++
	count := &q.client.count
	count[control.CounterWQEs]++
	count[control.CounterBytes] += n
	if h.ce() == wqe.CEAlways &&
		!e.complete(q.sendCQ, 0, q.uidx, 0, 0, e.clock(), tail(wqe.OpRDMAWrite, q.num, counter, cqe.Req), quietly) {
		e.overrun(q.sendCQ)
		e.setError(q)
	}
	return true
}
