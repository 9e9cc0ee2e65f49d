//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// fastSend is fastPath for SENDs, with or without an immediate, to peers that have a
// receive queue of their own. The message must fit into the first piece of p's next receive.
func (sh *executor) fastSend(q, p *qp, from shm.Ring, most, budget int) (done, cost int, moved uint64) {
	if p.rq.srq != nil || p.signed {
		return 0, 0, 0
	}
	most = min(most, int(p.posted()))
	inline := uint64(p.rq.inline) // up to this length, messages are put into CQEs; usually 0
	keys := &sh.keys
	for done < most && cost < budget {
		b := from.At(q.sq.done)
		h := headOf(b)
		imm := uint32(0)
		switch h.first.Opcode() {
		case wqe.OpSend:
		case wqe.OpSendImm:
			imm = h.second.Imm() // rule: SEND_IMM delivers its immediate
		default:
			return done, cost, moved
		}
		if !q.ordinary(h) {
			break
		}
		data := wqe.DataWord(b.Word(wqe.WordSendData))
		n, ok := wqe.AdmitShort(h.first, data, wqe.UnitsBeforeSend, fastBytes)
		if !ok || n <= inline || n > fastCost && n > uint64(budget-cost) {
			break
		}
		var local *mkey // nil if the data are inline
		var near []byte
		if data.Inline() {
			near = b[wqe.SendInlineAt:][:n] // rule: inline data of a SEND begin after their length
		} else {
			if local = keys.find(data.LKey()); local == nil || local.pd != q.pd {
				break
			}
			if near, ok = local.span(b.Word(wqe.WordSendLAddr), n); !ok {
				break
			}
		}
		far, piece, remote := p.fastReceive(keys, n)
		if remote == nil {
			break
		}
		if k := sendSeriesLength(q, p, h, n, min(most-done, (budget-cost)/max(int(n), fastCost))); k > 1 {
			if k = sh.executeSends(q, p, from, &sendShape{h.first, data, local, piece, remote}, k); k == 0 {
				break // the WQE or the receive has been changed
			}
			done += k
			cost += k * max(int(n), fastCost)
			moved += uint64(k) * n
			continue
		}
		copy(far, near)
		if !sh.completeReceive(q, p, h, imm, uint32(n)) {
			break // no room: the slow path completes the WQE with an error
		}
		p.rq.done++
		p.client.count[control.CounterReceives]++ // rule: receives are counted
		done++
		cost += max(int(n), fastCost)
		moved += n
		if !sh.completeFast(q, h, 0) {
			break
		}
	}
	return done, cost, moved
}

// completeReceive completes p's next receive with a message of n bytes from q. It reports
// whether there was room for the completion.
func (sh *executor) completeReceive(q, p *qp, h head, imm, n uint32) bool {
	uidx := p.uidx // rule: a receive completes with the user index of the receiver
	tail := responderTail(p.num, uint16(p.rq.done), cqe.Opcode(h.first.Opcode().Info().Response))
	attention := quietly // rule: a SEND raises no event
	if h.solicited() {
		attention = solicited // rule: a SEND can be solicited
	}
	if p.rq.cq.session != nil {
		if attention == quietly {
			ok := sh.collect(p.rq.cq, q.num, uidx, imm, n, tail)
			if h.second.CE() == wqe.CEAlways && q.sq.cq.session == nil {
				sh.writeSession(p.rq.cq) // before the completion of the WQE
			}
			return ok
		}
		sh.writeSession(p.rq.cq) // a session has no solicited completions
	}
	return sh.complete(p.rq.cq, q.num, uidx, imm, n, sh.clock(), tail, attention)
}

// fastReceive returns the first piece of q's next receive: its memory, the first word of its data
// segment, and its key. The key is nil if a message of n bytes cannot take the fast path into this
// piece. fastReceive does not read the other pieces of the receive.
func (q *qp) fastReceive(keys *keyTable, n uint64) (mem []byte, piece wqe.DataWord, k *mkey) {
	at := q.rq.done & q.rq.mask << q.rq.stride
	piece = wqe.DataWord(shm.BE64At(q.rq.ring, at).Observe())
	room := piece.ByteCount()
	if room < n || // rule: the receive has room
		piece.Inline() {
		return nil, 0, nil
	}
	k = keys.find(piece.LKey())
	if k == nil || k.pd != q.pd || k.access&control.AccessLocalWrite == 0 {
		return nil, 0, nil
	}
	// The whole piece is checked, as by the slow path.
	if mem, ok := k.span(shm.BE64At(q.rq.ring, at+wqe.DataAddr).Observe(), room); ok {
		return mem, piece, k
	}
	return nil, 0, nil
}

// sendSeriesLength is seriesLength for SENDs to p. The completions of a series of SENDs are written to two
// completion queues, one after the other.
func sendSeriesLength(q *qp, p *qp, h head, n uint64, most int) int {
	if h.first.Opcode() != wqe.OpSend || p.rq.cq == q.sq.cq {
		return 0
	}
	if most = seriesLength(q, h, n, most); most < 2 {
		return 0
	}
	return p.rq.cq.free(most)
}
