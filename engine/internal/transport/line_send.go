//go:build linux && (amd64 || arm64)

package transport

import (
	"encoding/binary"

	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/linepacket"
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
	if most == 1 || h.First.OpMod() != 0 || h.Place() != object.Place(q.Num, q.SQ.Done) {
		return sendLine(w, b, h, near)
	}
	mem, base, last, same := k.Payloads(n)
	packets := w.Port.Settings.Send.Lines(most)
	if len(packets) == 0 {
		return 0
	}
	bth := packet.PlainWord(linepacket.WriteOnly, q.Attr.DestQPN)
	first, second, psn, index := h.First, h.Second, r.PSN, q.SQ.Done
	be := binary.BigEndian
	for {
		m := r.Message(r.Last + uint32(done))
		m.Head.First, m.Head.Second = first, second
		m.Index, m.Total, m.PSN, m.PSNs, m.Blocks = index, n, psn, 1, 1
		m.Answers, m.Answered = false, 0
		addr, rkey, line := b.Word(wqe.WordRAddr), wqe.KeyWord(b.Word(wqe.WordRKey)).RKey(), &packets[done]
		w5, w6, w7 := linepacket.Payload(near)
		word := uint64(psn)
		if psn%ACKEvery == ACKEvery-1 {
			word |= linepacket.AckReq
		}
		be.PutUint64(line[8*linepacket.BTH:], bth)
		be.PutUint64(line[8*linepacket.Next:], word<<32|addr>>32)
		be.PutUint64(line[8*linepacket.Key:], addr<<32|uint64(rkey))
		be.PutUint64(line[8*linepacket.End:], n<<32|w5)
		be.PutUint64(line[8*linepacket.End+8:], w6)
		be.PutUint64(line[8*linepacket.End+16:], w7)
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
	w.Port.Settings.Send.PublishLines(w.Path, uint32(linepacket.RETHEnd<<16|n), done)
	w.Port.Sent(done, done*int(n))
	q.Client.Traffic.N.Sent(done, done*int(n))
	r.PSN, r.Last, q.SQ.Done = psn, r.Last+uint32(done), index
	return done
}
