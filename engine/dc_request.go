//go:build linux && (amd64 || arm64)

package engine

import (
	"math/bits"
	"slices"

	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
)

// A WQE of a DCI begins with an address vector. It names a DCT by its number, by the address of
// its port and by its access key. If one of them is wrong, nobody answers, as on a wire: the DCT
// drops requests with another key. So the WQE waits as for an absent peer, and fails when its
// retries have run out. What the DCT refuses fails the WQE, and the DCT goes on.

// readAddress reads the address vector of a WQE, and returns where the segments after it begin.
// The vector has 48 bytes, or 16 if it is compact. The least WQE has a compact one. A WQE of a
// stream that has failed is flushed.
func (sh *requester) readAddress(q *qp, j *job, info *wqe.Info) (data int, v verdict) {
	if v := sh.flushStream(q, j); v != accepted {
		return 0, v
	}
	at := sh.scratch.wqe[wqe.CtrlSize:]
	compact := wqe.ParseCompactAV((*[wqe.CompactAVSize]byte)(at))
	if !compact.Ext {
		q.dc.to = wqe.AV{CompactAV: compact}
		return wqe.CtrlSize + wqe.CompactAVSize, accepted
	}
	if more := (wqe.AVSize - wqe.CompactAVSize) / wqe.UnitSize; j.head.ds() < info.LeastUnits(wqe.DC)+more {
		return 0, sh.badSize(q, j, 0)
	}
	q.dc.to = wqe.ParseAV((*[wqe.AVSize]byte)(at))
	return wqe.CtrlSize + wqe.AVSize, accepted
}

// addressTarget makes the DCT that a WQE of q names the peer of j. If there is none that answers,
// q waits.
func (sh *requester) addressTarget(q *qp, j *job) verdict {
	j.request.toQPN = q.dc.to.DQP
	p := sh.targetOf(q)
	if p != nil && sh.several && !sh.holds(p.client.shard) {
		sh.postpone(q, p.client.shard)
		return waiting
	}
	if !q.reachesTarget(p) {
		return sh.answered(q, j, answerNone)
	}
	q.conn.peer, j.peer = p, p
	return accepted
}

// targetOf returns the DCT with the number in the address vector that q has read last, or nil if
// there is none.
func (sh *shard) targetOf(q *qp) *qp {
	n := q.dc.to.DQP
	p := q.conn.peer
	if p == nil || p.dead || p.num != n {
		p = sh.qps[n]
	}
	if p == nil || p.transport != control.QPTypeDCT {
		return nil
	}
	return p
}

// findTarget reports whether the DCT answers that the address vector which q has read last names.
func (sh *shard) findTarget(q *qp) bool {
	p := sh.targetOf(q)
	if !q.reachesTarget(p) {
		return false
	}
	q.conn.peer = p
	return true
}

// reachesTarget reports whether p answers a WQE with the address vector that q has read last. p
// is nil or targetOf(q).
func (q *qp) reachesTarget(p *qp) bool {
	to := &q.dc.to
	return p != nil && !p.dead && p.num == to.DQP && p.listens() && p.dc.key == to.Key && leadsTo(to, q.client, p.client)
}

// reaches reports whether q may send to p, which is the peer that q has found last, or nil.
func (q *qp) reaches(p *qp) bool {
	if q.transport == control.QPTypeDCI {
		return q.reachesTarget(p)
	}
	return q.connected(p)
}

// peerNumber returns the number of the queue pair that q's next WQE is for.
func (q *qp) peerNumber() uint32 {
	if q.transport == control.QPTypeDCI {
		return q.dc.to.DQP
	}
	return q.attr.DestQPN
}

// leadsTo reports whether an address vector leads from a port to another. On InfiniBand it names
// the port by LID. On Ethernet it names one of the port's GIDs, unless the client that receives has
// no GID table: such a client need not write addresses into WQEs.
func leadsTo(av *wqe.AV, from, to *client) bool {
	if from.hosted.LID != 0 || to.hosted.LID != 0 {
		return from.hosted.LID != 0 && to.hosted.LID != 0 && av.RLID == to.hosted.LID
	}
	return to.gids == nil || slices.ContainsFunc(to.gids, func(g nic.GID) bool { return g.Addr == av.RGID })
}

// whyNoTarget returns why nobody answers q's WQE. Without its key, nobody learns more of a DCT than
// that it exists.
func (sh *reporter) whyNoTarget(q *qp) reason {
	to, p := &q.dc.to, sh.targetOf(q)
	switch {
	case p == nil:
		return because(codes.DCNobody, "no DCT has the number %#06x", to.DQP)
	case p.dc.key == bits.ReverseBytes64(to.Key):
		return because(codes.DCKey, "DCT %#06x drops requests with this access key, which was stored in host byte order", to.DQP)
	case p.dc.key != to.Key:
		return because(codes.DCKey, "DCT %#06x drops requests with this access key; its key is another", to.DQP)
	case !leadsTo(to, q.client, p.client):
		return because(codes.DCNobody, "DCT %#06x exists, but the address vector does not lead to its port (LID %#x, GID %x)", to.DQP, to.RLID, to.RGID)
	}
	return because(codes.DCNobody, "DCT %#06x is in state %s; it answers in RTR", to.DQP, stateName(p.attr.State))
}
