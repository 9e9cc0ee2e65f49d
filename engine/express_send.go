package engine

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// expressMessage is the most inline data of a SEND of one block.
const expressMessage = wqe.BlockSize - wqe.CtrlSize - wqe.InlineHead

// expressSend is express for SENDs, with or without an immediate, that fit into
// the first piece of the receive that p has posted next in a queue of its own.
func (e *lane) expressSend(q, p *qp, from wqes, most, budget int) (done, cost int, moved uint64) {
	if p.srq != nil || p.signed {
		return 0, 0, 0
	}
	most = min(most, int(p.posted()))
	keys := &e.keys
	for done < most && cost < budget {
		at := from.at(q.sent)
		b := shm.BlockAt(from.mem, at)
		h := head{b.Word(0), b.Word(1)}
		op, imm := cqe.RespSend, uint32(0)
		switch h.opcode() {
		case wqe.OpSend:
		case wqe.OpSendImm:
			op, imm = cqe.RespSendImm, h.imm()
		default:
			return done, cost, moved
		}
		if !q.unremarkable(h) {
			break
		}
		length := b.Word(2) // byte_count:32 lkey:32
		n := length >> 32
		var near []byte
		if n&wqe.InlineFlag != 0 {
			n &^= wqe.InlineFlag
			if n == 0 || n > expressMessage || h.ds() != 1+wqe.InlineUnits(int(n)) {
				break
			}
			near = from.mem[at+wqe.CtrlSize+wqe.InlineHead:][:n]
		} else {
			if n == 0 || n > expressBytes || n > expressCost && n > uint64(budget-cost) || h.ds() != 2 {
				break
			}
			k, ok := keys.find(uint32(length)), false
			if k == nil || k.pd != q.pd {
				break
			}
			if near, ok = k.span(b.Word(3), n); !ok {
				break
			}
		}
		far, ok := p.expressReceive(keys, n)
		if !ok {
			break
		}
		copy(far, near)
		attention := quietly
		if h.solicited() {
			attention = solicited
		}
		if !e.complete(p.recvCQ, q.num, p.uidx, imm, n, e.clock(), tail(0, p.num, uint16(p.received), op), attention) {
			break // the long way fails it
		}
		p.received++
		p.client.count[control.CounterReceives]++
		done++
		cost += max(int(n), expressCost)
		moved += n
		if !e.executed(q, h, 0) {
			break
		}
	}
	return done, cost, moved
}

// expressReceive returns the first piece of p's next receive, and whether a
// message of n bytes goes into it. What follows it in the list is not looked at.
func (p *qp) expressReceive(keys *keyTable, n uint64) (far []byte, ok bool) {
	at := p.received & p.rqMask << p.rqStride
	length := shm.BE64At(p.rq, at).Observe() // byte_count:32 lkey:32
	room := length >> 32
	if room < n || room&wqe.InlineFlag != 0 {
		return nil, false
	}
	k := keys.find(uint32(length))
	if k == nil || k.pd != p.pd || k.access&control.AccessLocalWrite == 0 {
		return nil, false
	}
	return k.span(shm.BE64At(p.rq, at+8).Observe(), room) // all of it, as the long way asks
}
