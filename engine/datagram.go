//go:build linux && (amd64 || arm64)

package engine

import (
	"encoding/binary"

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
func (sh *shard) addressDatagram(q *qp, j *job) verdict {
	if j.total > maxDatagram {
		return sh.tooLong(q, j, j.total, maxDatagram)
	}
	av := wqe.ParseAV((*[wqe.AVSize]byte)(sh.scratch.wqe[wqe.CtrlSize:]))
	p := q.conn.peer
	if p == nil || p.dead || p.num != av.DQP {
		p = sh.qps[av.DQP]
		q.conn.peer = p
	}
	if p != nil && sh.several && !sh.holds(p.client.shard) {
		sh.postpone(q, p.client.shard)
		return waiting
	}
	r := &j.request
	r.toQPN, r.qkey = av.DQP, av.QKey()
	if r.qkey>>31 != 0 {
		r.qkey = q.attr.QKey // a qkey with this bit set means the sender's own qkey
	}
	if j.peer = p; p != nil {
		sh.putGRH(av, j.total, &q.client.hosted.GID, &p.client.hosted.GID)
	}
	return accepted
}

// takesDatagram reports whether the receiving queue pair of j's datagram exists and has the
// qkey of the datagram. If so, takesDatagram puts the GRH before the datagram's bytes.
func (sh *shard) takesDatagram(q *qp, j *job) bool {
	p, r := j.peer, &j.request
	switch {
	case p == nil || p.transport != control.QPTypeUD || !p.listens():
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

// putGRH writes the GRH that a receiver finds before a datagram, in the form of RoCE v1.
// The GIDs in it are those of the two clients.
func (sh *shard) putGRH(av wqe.AV, n uint64, from, to *[16]byte) {
	be := binary.BigEndian
	flow := av.GRH & 0xfffff
	be.PutUint32(sh.scratch.grh[0:], 6<<28|uint32(av.TClass)<<20|flow)
	be.PutUint16(sh.scratch.grh[4:], uint16(n))
	sh.scratch.grh[6], sh.scratch.grh[7] = 0x1b, max(av.HopLimit, 1) // next header: IBA transport
	copy(sh.scratch.grh[8:24], from[:])
	copy(sh.scratch.grh[24:40], to[:])
}

// gid returns the device's address. It is link-local and made from the GUID.
func (e *Engine) gid() (g [16]byte) {
	g[0], g[1] = 0xfe, 0x80
	binary.BigEndian.PutUint64(g[8:], e.guid)
	return g
}

// sendError puts q into error because of q's own work request. A UD queue pair goes to
// SQE instead, in which it still receives.
func (sh *shard) sendError(q *qp) {
	if q.transport == control.QPTypeUD && q.attr.State == control.StateRTS {
		sh.setState(q, control.StateSQE)
		return
	}
	sh.setError(q)
}
