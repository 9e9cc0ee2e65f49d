//go:build linux && (amd64 || arm64)

package transport

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/recovery"
	"github.com/nicless/nicless/engine/internal/traffic"
	"github.com/nicless/nicless/packet"
)

// The responder on a port that loses packets. If the peer understands reports, packets that come before the
// expected one are kept, and executed after it, in order and once, as if they had come only then.

const reportRoom = recovery.ReportRoom

// keepEarly keeps the packet in p, which is later than the expected one, if there is room, and reports to the
// peer. It returns false if the peer understands no reports. During a scan nothing is kept: the packet may be
// a stranger's.
func (sh *receiver) keepEarly(p *object.Port, q *object.QP, info *packet.Info) bool {
	w := q.Wire
	s, in := w.Recovery, &w.In
	if s == nil {
		return false
	}
	if !w.Losses.Agreed {
		sh.queryPeer(w.Port, w.Losses)
		return false
	}
	if w.Guard.Requests.Doubtful(sh.Now()) {
		return false
	}
	psn := p.BTH.PSN
	if s.Early.Has(in.PSN, psn) {
		p.Stats.Duplicates++
		in.Silent = sh.sendReport(q, &p.BTH)
		return true
	}
	n := uint32(1)
	if info.RETH && p.BTH.Opcode.Operation() == packet.ReadRequest {
		n = w.Packets(packet.ParseRETH((*[packet.RETHSize]byte)(p.Packet.Head[info.OffRETH:])).Length)
	}
	missing := s.Early.Missing(in.PSN, psn)
	s.StretchEarly(in.PSN, psn, missing)
	kept, gap := s.Early.Keep(&w.Port.Paths.Store, &p.Packet, in.PSN, psn, n, missing)
	w.Divert()
	again := p.BTH.AckReq || p.BTH.Reserved7 != 0
	if packet.DiffPSN(psn, in.PSN) > PathReach {
		again = false // a stranger's: the peer would get a report for each
	}
	if !in.Silent || s.Early.Speak(kept && gap, again) {
		in.Silent = sh.sendReport(q, &p.BTH)
		sh.confirmPeer(w.Port, w.Losses)
	}
	return true
}

// serveEarly executes the packets that were kept and are expected now, as far as the budget of the batch
// goes. from is the PSN that was expected when serveEarly was called last, or when the first of them came.
func (sh *receiver) serveEarly(p *object.Port, q *object.QP, from uint32) {
	w := q.Wire
	store := &w.Port.Paths.Store
	for {
		psn := w.In.PSN
		if p.Left <= 0 && w.Recovery.Early.Has(psn, psn) {
			p.ResumeLater(w)
			break
		}
		// Its bytes stay until another packet is kept or taken out.
		if !w.Recovery.Early.Next(store, from, psn, &p.Packet) {
			break
		}
		from = psn
		p.BTH.Parse((*[packet.BTHSize]byte)(p.Packet.Head[:]))
		executed := sh.takeExpected(p, q, p.BTH.Opcode.Info())
		p.Left -= len(p.Packet.Payload) + object.PieceCost + sh.TakeEffort()
		if !executed || q.Wire != w || !q.Listens() {
			break
		}
	}
	w.Divert()
}

// reportAfter reports after a packet that was expected or has come before, if packets are kept, or if the
// peer has sent it again.
func (sh *receiver) reportAfter(q *object.QP, b packet.BTH) {
	w := q.Wire
	if w == nil || w.Recovery == nil || !w.Losses.Agreed {
		return
	}
	if b.Reserved7 != 0 || w.Recovery.Keeps() {
		sh.sendReport(q, &b)
	}
}

// dropEarly drops the packets that were kept.
func (sh *wires) dropEarly(w *object.Wire) {
	if w.Recovery.Keeps() {
		w.Recovery.Early.Clear(&w.Port.Paths.Store)
		w.Divert()
	}
	sh.dropAnswers(w)
}

// dropAnswers drops the answers that were kept.
func (sh *wires) dropAnswers(w *object.Wire) {
	if w.Recovery.KeepsAnswers() {
		w.Recovery.Kept.Clear(&w.Port.Paths.Store)
		w.Divert()
	}
}

// sendReport reports to the peer what has come: the packet with the header trigger is the reason. It returns
// whether the ring had room.
func (sh *receiver) sendReport(q *object.QP, trigger *packet.BTH) bool {
	w := q.Wire
	if !w.Port.Up {
		return true
	}
	var b [reportRoom]byte
	w.Port.Left -= object.PieceCost + lookCost*w.Recovery.Early.Looks(w.In.PSN)
	n := w.Recovery.Early.PutReport(&b, w.In.PSN, trigger.PSN, trigger.Reserved7)
	op := packet.MakeOpcode(q.Service(), packet.Report)
	h, payload, ok := w.Port.Reserve(op.Info().HeaderSize, n)
	if !ok {
		return false
	}
	w.PutBTH(h, op, w.In.PSN, false, false)
	copy(payload, b[:n])
	traffic.Sent(q, n)
	w.Port.Publish(w.Path, n)
	return true
}
