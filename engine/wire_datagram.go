//go:build linux && (amd64 || arm64)

package engine

import (
	"errors"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
)

// A datagram whose address vector leads to another device becomes one packet. The packets that a
// port takes from a carrier have the 40 bytes of the GRH before the payload. Packets that the
// device gives to a port have them only if the port says so.

// A datagrams is what a UD queue pair has besides that which every queue pair has.
type datagrams struct {
	away   awayPath  // how the last datagram left the device
	groups []*group  // its multicast groups
	cast   castPoint // the datagram to a group that is being delivered
}

// An awayPath is the path to which the address vectors of a UD queue pair have led last.
type awayPath struct {
	asked  nic.Address
	when   uint64 // device clock when it was asked for
	routes uint64 // Engine.routes when it was asked for; 0: never
	path   nic.Path
	err    error
	psn    uint32
}

// An address without a path is asked for again after askAgainTime, one with a path after
// pathTime: a carrier may have given its place to another path meanwhile.
const (
	askAgainTime = time.Millisecond
	pathTime     = 100 * time.Millisecond
)

// stale reports whether the address is to be asked for again.
func stale(a *awayPath, now uint64) bool {
	after := pathTime
	if a.err != nil {
		after = askAgainTime
	}
	return now-a.when > clock.Cycles(after)
}

// leaves reports whether a datagram with the address vector av leaves this device. It asks the
// router when the address is another than that of the datagram before.
func (sh *sender) leaves(q *qp, av *wqe.AV) bool {
	c := q.client
	to := nic.Address{GID: av.RGID, LID: av.RLID, Class: av.TClass, HopLimit: av.HopLimit, FlowLabel: av.GRH & 0xfffff, From: c.hosted.GID}
	if to.GID == ([16]byte{}) && c.hosted.LID == 0 {
		return false
	}
	if c.hosted.LID == 0 {
		to.LID = 0
	}
	if i := int(av.GRH >> avIndexAt & 0xff); i < len(c.gids) {
		to.From = c.gids[i].Addr
	}
	if len(c.sources) == 0 && c.gids == nil {
		return false // the datagrams of native clients stay on this device
	}
	a := &q.datagrams.away
	if a.routes != sh.routes || a.asked != to || stale(a, sh.now()) {
		a.asked, a.routes = to, sh.routes
		a.path, a.err = sh.router.Route(to)
		if p := a.path.Port; a.err == nil && p != nil && !maySend(c, av, &to.From, p.(*portHandle).port) {
			a.err = errNotAsked
		}
		a.when = sh.now()
	}
	// A client without a GID table need not write addresses into its WQEs.
	return a.path.Port != nil || a.err != nil && c.gids != nil
}

var errNotAsked = errors.New("no address handle and no rdma_cm id of this program has that source address and leads there")

// maySend reports whether a datagram of the client may leave by a port, with from as its source.
func maySend(c *client, av *wqe.AV, from *[16]byte, p *port) bool {
	if c.hosted.LID != 0 && av.GRH&avGlobal == 0 {
		from = new([16]byte)
	}
	return c.hasSource(from, p.network())
}

// network reports whether strangers can send packets to this port: RoCE makes the GRH of its datagrams
// itself. The peers of other ports are engines that trust each other with addresses.
func (p *port) network() bool { return !p.cfg.GRH }

