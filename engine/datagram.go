//go:build linux && (amd64 || arm64)

package engine

import (
	"encoding/binary"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// This file holds what UD has beyond RC: the WQE of a datagram names the queue pair that
// receives it, and the bytes written to a receive begin with a GRH.

const (
	grhSize     = 40
	maxDatagram = 4096 // in bytes; this is the path MTU
)

// addressDatagram finds the queue pair that is to receive a datagram, puts it into the
// request, and writes the GRH of the datagram.
func (sh *requester) addressDatagram(q *qp, j *job) verdict {
	if j.total > maxDatagram {
		return sh.tooLong(q, j, j.total, maxDatagram)
	}
	av := wqe.ParseAV((*[wqe.AVSize]byte)(sh.scratch.wqe[wqe.CtrlSize:]))
	r := &j.request
	r.toQPN, r.qkey = av.DQP, av.QKey()
	if r.qkey>>31 != 0 {
		r.qkey = q.attr.QKey // a qkey with this bit set means the sender's own qkey
	}
	if av.DQP == multicastQPN {
		return sh.addressGroup(q, j, &av)
	}
	if sh.router != nil && sh.links.leaves(q, &av) {
		return sh.links.sendDatagram(q, j, &av)
	}
	p := q.conn.peer
	if p == nil || p.dead || p.num != av.DQP {
		p = sh.qps[av.DQP]
		q.conn.peer = p
	}
	if p != nil && sh.several && !sh.holds(p.client.shard) {
		sh.postpone(q, p.client.shard)
		return waiting
	}
	if j.peer = p; p != nil {
		sh.putHeader(&av, q.client, p.client, j.total)
	}
	return accepted
}

// takesDatagram reports whether the receiving queue pair of j's datagram exists and has the
// qkey of the datagram. If so, takesDatagram puts the GRH before the datagram's bytes.
func (sh *requester) takesDatagram(q *qp, j *job) bool {
	p, r := j.peer, &j.request
	switch {
	case p == nil || p.transport != control.QPTypeUD || !p.listens() || !sh.scratch.reaches:
		sh.explain(q, codes.UDNobody, "datagram to QP %#06x: no UD queue pair of that number listens; it is dropped", r.toQPN)
		return false
	case p.attr.QKey != r.qkey:
		sh.explain(q, codes.UDQKey, "datagram to QP %#06x with qkey %#08x; its qkey is another. It is dropped", r.toQPN, r.qkey)
		return false
	}
	// The GRH is the first piece, so all other pieces move up by one.
	l := &j.src
	copy(l.piece[1:l.n+1], l.piece[:l.n])
	l.piece[0] = piece{mem: sh.scratch.grh[:], n: grhSize}
	l.n++
	j.total += grhSize
	return true
}

// completeDatagram completes the receive of a datagram of q.
func (sh *requester) completeDatagram(q *qp, j *job, imm uint32, tail cqe.Tail, a attention) bool {
	p, c, source := j.peer, j.peer.rq.cq, j.request.fromQPN
	if !j.local {
		source |= cqe.GRHInBuffer
	}
	source = cqe.FlagsRQPN(source, j.request.sl, source)
	return sh.completeFrom(q.client.hosted.LID, c, source, p.uidx, imm, uint32(j.total), tail, a)
}

// completeFrom is complete for a datagram or a message of DC. On InfiniBand, such a completion
// also has the sender's LID, by which UCX answers; on Ethernet slid is 0. complete has no argument
// for it, because nothing else needs it. So this writes the entry itself, in the same order: the
// tail last.
func (sh *requester) completeFrom(slid uint16, c *cq, source, uidx, imm, n uint32, tail cqe.Tail, a attention) bool {
	if slid == 0 || c.collapsed {
		return sh.complete(c, source, uidx, imm, n, sh.clock(), tail, a)
	}
	if c.free(1) == 0 {
		return false
	}
	index, slot := c.next, c.next&(1<<(c.log&63)-1)
	block := c.entry(slot)
	if c.logCQE == 7 {
		clear(c.buf[slot<<7:][:cqe.Size])
	}
	body := (*[cqe.Size]byte)(block)
	cqe.PutBody(body, source, uidx, imm, n, sh.clock())
	cqe.PutSLID(body, slid)
	tail = tail.Owned(index, c.log)
	if a == solicited {
		tail |= cqe.Tail(cqe.SolicitedBit)
	}
	block.PublishTail(uint64(tail))
	c.next = index + 1
	c.client.count[control.CounterCQEs]++
	sh.tell(c, a)
	return true
}

// gid returns the device's address. It is link-local and made from the GUID.
func (e *device) gid() (g [16]byte) {
	g[0], g[1] = 0xfe, 0x80
	binary.BigEndian.PutUint64(g[8:], e.guid)
	return g
}

// sendError puts q into error because of q's own work request. A UD queue pair goes to
// SQE instead, in which it still receives.
func (sh *queues) sendError(q *qp) {
	if q.transport == control.QPTypeUD && q.attr.State == control.StateRTS {
		sh.setState(q, control.StateSQE)
		return
	}
	sh.setError(q)
}
