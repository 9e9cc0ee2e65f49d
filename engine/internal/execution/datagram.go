//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
)

const maxDatagram = 4096 // in bytes; this is the path MTU

// addressDatagram finds the queue pair that is to receive a datagram, puts it into the
// request, and writes the GRH of the datagram.
func (sh *requester) addressDatagram(q *object.QP, j *object.Job) object.Verdict {
	if j.Total > maxDatagram {
		return sh.TooLong(q, j, j.Total, maxDatagram)
	}
	av := sh.addressVector()
	r := &j.Request
	r.ToQPN, r.QKey = av.DQP, av.QKey()
	if r.QKey>>31 != 0 {
		r.QKey = q.Attr.QKey // a qkey with this bit set means the sender's own qkey
	}
	if av.DQP == MulticastQPN {
		return sh.addressGroup(q, j, &av)
	}
	if sh.Router != nil && sh.Links.RouteAway(q, &av) {
		return sh.Links.SendDatagram(q, j, &av)
	}
	p := q.Conn.Peer
	if p == nil || p.Dead || p.Num != av.DQP {
		p = sh.QPs[av.DQP]
		q.Conn.Peer = p
	}
	if p != nil && sh.Several && !sh.Holds(p.Client.Shard) {
		sh.Postpone(q, p.Client.Shard)
		return object.Waiting
	}
	j.Peer = p
	if p != nil {
		sh.PutHeader(&av, q.Client, p.Client, j.Total)
	}
	return object.Accepted
}

// takesDatagram reports whether the receiving queue pair of j's datagram exists and has the
// qkey of the datagram. If so, takesDatagram puts the GRH before the datagram's bytes.
func (sh *requester) takesDatagram(q *object.QP, j *object.Job) bool {
	p, r := j.Peer, &j.Request
	switch {
	case p != nil && sh.Outages.Disturbed && !sh.Scratch.Reaches:
		why := sh.WhyNotCarried(q.Client, p.Client)
		sh.Explain(q, why.Code, "datagram to QP %#06x: %s; it is dropped", r.ToQPN, why)
		return false
	case p == nil || p.Transport != control.QPTypeUD || !p.Listens() || !sh.Scratch.Reaches:
		sh.Explain(q, codes.UDNoReceiver, "datagram to QP %#06x: no UD queue pair of that number listens; it is dropped", r.ToQPN)
		return false
	case p.Attr.QKey != r.QKey:
		sh.Explain(q, codes.UDQKey, "datagram to QP %#06x with qkey %#08x; its qkey is another. It is dropped", r.ToQPN, r.QKey)
		return false
	}
	// The GRH is the first piece, so all other pieces move up by one.
	l := &j.Src
	copy(l.Piece[1:l.N+1], l.Piece[:l.N])
	l.Piece[0] = object.Piece{Mem: sh.Scratch.GRH[:], N: object.GRHSize}
	l.N++
	j.Total += object.GRHSize
	return true
}

// completeDatagram completes the receive of a datagram of q, and reports whether there was room.
func (sh *requester) completeDatagram(q *object.QP, j *object.Job, imm uint32, tail cqe.Tail,
	a object.Attention) bool {
	p, c, source := j.Peer, j.Peer.RQ.CQ, j.Request.FromQPN
	if !j.Local {
		source |= cqe.GRHInBuffer
	}
	source = cqe.FlagsRQPN(source, j.Request.SL, source)
	return sh.CompleteFrom(q.Client.Hosted.LID, c, source, p.UIDX, imm, uint32(j.Total), tail, a)
}

// CompleteFrom is Complete for a datagram or a message of DC. On InfiniBand, such a completion also
// has the sender's LID, slid, by which UCX answers; on Ethernet slid is 0. Complete has no argument for
// the LID, because no other completion needs it. So CompleteFrom writes the entry itself, in the same order:
// the tail last.
func (sh *requester) CompleteFrom(slid uint16, c *object.CQ, source, uidx, imm, n uint32, tail cqe.Tail,
	a object.Attention) bool {
	if slid == 0 || c.Collapsed {
		return sh.Complete(c, source, uidx, imm, n, sh.Clock(), tail, a)
	}
	if c.Free(1) == 0 {
		return false
	}
	index, slot := c.Next, c.Next&(1<<(c.Log&63)-1)
	block := c.Entry(slot)
	if c.LogCQE == 7 {
		clear(c.Buf[slot<<7:][:cqe.Size])
	}
	body := (*[cqe.Size]byte)(block)
	cqe.PutBody(body, source, uidx, imm, n, sh.Clock())
	cqe.PutSLID(body, slid)
	tail = tail.Owned(index, c.Log)
	if a == object.Solicited {
		tail |= cqe.Tail(cqe.SolicitedBit)
	}
	block.PublishTail(uint64(tail))
	c.Next = index + 1
	c.Client.Count[control.CounterCQEs]++
	sh.Notify(c, a)
	return true
}
