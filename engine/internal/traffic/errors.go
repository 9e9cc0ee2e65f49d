//go:build linux && (amd64 || arm64)

package traffic

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/nic"
)

// Refused counts a refusal by the responder p, unless the request is only tried.
func Refused(p *object.QP, n nic.PortCount, trial bool) {
	if !trial {
		p.Client.Traffic.N[n]++
	}
}

// Waits counts that q begins to wait for a receive of its peer.
func Waits(q *object.QP) { q.Client.Traffic.N[nic.RNRNaks]++ }

// Retry counts that a try of a stalled queue pair was in vain; last says that it was the last one. As on
// hardware, the requester does not count the last one.
func Retry(q *object.QP, last bool) {
	switch {
	case q.Stall.Kind == object.NotReady:
		if p := q.Conn.Peer; p != nil {
			p.Client.Traffic.N[nic.OutOfBuffer]++
		}
		if !last {
			q.Client.Traffic.N[nic.RNRNaks]++
		}
	case !last:
		q.Client.Traffic.N[nic.AckTimeouts]++
	}
}

// Error counts an error CQE of a send or a receive.
func Error(n *nic.PortCounts, s cqe.Syndrome, send bool) {
	if !send {
		n[nic.RespErrors]++
		switch s {
		case cqe.Flush:
			n[nic.RespFlushed]++
		case cqe.LocalLength:
			n[nic.RespLength]++
		}
		return
	}
	n[nic.ReqErrors]++
	switch s {
	case cqe.Flush:
		n[nic.ReqFlushed]++
	case cqe.RemoteInvalidRequest:
		n[nic.ReqInvalid]++
	case cqe.RemoteAccess:
		n[nic.ReqAccess]++
	}
}