// sendDatagram sends the datagram of j to another device.
func (sh *sender) sendDatagram(q *qp, j *job, av *wqe.AV) verdict {
	a := &q.datagrams.away
	if a.err != nil {
		sh.explain(q, codes.LinkNone, "datagram to QP %#06x: %s; it is dropped", av.DQP, a.err)
		return sh.loseMessage(j)
	}
	p := a.path.Port.(*portHandle).port
	if p.dead || !p.up {
		sh.explain(q, codes.LinkDown, "datagram to QP %#06x: link %s is down; it is dropped", av.DQP, p.cfg.Name)
		return sh.loseMessage(j)
	}
	if sh.several && !sh.holds(p.sh) {
		sh.postpone(q, p.sh)
		return waiting
	}
	most := uint64(p.mtuOf(5, a.path.MTU))
	if j.total > most {
		return sh.tooLong(q, j, j.total, most)
	}
	o := packet.SendOnly
	if j.head.opcode() == wqe.OpSendImm {
		o = packet.SendOnlyImm
	}
	op := packet.MakeOpcode(packet.UD, o)
	info := op.Info()
	grh := 0
	if p.cfg.GRH {
		grh = grhSize
	}
	h, payload, ok := p.cfg.Send.Reserve(info.HeaderSize, grh+int(j.total))
	if !ok {
		sh.ringFull = true
		return waiting
	}
	if grh > 0 {
		sh.putHeader(av, q.client, q.client, j.total)
		copy(payload, sh.scratch.grh[:])
	}
	n := j.total
	if n > 0 {
		j.dst.reset()
		j.dst.add(payload[grh:], nil, 0, n)
		if !sh.transfer(j, n) {
			why := sh.scratch.gap.why()
			sh.explain(q, why.code, "%v: %s", j.head.opcode(), why)
			return sh.fail(q, j, cqe.LocalProtection)
		}
		j.moved = 0
	}
	packet.BTH{Opcode: op, Solicited: j.head.solicited(), Migrated: true, PKey: defaultPKey, DestQP: av.DQP, PSN: a.psn}.Put((*[packet.BTHSize]byte)(h))
	packet.DETH{QKey: j.request.qkey, SrcQP: q.num}.Put((*[packet.DETHSize]byte)(h[info.OffDETH:]))
	if info.Imm {
		packet.ImmDt(j.head.imm()).Put((*[packet.ImmDtSize]byte)(h[info.OffImm:]))
	}
	a.psn = packet.AddPSN(a.psn, 1)
	p.publish(a.path.Number, len(payload))
	if &sh.shard != p.sh {
		p.sh.gotWork = true // the port's thread wakes the carrier
	}
	q.client.count[control.CounterBytes] += n
	return sh.loseMessage(j) // the WQE completes: nothing is known of a datagram that was sent
}

// receiveDatagram serves a datagram of another device.
func (sh *sender) receiveDatagram(p *port, q *qp, info *packet.Info) {
	k := &p.packet
	if !info.DETH || len(k.Payload) < grhSize {
		p.stats.Strangers++
		return
	}
	var header [grhSize]byte // a copy: the sender can change the packet in a pool
	copy(header[:], k.Payload)
	if to := destination(&header); !q.client.hasSource(&to, p.network()) {
		p.stats.Strangers++ // the program has not asked for packets from elsewhere at that address
		return
	}
	d := packet.ParseDETH((*[packet.DETHSize]byte)(k.Head[info.OffDETH:]))
	j := sh.scratch.job
	j.reset(head{})
	j.peer, j.recv, j.srq = q, true, q.rq.srq
	j.request = request{op: wqe.OpSend, solicited: p.bth.Solicited, fromQPN: d.SrcQP, toQPN: q.num, imm: immediate(p, info)}
	response := wqe.OpSend.Info().Response
	if info.Imm {
		j.request.op, response = wqe.OpSendImm, wqe.OpSendImm.Info().Response
	}
	n := uint64(len(k.Payload))
	j.total = n
	switch {
	case d.QKey != q.attr.QKey:
		sh.explainResponder(j, codes.UDQKey, "datagram of QP %#06x on link %s with qkey %#08x; the qkey of this queue pair is another. It is dropped", d.SrcQP, p.cfg.Name, d.QKey)
		return
	case j.receives() == 0:
		sh.noReceive(j)
		return
	}
	if sh.scatter(j, sh.openReceive(j)) != answerACK || sh.putPayload(p, j, n) != answerACK {
		sh.putBack(j)
		return
	}
	source := j.request.fromQPN | cqe.GRHInBuffer
	source = cqe.FlagsRQPN(source, levelOf(&header), source)
	attention := quietly
	if j.request.solicited {
		attention = solicited
	}
	tail := responderTail(q.num, j.index, cqe.Opcode(response))
	if !sh.completeFrom(0, q.rq.cq, source, q.uidx, j.request.imm, uint32(n), tail, attention) {
		sh.putBack(j)
		sh.overrun(q.rq.cq)
		sh.setError(q)
		return
	}
	sh.consume(j)
}

// levelOf returns the service level in the completion of a datagram: on Ethernet, what kind of
// packet it was.
func levelOf(h *[grhSize]byte) uint8 {
	switch {
	case h[0]>>4 == 6 && h[6] == nextUDP:
		return packetUDP | packetIPv6
	case h[0]>>4 == 6:
		return 0
	case h[ipv4At]>>4 == 4:
		return packetUDP | packetIPv4
	}
	return 0
}
