//go:build linux && (amd64 || arm64)

package transport

import (
	"encoding/binary"

	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
)

// Packets that fit into one line of a ring: WRITEs of a few bytes, requests of READs, and
// acknowledgements. They are made in registers and stored in the ring, and are read from there into
// registers; see packetring.Producer.PublishLine and packetring.Consumer.Peek.

// LineBytes is the longest payload of a WRITE whose packet is one line.
const LineBytes = packetring.LineRoom - rethEnd

// The words of a line that have headers, in the packet's order of bytes. The word lineNext has the last four
// bytes of the BTH, and then the first four bytes of a RETH or an AETH.
const (
	linePath = 1 // in the upper half
	lineBTH  = 2
	lineNext = 3
	lineKey  = 4 // of a RETH: the lower half of the address, the key
	lineEnd  = 5 // of a RETH: the length; then payload
)

// fastPacket serves the next packet if it is one line and may take the fast path, and reports whether
// it has.
func (sh *sender) fastPacket(p *object.Port) bool {
	b, size := p.Settings.Receive.Peek()
	n := int(size & 0xffff)
	if b == nil || n > packetring.LineRoom {
		return false
	}
	path, w2, w3 := uint32(b.Word(linePath)>>32), b.Word(lineBTH), b.Word(lineNext)
	p.Packet.N, p.Packet.Head[0] = int(size>>16), byte(w2>>56) // for asks
	switch size >> 16 {
	case rethEnd:
		if n > LineBytes {
			return false
		}
		p.Left -= n + object.PieceCost
		q, mem := sh.judgeFast(p, path, w2, w3, b.Word(lineKey), uint32(b.Word(lineEnd)>>32), n)
		if q == nil {
			p.Left += n + object.PieceCost
			return false
		}
		sh.Enter(q)
		if n > 0 {
			p.Took(n)
			execution.Move(mem, b[packetring.HeadSize+rethEnd:][:n])
			p.Executed(q, w3>>63 != 0)
		} else if !sh.fastAnswer(p, q.Wire, mem, true) {
			p.Left += object.PieceCost
			return false
		}
		return true
	case object.AETHEnd:
		op, qpn, ok := packet.ParsePlainWord(w2)
		psn := uint32(w3 >> 32)
		if !ok || psn>>24 != 0 || op != object.ACKOnly && op != readOnly || n > packetring.LineRoom-object.AETHEnd {
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
		if op == object.ACKOnly {
			taken = n == 0 && // rule: an ACK has no payload
				sh.fastACK(p, q, path, psn, uint8(w3>>24))
		} else {
			taken = sh.fastResult(p, q, path, psn, b[packetring.HeadSize+object.AETHEnd:][:n], true)
		}
		if taken {
			p.Left -= n + object.PieceCost
		}
		return taken
	}
	return false
}

// fastACK serves an acknowledgement that is no NAK and that q waits for, and reports whether it was one.
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

// sendACK is sendAETH for the acknowledgement of a PSN.
func (sh *wires) sendACK(w *object.Wire, psn uint32) bool {
	q, p := w.Q, w.Port
	if !p.Up || q.Service() != packet.RC {
		return sh.sendAETH(q, packet.SyndromeACK, psn)
	}
	if !p.Settings.Send.PublishLine(w.Path, object.AETHEnd<<16, packet.PlainWord(object.ACKOnly, q.Attr.DestQPN),
		uint64(psn)<<32|packet.SyndromeACK<<24|uint64(w.In.MSN&0xffffff), 0, 0, 0, 0) {
		p.Shard.RingFull = true
		return false
	}
	p.Sent(1, 0)
	return true
}

// sendLines sends WRITEs of q as packets of one line, at most the parameter most, and returns how many.
// shortPiece has judged the first one: its block is b, its local memory near, in k unless it is inline. Those
// after it are judged as a series: they differ from the first in their index and addresses only. Only the
// last asks for an acknowledgement, and one in ACKEvery.
//
// The packets are made in private memory first and stored in the ring one after another. So while the
// ring's lines come from the other side's core, no other stores are between those of packets. If a fault of
// memory ends it early, nothing was sent.
func (sh *sender) sendLines(q *object.QP, b *shm.Block, h object.Head, near []byte, k *object.Mkey, most int) (done int) {
	w := q.Wire
	r := &w.Out
	n := uint64(len(near))
	data := wqe.DataWord(b.Word(wqe.WordMoveData))
	mem, base, last, same := k.Payloads(n)
	if h.First.OpMod() != 0 || h.Place() != object.Place(q.Num, q.SQ.Done) {
		most = 1
	}
	packets := w.Port.Settings.Send.Lines(most)
	if len(packets) == 0 {
		return 0
	}
	bth := packet.PlainWord(writeOnly, q.Attr.DestQPN)
	first, second, psn, index := h.First, h.Second, r.PSN, q.SQ.Done
	be := binary.BigEndian
	for {
		m := r.Message(r.Last + uint32(done))
		m.Head.First, m.Head.Second = first, second
		m.Index, m.Total, m.PSN, m.PSNs, m.Blocks = index, n, psn, 1, 1
		m.Answers, m.Answered = false, 0
		addr, rkey, line := b.Word(wqe.WordRAddr), wqe.KeyWord(b.Word(wqe.WordRKey)).RKey(), &packets[done]
		w5, w6, w7 := lineWords(near)
		word := uint64(psn)
		if psn%ACKEvery == ACKEvery-1 {
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
		b = q.SQ.Blocks.At(index)
		h = execution.HeadOf(b)
		first, second = first.Next(), h.Second
		d := wqe.DataWord(b.Word(wqe.WordMoveData))
		if wqe.Unlike(h.First, first, second, d, data, same) != 0 { // rule: WRITEs of a series of lines are alike
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
	w.Port.Settings.Send.PublishLines(w.Path, uint32(rethEnd<<16|n), done)
	w.Port.Sent(done, done*int(n))
	r.PSN, r.Last, q.SQ.Done = psn, r.Last+uint32(done), index
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
	var all [LineBytes]byte
	copy(all[:], b)
	return uint64(be.Uint32(all[:])), be.Uint64(all[4:]), be.Uint64(all[12:])
}
