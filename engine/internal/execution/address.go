//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// The address vector of a datagram or of a DC message has 48 bytes, or 16 if it is compact, which bit 31 of
// dqp_dct says. A compact one names the port by its LID, so it is for InfiniBand, within a subnet. It has no
// room for the GID and the MAC that Ethernet needs, nor for the GID of a multicast group. rdma-core always
// posts full ones; UCX posts compact ones if the device claims compact_address_vector and there is no GRH.

// addressVector returns the address vector of the WQE in the snapshot.
func (sh *queues) addressVector() wqe.AV {
	return wqe.ReadAV((*[wqe.AVSize]byte)(sh.Scratch.WQE[wqe.CtrlSize:]))
}

// addressEnd returns where the segments after the address vector begin. It fails a WQE that has not all of
// the vector, or a compact one where a GID is needed. The caller has checked that a compact one is there.
func (sh *requester) addressEnd(q *object.QP, j *object.Job, info *wqe.Info) (end int, v object.Verdict) {
	to := wqe.ParseCompactAV((*[wqe.CompactAVSize]byte)(sh.Scratch.WQE[wqe.CtrlSize:]))
	need := ""
	switch {
	case to.Ext:
		const more = (wqe.AVSize - wqe.CompactAVSize) / wqe.UnitSize
		if least := info.LeastUnits(wqe.Transport(q.Transport)) + more; j.Head.DS() < least {
			return 0, sh.tooSmall(q, j, least)
		}
		return wqe.CtrlSize + wqe.AVSize, object.Accepted
	case q.Client.Hosted.LID == 0 && (q.DC == nil || q.Client.GIDs != nil): // see object.LeadsTo
		need = "an Ethernet port needs"
	case q.Transport == control.QPTypeUD && to.DQP == MulticastQPN:
		need = "names a multicast group"
	default:
		return wqe.CtrlSize + wqe.CompactAVSize, object.Accepted
	}
	sh.Explain(q, codes.AVCompact,
		"the address vector is compact (bit 31 of dqp_dct is clear, 16 bytes), so it has no GID, which %s", need)
	return 0, sh.Fail(q, j, cqe.LocalQPOp)
}
