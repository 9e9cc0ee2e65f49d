//go:build linux && (amd64 || arm64)

package engine

import (
	"encoding/binary"

	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
)

// Packets that fit into one line of a ring: WRITEs of a few bytes, requests of READs, and
// acknowledgements. They are made in registers and stored in the ring, and are read from there into
// registers; see packetring.Producer.PublishLine and packetring.Consumer.Peek.

// lineBytes is the longest payload of a WRITE whose packet is one line.
const lineBytes = packetring.LineRoom - rethEnd

// The words of a line that have headers, in the packet's order of bytes. The word lineNext has the last four
// bytes of the BTH, and then the first four bytes of a RETH or an AETH.
const (
	linePath = 1 // in the upper half
	lineBTH  = 2
	lineNext = 3
	lineKey  = 4 // of a RETH: the lower half of the address, the key
	lineEnd  = 5 // of a RETH: the length; then payload
)

const ackOnly = packet.Opcode(packet.Acknowledge)

// fastPacket serves the next packet if it is one line and may take the fast path, and reports whether
// it has.
func (sh *sender) fastPacket(p *port) bool {
	b, size := p.cfg.Receive.Peek()
	n := int(size & 0xffff)
	if b == nil || n > packetring.LineRoom {
		return false
	}
	path, w2, w3 := uint32(b.Word(linePath)>>32), b.Word(lineBTH), b.Word(lineNext)
	p.packet.N, p.packet.Head[0] = int(size>>16), byte(w2>>56) // for asks
	switch size >> 16 {
	case rethEnd:
		if n > lineBytes {
			return false
		}
		p.left -= n + pieceCost
		q, mem := sh.judgeFast(p, path, w2, w3, b.Word(lineKey), uint32(b.Word(lineEnd)>>32), n)
		if q == nil {
			p.left += n + pieceCost
			return false
		}
		sh.enter(q)
		if n > 0 {
			p.took(n)
			move(mem, b[packetring.HeadSize+rethEnd:][:n])
			p.executed(q, w3>>63 != 0)
		} else if !sh.fastAnswer(p, q.wire, mem, true) {
			p.left += pieceCost
			return false
		}
		return true
	case aethEnd:
		op, qpn, ok := packet.ParsePlainWord(w2)
		psn := uint32(w3 >> 32)
		if !ok || psn>>24 != 0 || op != ackOnly && op != readOnly || n > packetring.LineRoom-aethEnd {
			return false
		}
		q := p.find(qpn)
		if q == nil || q.wire == nil ||
			q.wire.port != p || // rule: an ACK comes through the port of its queue pair
			!sh.fast(q) {
			return false
		}
		sh.enter(q)
		taken := false
		if op == ackOnly {
			taken = n == 0 && // rule: an ACK has no payload
				sh.fastACK(p, q, path, psn, uint8(w3>>24))
		} else {
			taken = sh.fastResult(p, q, path, psn, b[packetring.HeadSize+aethEnd:][:n], true)
		}
		if taken {
			p.left -= n + pieceCost
		}
		return taken
	}
	return false
}

// took takes the packet that fastPacket serves from the ring; n is the length of its payload.
func (p *port) took(n int) {
	p.cfg.Receive.Skip()
	p.stats.Received++
	p.stats.GotBytes += uint64(n)
}

// fastACK serves an acknowledgement that is no NAK and that q waits for, and reports whether it was one.
func (sh *sender) fastACK(p *port, q *qp, path, psn uint32, syndrome uint8) bool {
	w := q.wire
	r := &w.out
	if path != w.source || // rule: an ACK comes from the peer
		packet.DiffPSN(psn, r.una) < 0 || // rule: an ACK is not of the past
		packet.DiffPSN(psn, r.most) >= 0 || // rule: an ACK is not of the future
		!(packet.AETH{Syndrome: syndrome}).ACK() { // rule: a NAK takes the slow path
		return false
	}
	p.took(0)
	sh.acknowledged(q, packet.AddPSN(psn, 1))
	return true
}

