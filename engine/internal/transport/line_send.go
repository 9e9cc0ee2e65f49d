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

// sendLines sends up to most WRITEs of q as packets of one line each, and returns how many it has sent.
// shortPiece has checked the first WRITE: its block is b, its control segment h, and its local memory near,
// which is memory of the key k unless the bytes are in the WQE. The WRITEs after it are checked as a series:
// they differ from the first only in their index and addresses. One WRITE in ACKEvery asks for an
// acknowledgement, and so does the last.
//
// The packets are made in private memory first, and then stored in the ring one after another. The ring's
// lines have to come from the other side's core. During that time, no stores to other memory come between the
// stores to the ring. If a fault of memory ends sendLines early, no packet was sent.
func (sh *sender) sendLines(q *object.QP, b *shm.Block, h object.Head, near []byte, k *object.Mkey,
	most int) (done int) {
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
			word |= ackReqBit
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
		if wqe.Unlike(h.First, first, second, d, data, same) != 0 { // rule: lines of a series are alike
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
	q.Client.Traffic.N.Sent(done, done*int(n))
	r.PSN, r.Last, q.SQ.Done = psn, r.Last+uint32(done), index
	return done
}

// lineWords returns the payload of a packet of one line, as numbers in the packet's order of bytes: its first
// 4 bytes, the next 8, and the last 8.
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

// LineBytes is the longest payload of a WRITE whose packet is one line.
const LineBytes = packetring.LineRoom - rethEnd
