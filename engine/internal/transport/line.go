//go:build linux && (amd64 || arm64)

package transport

import (
	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/linepacket"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/traffic"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/packet"
)

// fastPacket serves the packet that Peek has returned if it may take the fast path. It reports whether it has
// served the packet.
func (sh *sender) fastPacket(p *object.Port, b *shm.Block, size uint32) bool {
	n := int(size & 0xffff)
	if n > packetring.LineRoom {
		return false
	}
	path, w2, w3 := uint32(b.Word(linepacket.Path)>>32), b.Word(linepacket.BTH), b.Word(linepacket.Next)
	p.Packet.N, p.Packet.Head[0] = int(size>>16), byte(w2>>56) // for ServesRequest
	switch size >> 16 {
	case linepacket.RETHEnd:
		if n > linepacket.MostPayload {
			return false
		}
		p.Left -= n + object.PieceCost
		q, mem := sh.checkFast(p, path, w2, w3, b.Word(linepacket.Key), uint32(b.Word(linepacket.End)>>32), n)
		if q == nil {
			p.Left += n + object.PieceCost
			return false
		}
		sh.Enter(q)
		if n > 0 {
			p.Took(n)
			traffic.Wrote(q, n)
			execution.Move(mem, b[packetring.HeadSize+linepacket.RETHEnd:][:n])
			p.Executed(q, w3>>63 != 0)
		} else if !sh.fastAnswer(p, q.Wire, mem, true) {
			p.Left += object.PieceCost
			return false
		}
		return true
	case linepacket.AETHEnd:
		op, qpn, ok := packet.ParsePlainWord(w2)
		psn := uint32(w3 >> 32)
		if !ok || psn>>24 != 0 || (op != linepacket.ACKOnly && op != readOnly) ||
			n > packetring.LineRoom-linepacket.AETHEnd {
			return false
		}
		q := p.Find(qpn)
		if q == nil || q.Wire == nil ||
			q.Wire.Port != p || // rule: an ACK comes through the port of its queue pair
			!sh.fast(q) {
			return false
		}
		sh.Enter(q)
		taken := false
		if op == linepacket.ACKOnly {
			taken = n == 0 && // rule: an ACK has no payload
				sh.fastACK(p, q, path, psn, uint8(w3>>24))
		} else {
			taken = sh.fastResult(p, q, path, psn, b[packetring.HeadSize+linepacket.AETHEnd:][:n], true)
		}
		if taken {
			q.Client.Traffic.N.Got(n)
			p.Left -= n + object.PieceCost
		}
		return taken
	}
	return false
}

// fastACK serves a packet if it is an acknowledgement that q waits for, and no NAK. It reports whether it has
// served the packet.
func (sh *sender) fastACK(p *object.Port, q *object.QP, path, psn uint32, syndrome uint8) bool {
	w := q.Wire
	r := &w.Out
	if path != w.Source || // rule: an ACK comes from the peer
		packet.DiffPSN(psn, r.UNA) < 0 || // rule: an ACK is not of the past
		packet.DiffPSN(psn, r.Most) >= 0 || // rule: an ACK is not of the future
		!(packet.AETH{Syndrome: syndrome}).ACK() { // rule: a NAK takes the slow path
		return false
	}
	p.Took(0)
	sh.acknowledged(q, packet.AddPSN(psn, 1))
	return true
}