// sendACK is sendAETH for the acknowledgement of a PSN.
func (sh *wires) sendACK(w *wire, psn uint32) bool {
	q, p := w.q, w.port
	if !p.up || q.service() != packet.RC {
		return sh.sendAETH(q, packet.SyndromeACK, psn)
	}
	if !p.cfg.Send.PublishLine(w.path, aethEnd<<16, packet.PlainWord(ackOnly, q.attr.DestQPN),
		uint64(psn)<<32|packet.SyndromeACK<<24|uint64(w.in.msn&0xffffff), 0, 0, 0, 0) {
		p.sh.ringFull = true
		return false
	}
	p.sent(1, 0)
	return true
}

// sendLines sends WRITEs of q as packets of one line, at most the parameter most, and returns how many.
// shortPiece has judged the first one: its block is b, its local memory near, in k unless it is inline. Those
// after it are judged as a series: they differ from the first in their index and addresses only. Only the
// last asks for an acknowledgement, and one in ackEvery.
//
// The packets are made in private memory first and stored in the ring one after another. So while the
// ring's lines come from the other side's core, no other stores are between those of packets. If a fault of
// memory ends it early, nothing was sent.
func (sh *sender) sendLines(q *qp, b *shm.Block, h head, near []byte, k *mkey, most int) (done int) {
	w := q.wire
	r := &w.out
	n := uint64(len(near))
	data := wqe.DataWord(b.Word(wqe.WordMoveData))
	mem, base, last, same := k.payloads(n)
	if h.first.OpMod() != 0 || h.place() != place(q.num, q.sq.done) {
		most = 1
	}
	packets := w.port.cfg.Send.Lines(most)
	if len(packets) == 0 {
		return 0
	}
	bth := packet.PlainWord(writeOnly, q.attr.DestQPN)
	first, second, psn, index := h.first, h.second, r.psn, q.sq.done
	be := binary.BigEndian
	for {
		m := r.message(r.last + uint32(done))
		m.head.first, m.head.second = first, second
		m.index, m.total, m.psn, m.psns, m.blocks = index, n, psn, 1, 1
		m.answers, m.answered = false, 0
		addr, rkey, line := b.Word(wqe.WordRAddr), wqe.KeyWord(b.Word(wqe.WordRKey)).RKey(), &packets[done]
		w5, w6, w7 := lineWords(near)
		word := uint64(psn)
		if psn%ackEvery == ackEvery-1 {
			word |= askBit
		}
		be.PutUint64(line[8*lineBTH:], bth)
		be.PutUint64(line[8*lineNext:], word<<32|addr>>32)
		be.PutUint64(line[8*lineKey:], addr<<32|uint64(rkey))
		be.PutUint64(line[8*lineEnd:], n<<32|w5)
		be.PutUint64(line[8*lineEnd+8:], w6)
		be.PutUint64(line[8*lineEnd+16:], w7)
		done++
		index++
		psn = packet.AddPSN(psn, 1)
		if done == len(packets) {
			break
		}
		b = q.sq.blocks.At(index)
		h = headOf(b)
		first, second = first.Next(), h.second
		d := wqe.DataWord(b.Word(wqe.WordMoveData))
		if wqe.Unlike(h.first, first, second, d, data, same) != 0 { // rule: WRITEs of a series of lines are alike
			break
		}
		if k == nil {
			near = b[wqe.MoveInlineAt:][:n]
		} else if at := b.Word(wqe.WordMoveLAddr) - base; at <= last {
			near = mem[at : at+n]
		} else {
			break
		}
	}
	packet.AskForAck(packets[done-1][packetring.HeadSize:]) // rule: the last line asks for an acknowledgement
	w.port.cfg.Send.PublishLines(w.path, uint32(rethEnd<<16|n), done)
	w.port.sent(done, done*int(n))
	r.psn, r.last, q.sq.done = psn, r.last+uint32(done), index
	return done
}

// lineWords returns the payload of a packet that is one line: its first 4 bytes, the next 8, and the
// last 8.
func lineWords(b []byte) (first, second, third uint64) {
	be := binary.BigEndian
	if len(b) == 8 {
		v := be.Uint64(b)
		return v >> 32, v << 32, 0
	}
	var all [lineBytes]byte
	copy(all[:], b)
	return uint64(be.Uint32(all[:])), be.Uint64(all[4:]), be.Uint64(all[12:])
}
