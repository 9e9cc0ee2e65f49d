//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/traffic"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// fastSend is FastPath for SENDs, with or without an immediate, to peers that have a receive queue
// of their own. The message must fit into the first piece of p's next receive.
func (sh *Executor) fastSend(q, p *object.QP, from shm.Ring,
	most, budget int) (done, cost int) {
	if p.RQ.SRQ != nil || p.Signed {
		return 0, 0
	}
	most = min(most, int(p.Posted()))
	inline := uint64(p.RQ.Inline) // up to this length, messages are put into CQEs; usually 0
	keys := &sh.Keys
	moved := uint64(0)
series:
	for done < most && cost < budget {
		b := from.At(q.SQ.Done)
		h := HeadOf(b)
		imm := uint32(0)
		switch h.First.Opcode() {
		case wqe.OpSend:
		case wqe.OpSendImm:
			imm = h.Second.Imm() // rule: SEND_IMM delivers its immediate
		default:
			break series
		}
		if !q.Ordinary(h) {
			break
		}
		data := wqe.DataWord(b.Word(wqe.WordSendData))
		n, ok := wqe.AdmitShort(h.First, data, wqe.UnitsBeforeSend, FastBytes)
		if !ok || n <= inline || (n > fastCost && n > uint64(budget-cost)) {
			break
		}
		var local *object.Mkey // nil if the data are inline
		var near []byte
		if data.Inline() {
			near = b[wqe.SendInlineAt:][:n] // rule: inline data of a SEND begin after their length
		} else {
			if local = keys.Find(data.LKey()); local == nil || local.PD != q.PD {
				break
			}
			if near, ok = local.Span(b.Word(wqe.WordSendLAddr), n); !ok {
				break
			}
		}
		far, piece, remote := p.FastReceive(keys, n)
		if remote == nil {
			break
		}
		if k := sendSeriesLength(q, p, h, n, min(most-done, (budget-cost)/max(int(n), fastCost))); k > 1 {
			if k = sh.executeSends(q, p, from, &sendShape{h.First, data, local, piece, remote}, k); k == 0 {
				break // the WQE or the receive has been changed
			}
			done += k
			cost += k * max(int(n), fastCost)
			moved += uint64(k) * n
			if n > fastCost {
				traffic.Long(q, p, wqe.OpSend, uint64(k), n)
			}
			continue
		}
		copy(far, near)
		if !sh.completeReceive(q, p, h, imm, uint32(n)) {
			break // no room: the slow path completes the WQE with an error
		}
		p.RQ.Done++
		p.Client.Count[control.CounterReceives]++ // rule: receives are counted
		done++
		cost += max(int(n), fastCost)
		moved += n
		if n > fastCost {
			traffic.Long(q, p, wqe.OpSend, 1, n)
		}
		if !sh.completeFast(q, h, 0) {
			break
		}
	}
	if done > 0 {
		traffic.Burst(q, p, wqe.OpSend, uint64(done), moved)
	}
	return done, cost
}

// completeReceive completes p's next receive with a message of n bytes from q. It reports
// whether there was room for the completion.
func (sh *Executor) completeReceive(q, p *object.QP, h object.Head, imm, n uint32) bool {
	uidx := p.UIDX // rule: a receive completes with the user index of the receiver
	tail := object.ResponderTail(p.Num, uint16(p.RQ.Done), cqe.Opcode(h.First.Opcode().Info().Response))
	attention := object.Quietly // rule: a SEND raises no event
	if h.Solicited() {
		attention = object.Solicited // rule: a SEND can be solicited
	}
	if p.RQ.CQ.Session != nil {
		if attention == object.Quietly {
			ok := sh.Collect(p.RQ.CQ, q.Num, uidx, imm, n, tail)
			if h.Second.CE() == wqe.CEAlways && q.SQ.CQ.Session == nil {
				sh.WriteSession(p.RQ.CQ) // before the completion of the WQE
			}
			return ok
		}
		sh.WriteSession(p.RQ.CQ) // a session has no solicited completions
	}
	return sh.Complete(p.RQ.CQ, q.Num, uidx, imm, n, sh.Clock(), tail, attention)
}

// sendSeriesLength is seriesLength for SENDs to p. The completions of a series of SENDs are written to two
// completion queues, one after the other.
func sendSeriesLength(q *object.QP, p *object.QP, h object.Head, n uint64, most int) int {
	if h.First.Opcode() != wqe.OpSend || p.RQ.CQ == q.SQ.CQ {
		return 0
	}
	if most = seriesLength(q, h, n, most); most < 2 {
		return 0
	}
	return p.RQ.CQ.Free(most)
}
