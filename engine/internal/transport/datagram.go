//go:build linux && (amd64 || arm64)

package transport

import (
	"errors"
	"slices"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
)

// The router is queried again for the path to an address after PathTime, because a carrier may have given the
// path's number to another path meanwhile. If there was no path, it is queried again after queryAgainTime.
const (
	queryAgainTime = time.Millisecond
	PathTime       = 100 * time.Millisecond
)

// stale reports whether the router is to be queried again for the path a.
func stale(a *object.AwayPath, now uint64) bool {
	after := PathTime
	if a.Err != nil {
		after = queryAgainTime
	}
	return now-a.When > clock.Cycles(after)
}

// RouteAway reports whether a datagram with the address vector av leaves this device. It queries
// the router when the address is another than that of the datagram before, and keeps the path in q.
func (sh *sender) RouteAway(q *object.QP, av *wqe.AV) bool {
	c := q.Client
	to := nic.Address{GID: av.RGID, LID: av.RLID, Class: av.TClass, HopLimit: av.HopLimit,
		FlowLabel: av.GRH & 0xfffff, From: c.Hosted.GID}
	if to.GID == ([16]byte{}) && c.Hosted.LID == 0 {
		return false
	}
	if c.Hosted.LID == 0 {
		to.LID = 0
	}
	if i := int(av.GRH >> execution.AvIndexAt & 0xff); i < len(c.GIDs) {
		to.From = c.GIDs[i].Addr
	}
	if len(c.Sources) == 0 && c.GIDs == nil {
		return false // the datagrams of native clients stay on this device
	}
	a := &q.Datagrams.Away
	if a.Routes != sh.Routes || a.Address != to || stale(a, sh.Now()) {
		a.Address, a.Routes = to, sh.Routes
		a.Path, a.Err = sh.Router.Route(to)
		if p := a.Path.Port; a.Err == nil && p != nil && !maySend(c, av, &to.From, p.(*PortHandle).Port) {
			a.Err = errNotRequested
		}
		a.When = sh.Now()
	}
	// A client without a GID table need not write addresses into its WQEs.
	return a.Path.Port != nil || opening(a) || (a.Err != nil && c.GIDs != nil)
}

// opening reports whether there will be a path soon.
func opening(a *object.AwayPath) bool { return errors.Is(a.Err, nic.ErrOpening) }

var errNotRequested = errors.New("no address handle and no rdma_cm id of this program has that source address and leads there")

// maySend reports whether a datagram of the client may leave by a port, with from as its source.
func maySend(c *object.Client, av *wqe.AV, from *[16]byte, p *object.Port) bool {
	if c.Hosted.LID != 0 && av.GRH&execution.AVGlobal == 0 {
		from = new([16]byte)
	}
	return c.HasSource(from, p.Network())
}

// A datagram whose address vector leads to another device becomes one packet. The packets that a
// port takes from a carrier have the 40 bytes of the GRH before the payload. Packets that the
// device gives to a port have them only if the port says so.

// SendDatagram sends the datagram of j to another device.
func (sh *sender) SendDatagram(q *object.QP, j *object.Job, av *wqe.AV) object.Verdict {
	a := &q.Datagrams.Away
	if opening(a) {
		sh.RingFull = true // the WQE waits, as for room in a ring
		return object.Waiting
	}
	if a.Err != nil {
		sh.Explain(q, codes.LinkNone, "datagram to QP %#06x: %s; it is dropped", av.DQP, a.Err)
		return sh.LoseMessage(j)
	}
	p := a.Path.Port.(*PortHandle).Port
	if sh.Outages.Down(q.Client.Hosted.Port) {
		why := sh.WhyNotCarried(q.Client, q.Client)
		sh.Explain(q, why.Code, "datagram to QP %#06x: %s; it is dropped", av.DQP, why)
		return sh.LoseMessage(j)
	}
	if p.Dead || !p.Up {
		sh.Explain(q, codes.LinkDown, "datagram to QP %#06x: link %s is down; it is dropped", av.DQP, p.Settings.Name)
		return sh.LoseMessage(j)
	}
	if sh.Several && !sh.Holds(p.Shard) {
		sh.Postpone(q, p.Shard)
		return object.Waiting
	}
	most := uint64(p.MTUOf(5, a.Path.MTU))
	if j.Total > most {
		return sh.TooLong(q, j, j.Total, most)
	}
	o := packet.SendOnly
	if j.Head.Opcode() == wqe.OpSendImm {
		o = packet.SendOnlyImm
	}
	op := packet.MakeOpcode(packet.UD, o)
	info := op.Info()
	grh := 0
	if p.Settings.GRH {
		grh = object.GRHSize
	}
	h, payload, ok := p.Settings.Send.Reserve(info.HeaderSize, grh+int(j.Total))
	if !ok {
		sh.RingFull = true
		return object.Waiting
	}
	if grh > 0 {
		sh.PutHeader(av, q.Client, q.Client, j.Total)
		copy(payload, sh.Scratch.GRH[:])
	}
	n := j.Total
	if n > 0 {
		j.Dst.Reset()
		j.Dst.Add(payload[grh:], nil, 0, n)
		if !sh.Transfer(j, n) {
			why := sh.Scratch.Gap.Why()
			sh.Explain(q, why.Code, "%v: %s", j.Head.Opcode(), why)
			return sh.Fail(q, j, cqe.LocalProtection)
		}
		j.Moved = 0
	}
	packet.BTH{Opcode: op, Solicited: j.Head.Solicited(), Migrated: true, PKey: object.DefaultPKey,
		DestQP: av.DQP, PSN: a.PSN}.Put((*[packet.BTHSize]byte)(h))
	packet.DETH{QKey: j.Request.QKey, SrcQP: q.Num}.Put((*[packet.DETHSize]byte)(h[info.OffDETH:]))
	if info.Imm {
		packet.ImmDt(j.Head.Imm()).Put((*[packet.ImmDtSize]byte)(h[info.OffImm:]))
	}
	a.PSN = packet.AddPSN(a.PSN, 1)
	p.Publish(a.Path.Number, len(payload))
	if &sh.Shard != p.Shard {
		p.Shard.GotWork = true // the port's thread wakes the carrier
	}
	q.Client.Count[control.CounterBytes] += n
	q.SQ.Moved += n
	return sh.LoseMessage(j) // the WQE completes: a datagram is not acknowledged
}

