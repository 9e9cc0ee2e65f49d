//go:build linux && (amd64 || arm64)

package engine

import (
	"encoding/binary"

	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// The WQE of a datagram names its receiver, and a receive begins with a GRH.

const (
	grhSize     = 40
	maxDatagram = 4096 // bytes: the path MTU
)

// addressDatagram finds the receiver of a datagram, puts it into the request, and writes
// the GRH that goes with the datagram.
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
		r.qkey = q.attr.QKey // this bit stands for the sender's own qkey
	}
	if j.peer = p; p != nil {
		sh.putGRH(av, j.total, &q.client.hosted.GID, &p.client.hosted.GID)
	}
	return accepted
}

// takesDatagram reports whether the receiver of j's datagram exists and has the qkey of
// the datagram. If so, it puts the GRH before the bytes.
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
	// The GRH goes first: the pieces move up by one.
	l := &j.src
	copy(l.piece[1:l.n+1], l.piece[:l.n])
	l.piece[0] = piece{mem: sh.scratch.grh[:], n: grhSize}
	l.n++
	j.total += grhSize
	return true
}

// putGRH writes the header that a receiver finds before a datagram, as for
// RoCE v1: the GIDs are those of the two clients.
func (sh *shard) putGRH(av wqe.AV, n uint64, from, to *[16]byte) {
	be := binary.BigEndian
	flow := av.GRH & 0xfffff
	be.PutUint32(sh.scratch.grh[0:], 6<<28|uint32(av.TClass)<<20|flow)
	be.PutUint16(sh.scratch.grh[4:], uint16(n))
	sh.scratch.grh[6], sh.scratch.grh[7] = 0x1b, max(av.HopLimit, 1) // next header: IBA transport
	copy(sh.scratch.grh[8:24], from[:])
	copy(sh.scratch.grh[24:40], to[:])
}

// gid is the device's address: link-local, from its GUID.
func (e *Engine) gid() (g [16]byte) {
	g[0], g[1] = 0xfe, 0x80
	binary.BigEndian.PutUint64(g[8:], e.guid)
	return g
}

// sendError puts q into error because of its own work request. A datagram queue goes to
// SQE, and goes on receiving.
func (sh *shard) sendError(q *qp) {
	if q.transport == control.QPTypeUD && q.attr.State == control.StateRTS {
		sh.setState(q, control.StateSQE)
		return
	}
	sh.setError(q)
}
