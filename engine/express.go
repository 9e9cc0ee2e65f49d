package engine

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// expressBytes is the longest payload that goes by express.
const expressBytes = 256

// express executes WQEs of q, at most that many, as long as they are the
// commonest there is, WRITEs of one short piece, and returns how many it did. It
// asks everything that the long way asks, but keeps the snapshot of a WQE, six
// words of it, and the answers in registers: a store less is a line more that can
// be on its way from the other side. Whatever is unusual in any way it leaves
// alone, for the long way to copy anew, to judge and to explain.
func (e *Engine) express(q *qp, most int) (done int) {
	p := q.peer
	if !q.express || e.longWay || !q.connected(p) || p.attr.Access&control.AccessRemoteWrite == 0 {
		return 0
	}
	var local, remote *mkey
	var lkey, rkey uint32
	moved := uint64(0)
	for done < most {
		b := shm.BlockAt(q.sq, q.sent&q.sqMask*wqe.BlockSize)
		h := head{b.Word(0), b.Word(1)}
		if h.opcode() != wqe.OpRDMAWrite || h.ds() != 3 || h.ce() == wqe.CEEvent || h.place() != place(q.num, q.sent) {
			break
		}
		length := b.Word(4) // byte_count:32 lkey:32
		n := length >> 32
		if n == 0 || n > expressBytes {
			break
		}
		if k := uint32(length); local == nil || lkey != k {
			if local, lkey = e.keys.find(k), k; local == nil || local.pd != q.pd {
				break
			}
		}
		if k := uint32(b.Word(3) >> 32); remote == nil || rkey != k {
			if remote, rkey = e.keys.find(k), k; remote == nil || !remote.serves(p) || remote.access&control.AccessRemoteWrite == 0 {
				break
			}
		}
		src, ok := local.span(b.Word(5), n)
		if !ok {
			break
		}
		dst, ok := remote.span(b.Word(2), n)
		if !ok {
			break
		}
		copy(dst, src)
		counter := uint16(q.sent)
		q.sent++
		done++
		moved += n
		if h.ce() == wqe.CEAlways &&
			!e.complete(q.sendCQ, 0, q.uidx, 0, 0, e.clock(), tail(wqe.OpRDMAWrite, q.num, counter, cqe.Req), quietly) {
			e.overrun(q.sendCQ)
			e.setError(q)
			break
		}
	}
	count := &q.client.count
	count[control.CounterWQEs] += uint64(done)
	count[control.CounterBytes] += moved
	return done
}
