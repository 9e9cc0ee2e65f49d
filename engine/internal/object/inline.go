//go:build linux && (amd64 || arm64)

package object

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// Inline data of completions ("scatter to CQE"): short data that come for a queue pair are put
// into the CQE. The client copies them, when it polls the CQE, to the memory that its work
// request names. The work request is checked as usual, so that its mistakes are found.

// CarryInline is called when q is made. flags are those of control.QP.Scatter. As with mlx5,
// messages are put into CQEs on connected transports, and results on reliable connections.
func (q *QP) CarryInline(flags uint8) {
	q.FastOps = q.Allowed
	if flags&control.ScatterResponder != 0 &&
		(q.Transport == control.QPTypeRC || q.Transport == control.QPTypeUC) {
		q.RQ.Inline = q.RQ.CQ.mostInline()
	}
	if flags&control.ScatterRequester != 0 && q.Transport == control.QPTypeRC {
		q.SQ.inline = q.SQ.CQ.mostInline()
		q.FastOps &^= 1<<wqe.OpRDMARead | 1<<wqe.OpAtomicFA | 1<<wqe.OpAtomicCS
	}
}

// mostInline returns how many bytes of data an entry of q has room for.
func (q *CQ) mostInline() uint8 {
	if q.LogCQE == 7 {
		return cqe.MaxInline64
	}
	return cqe.MaxInline32
}

// CarryResult lets the result of q's READ or atomic go into the CQE, if it is short enough. A
// WQE that asks for no completion has no CQE.
func (j *Job) CarryResult(q *QP) {
	if uint64(q.SQ.inline) >= j.Total && j.Total > 0 && q.Wire == nil && j.Head.CE() >= wqe.CEAlways {
		j.carry(&j.Dst, q.SQ.CQ)
	}
}

// CarryMessage lets the message go into the CQE of the receive that j has opened, if it is
// short enough.
func (j *Job) CarryMessage() {
	if q := j.Peer; uint64(q.RQ.Inline) >= j.Total && j.Total > 0 {
		j.carry(&j.Dst, q.RQ.CQ)
	}
}

// carry lets the bytes of j go into an entry of c, in place of the memory in the list to. c may
// have been resized since its queue pair was made, and have shorter entries now. The client
// copies the bytes to the addresses in its work request, so keys must give addresses of the
// client. Addresses of lists, and those that count from elsewhere, are no addresses of the client.
func (j *Job) carry(to *List, c *CQ) {
	if j.Total > uint64(c.mostInline()) {
		return
	}
	for i := range to.N {
		if k := to.Piece[i].Key; k == nil || k.From != k.Base || k.Room > 0 {
			return
		}
	}
	to.Reset()
	to.Add(j.Carried[:j.Total], nil, 0, j.Total)
	j.Carries = true
}
