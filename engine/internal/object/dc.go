//go:build linux && (amd64 || arm64)

package object

import (
	"slices"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
)

// The dynamically connected transport (DC). A queue pair that sends (DCI) executes the requests of
// a reliable connection. But each WQE names the queue pair that receives (DCT), so that one DCI
// can reach all DCTs, and many DCIs one DCT. See execution/dc.go for what a DCI does with a WQE.

// TargetOf returns the DCT with the number in the address vector that q has read last, or nil if
// there is none.
func (sh *Shard) TargetOf(q *QP) *QP {
	n, p := q.DC.To.DQP, q.Conn.Peer
	if p == nil || p.Dead || p.Num != n {
		p = sh.QPs[n]
	}
	if p == nil || p.Transport != control.QPTypeDCT {
		return nil
	}
	return p
}

// FindTarget reports whether the DCT answers that the address vector which q has read last names.
func (sh *Shard) FindTarget(q *QP) bool {
	p := sh.TargetOf(q)
	if !q.ReachesTarget(p) {
		return false
	}
	q.Conn.Peer = p
	return true
}

// ReachesTarget reports whether p answers a WQE with the address vector that q has read last. p
// is nil or TargetOf(q).
func (q *QP) ReachesTarget(p *QP) bool {
	to := &q.DC.To
	return p != nil && !p.Dead && p.Num == to.DQP && p.Listens() && p.DC.Key == to.Key &&
		LeadsTo(to, q.Client, p.Client) &&
		q.Client.Device.Outages.Carry(q.Client.Hosted.Port, p.Client.Hosted.Port)
}

// Reaches reports whether q may send to p, which is the peer that q has found last, or nil.
func (q *QP) Reaches(p *QP) bool {
	if q.Transport == control.QPTypeDCI {
		return q.ReachesTarget(p)
	}
	return q.Connected(p)
}

// PeerNumber returns the number of the queue pair that q's next WQE is for.
func (q *QP) PeerNumber() uint32 {
	if q.Transport == control.QPTypeDCI {
		return q.DC.To.DQP
	}
	return q.Attr.DestQPN
}

// LeadsTo reports whether an address vector leads from a port to another. On InfiniBand it names
// the port by LID. On Ethernet it names one of the port's GIDs, unless the client that receives has
// no GID table: such a client need not write addresses into WQEs.
func LeadsTo(av *wqe.AV, from, to *Client) bool {
	if from.Hosted.LID != 0 || to.Hosted.LID != 0 {
		return from.Hosted.LID != 0 && to.Hosted.LID != 0 && av.RLID == to.Hosted.LID
	}
	return to.GIDs == nil || slices.ContainsFunc(to.GIDs, func(g nic.GID) bool { return g.Addr == av.RGID })
}

// Streams of a DCI. Each WQE says which stream it is of. A fault ends the stream of its WQE, and
// the queue pair only when as many streams have failed as it tolerates. A queue pair without
// streams tolerates one.

// Stream returns the stream of a WQE (dci_stream_channel_id).
func (h Head) Stream() uint16 { return h.Second.Stream() }

// FailStream is called when a WQE of q has failed. It returns true if only the stream of the WQE
// has failed, and q goes on.
func (q *QP) FailStream(h Head) bool {
	if q.DC == nil || q.DC.Tolerance <= 1 || q.Attr.State != control.StateRTS {
		return false
	}
	if !slices.Contains(q.DC.Errored, h.Stream()) {
		q.DC.Errored = append(q.DC.Errored, h.Stream())
	}
	return len(q.DC.Errored) < q.DC.Tolerance
}