// receiveDatagram serves a datagram of another device.
func (sh *sender) receiveDatagram(p *object.Port, q *object.QP, info *packet.Info) {
	k := &p.Packet
	if !info.DETH || len(k.Payload) < object.GRHSize {
		p.Stats.Strangers++
		return
	}
	var header [object.GRHSize]byte // a copy: the sender can change the packet in a pool
	copy(header[:], k.Payload)
	to := destination(&header)
	if !q.Client.HasSource(&to, p.Network()) || !sh.arrivesAt(q.Client, &to) {
		p.Stats.Strangers++ // the program takes no packets from elsewhere at that address
		return
	}
	d := packet.ParseDETH((*[packet.DETHSize]byte)(k.Head[info.OffDETH:]))
	j := sh.Scratch.Job
	j.Reset(object.Head{})
	j.Peer, j.Recv, j.SRQ = q, true, q.RQ.SRQ
	j.Request = object.Request{Op: wqe.OpSend, Solicited: p.BTH.Solicited, FromQPN: d.SrcQP, ToQPN: q.Num,
		Imm: immediate(p, info)}
	response := wqe.OpSend.Info().Response
	if info.Imm {
		j.Request.Op, response = wqe.OpSendImm, wqe.OpSendImm.Info().Response
	}
	n := uint64(len(k.Payload))
	j.Total = n
	switch {
	case d.QKey != q.Attr.QKey:
		sh.ExplainResponder(j, codes.UDQKey, "datagram of QP %#06x on link %s with qkey %#08x; the qkey of this queue pair is another. It is dropped", d.SrcQP, p.Settings.Name, d.QKey)
		return
	case j.Receives() == 0:
		sh.NoReceive(j)
		return
	}
	if sh.Scatter(j, sh.OpenReceive(j)) != object.AnswerACK || sh.putPayload(p, j, n) != object.AnswerACK {
		sh.ReturnReceive(j)
		return
	}
	source := j.Request.FromQPN | cqe.GRHInBuffer
	source = cqe.FlagsRQPN(source, levelOf(&header), source)
	attention := object.Quietly
	if j.Request.Solicited {
		attention = object.Solicited
	}
	tail := object.ResponderTail(q.Num, j.Index, cqe.Opcode(response))
	if !sh.CompleteFrom(0, q.RQ.CQ, source, q.UIDX, j.Request.Imm, uint32(n), tail, attention) {
		sh.ReturnReceive(j)
		sh.Overrun(q.RQ.CQ)
		sh.SetError(q)
		return
	}
	sh.Consume(j)
}

// destination returns the destination in the header of a datagram that has come over a link: zero if the
// datagram has none.
func destination(h *[object.GRHSize]byte) (gid [16]byte) {
	switch {
	case h[0]>>4 == 6:
		return [16]byte(h[24:40])
	case h[execution.Ipv4At]>>4 == 4:
		gid[10], gid[11] = 0xff, 0xff
		copy(gid[12:], h[execution.Ipv4At+16:])
	}
	return gid
}

// arrivesAt reports whether the port of a client takes datagrams for an address: it is up, and has the
// address still if its GID has changed.
func (sh *sender) arrivesAt(c *object.Client, to *[16]byte) bool {
	n := c.Hosted.Port
	switch {
	case sh.Outages.Down(n):
		return false
	case !sh.Outages.Changed(n) || c.GIDs == nil:
		return true
	}
	return slices.ContainsFunc(c.GIDs, func(g nic.GID) bool { return g.Addr == *to })
}

// levelOf returns the service level in the completion of a datagram: on Ethernet, what kind of
// packet it was.
func levelOf(h *[object.GRHSize]byte) uint8 {
	switch {
	case h[0]>>4 == 6 && h[6] == execution.NextUDP:
		return execution.PacketUDP | execution.PacketIPv6
	case h[0]>>4 == 6:
		return 0
	case h[execution.Ipv4At]>>4 == 4:
		return execution.PacketUDP | execution.PacketIPv4
	}
	return 0
}
