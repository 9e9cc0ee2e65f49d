//go:build linux && (amd64 || arm64)

package transport

import (
	"encoding/binary"

	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/linepacket"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/traffic"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
)

const (
	readRequest = packet.Opcode(packet.ReadRequest) // of the service RC, which is 0
	readOnly    = packet.Opcode(packet.ReadResponseOnly)
)

// fast reports whether packets and WQEs of a queue pair on a wire may take the fast path.
func (sh *sender) fast(q *object.QP) bool {
	return q.FastPath && q.Transport == control.QPTypeRC && q.Attr.State == control.StateRTS &&
		!sh.Hooks.NoFastPath
}

// A foundKey is the key that was looked up last. The next WQE often has the same key.
type foundKey struct {
	key uint32
	m   *object.Mkey
}

// find returns the key with this number, nil if there is none.
func (f *foundKey) find(sh *sender, key uint32) *object.Mkey {
	if f.m == nil || f.key != key {
		f.m, f.key = sh.Keys.Find(key), key
	}
	return f.m
}

// FastRequests sends up to most of the next WQEs of q, as long as each is a WRITE or a READ of one short
// piece. It returns how many WQEs it has sent. When it is called, all messages of q have been sent, and
// CanFetch is true.
//
// Of several short WRITEs, one in ACKEvery asks for an acknowledgement, and so does the last. FastRequests
// knows that a WRITE is not the last when the next one has been checked and has room in the ring. It holds
// the WRITE back until then.
//
// If a fault of memory ends FastRequests early, SQ.Done counts each message that was made.
func (sh *sender) FastRequests(q *object.QP, most int, bytes *int) (done int) {
	w := q.Wire
	r := &w.Out
	if !sh.mayRequest(q) {
		return 0
	}
	ring := w.Port.Settings.Send
	most = min(most, len(r.Messages)-int(r.Last-r.First))
	most = min(most, int(r.Window)-int(packet.DiffPSN(r.PSN, r.UNA))) // rule: requests fit into the window
	budget := *bytes
	var local foundKey
	held, size := []byte(nil), 0 // the headers of the WRITE that is held back, and the bytes of its payload
	reading := requests(w)
	for done < most && budget > 0 {
		b := q.SQ.Blocks.At(q.SQ.Done)
		h := execution.HeadOf(b)
		near, key, ok := sh.shortPiece(q, b, h, uint64(w.MTU), &local)
		if !ok || !isPlain(q, h) {
			break
		}
		n, op, reads := len(near), linepacket.WriteOnly, h.Opcode() == wqe.OpRDMARead
		if reads {
			if reading >= uint32(max(q.Attr.MaxRdAtomic, 1)) { // rule: the requester bounds its READs
				break
			}
			reading++
			n, op = 0, readRequest
		}
		if !reads && n <= linepacket.MostPayload {
			if held != nil {
				packet.AskForAck(held)
				traffic.Sent(q, size)
				w.Port.Publish(w.Path, size)
				held = nil
			}
			k := sh.sendLines(q, b, h, near, key, min(most-done, 1+(budget-1)/(n+object.PieceCost)))
			if k == 0 {
				break
			}
			done += k
			budget -= k * (n + object.PieceCost)
			continue
		}
		if held != nil {
			if linepacket.RETHEnd+n > packetring.Inline || ring.Free() < 2 {
				packet.AskForAck(held)
			}
			traffic.Sent(q, size)
			w.Port.Publish(w.Path, size)
			held = nil
		}
		head, payload, ok := ring.Reserve(linepacket.RETHEnd, n)
		if !ok {
			break
		}
		if !reads {
			execution.Move(payload, near)
		}
		ask := reads || r.PSN%ACKEvery == ACKEvery-1
		w.PutBTH(head, op, r.PSN, ask, false)
		reth := packet.RETH{Addr: b.Word(wqe.WordRAddr), RKey: wqe.KeyWord(b.Word(wqe.WordRKey)).RKey(),
			Length: uint32(len(near))}
		reth.Put((*[packet.RETHSize]byte)(head[packet.BTHSize:]))
		if ask {
			traffic.Sent(q, n)
			w.Port.Publish(w.Path, n)
		} else {
			held, size = head, n
		}
		r.Push(q, h, uint64(len(near)), 1, reads)
		q.SQ.Done++
		done++
		budget -= n + object.PieceCost
	}
	if held != nil {
		packet.AskForAck(held) // rule: the last WRITE asks for an acknowledgement
		traffic.Sent(q, size)
		w.Port.Publish(w.Path, size)
	}
	if done > 0 {
		sh.allSent(w)
	}
	*bytes = budget
	return done
}

// mayRequest reports whether WQEs of q may take the fast path now.
func (sh *sender) mayRequest(q *object.QP) bool {
	if !sh.fast(q) ||
		!q.Wire.Port.Up { // rule: requests need a link that is up
		return false
	}
	return true
}

// isPlain reports whether q's next WQE, whose control segment is h, has no flags but that of a completion.
// Fences and events are left to the slow path.
func isPlain(q *object.QP, h object.Head) bool {
	if !h.Second.Plain() || // rule: fences and events take the slow path
		!q.Ordinary(h) {
		return false
	}
	return true
}

// allSent is called when all packets of all messages of w have been sent.
func (sh *sender) allSent(w *object.Wire) {
	r := &w.Out
	if w.Recovery != nil {
		sh.noteSent(w)
	}
	r.Sending, r.Most = r.Last, r.PSN
	if !w.Timer.Running() { // rule: a timer runs while messages wait
		sh.startTimer(w)
	}
}

// shortPiece returns the local memory of the WQE in block b, whose control segment is h. ok is false unless
// the WQE is a WRITE or a READ of one piece of at most so many bytes as most says. k is the key of the
// memory, nil if the bytes are in the WQE. The client can change the block at any time, so the caller takes
// the length from near and does not read it from the block again.
func (sh *sender) shortPiece(q *object.QP, b *shm.Block, h object.Head, most uint64,
	local *foundKey) (near []byte, k *object.Mkey, ok bool) {
	op := h.Opcode()
	if (op != wqe.OpRDMAWrite && op != wqe.OpRDMARead) || q.FastOps>>op&1 == 0 {
		return nil, nil, false
	}
	data := wqe.DataWord(b.Word(wqe.WordMoveData))
	n, ok := wqe.AdmitShort(h.First, data, wqe.UnitsBeforeMove, min(execution.FastBytes, most))
	if !ok {
		return nil, nil, false
	}
	if data.Inline() {
		return b[wqe.MoveInlineAt:][:n], nil, true
	}
	k = local.find(sh, data.LKey())
	if k == nil || k.PD != q.PD || (op == wqe.OpRDMARead && k.Access&control.AccessLocalWrite == 0) {
		return nil, nil, false
	}
	near, ok = k.Span(b.Word(wqe.WordMoveLAddr), n)
	return near, k, ok
}

// fastRequest executes the packet in p if it may take the fast path: a WRITE of one packet, or the request of
// a READ, with the PSN that its queue pair expects. It reports whether it has executed the packet. The
// packet's headers have linepacket.RETHEnd bytes.
func (sh *sender) fastRequest(p *object.Port) bool {
	k, be := &p.Packet, binary.BigEndian
	w3 := be.Uint64(k.Head[8:])
	q, mem := sh.checkFast(p, k.Path, be.Uint64(k.Head[0:]), w3, be.Uint64(k.Head[16:]),
		be.Uint32(k.Head[24:]), len(k.Payload))
	if q == nil {
		return false
	}
	sh.Enter(q)
	if len(k.Payload) == 0 {
		return sh.fastAnswer(p, q.Wire, mem, false)
	}
	traffic.Wrote(q, len(k.Payload))
	execution.Move(mem, k.Payload)
	p.Executed(q, w3>>63 != 0)
	return true
}

// checkFast checks whether a request may take the fast path. It returns the queue pair that the request is
// for, and the memory that it names; q is nil if it may not. The headers BTH and RETH are the words w2, w3,
// w4 and last. n is the length of the payload, which is 0 for a READ.
func (sh *sender) checkFast(p *object.Port, path uint32, w2, w3, w4 uint64, last uint32,
	n int) (q *object.QP, mem []byte) {
	op, qpn, ok := packet.ParsePlainWord(w2)
	if !ok || op != linepacket.WriteOnly && op != readRequest {
		return nil, nil
	}
	q = p.Find(qpn)
	if q == nil || q.Wire == nil || !sh.fast(q) {
		return nil, nil
	}
	w := q.Wire
	in := &w.In
	if uint32(w3>>32)&^linepacket.AckReq != in.PSN || // rule: a request has the expected PSN
		in.Job != nil || // rule: a request is not in the middle of a message
		in.Due > 0 || // rule: a request waits for the answers before it
		w.Port != p || // rule: a request comes through the port of its queue pair
		path != w.Source { // rule: a request comes from the peer
		return nil, nil
	}
	length, need := uint64(last), uint32(control.AccessRemoteWrite)
	if op == readRequest {
		need = control.AccessRemoteRead
		if q.Attr.MaxDestRdAtomic == 0 ||
			n > 0 || // rule: a request of a READ has no payload
			p.Left <= 0 { // rule: the budget pays for answers
			return nil, nil
		}
	} else if length != uint64(n) { // rule: a WRITE has the length that it says
		return nil, nil
	}
	if length == 0 ||
		length > uint64(w.MTU) || // rule: a WRITE of one packet fits into the MTU
		length > execution.FastBytes ||
		q.Attr.Access&need == 0 { // rule: the queue pair gives the right to packets
		return nil, nil
	}
	k := sh.Keys.Find(uint32(w4))
	if k == nil ||
		!k.Serves(q) || // rule: the key serves the queue pair
		k.Access&need == 0 { // rule: the key gives the right to packets
		return nil, nil
	}
	if mem, ok = k.Span(w3<<32|w4>>32, length); !ok {
		return nil, nil
	}
	return q, mem
}

// fastAnswer sends the answer to the READ in p, and reports whether the ring had room. No other answer of
// the queue pair is due, and the port is up, because it serves packets. The budget of the batch pays
// for the answer. If line is true, the request is still in the ring, and fastAnswer takes it out.
func (sh *sender) fastAnswer(p *object.Port, w *object.Wire, mem []byte, line bool) bool {
	h, payload, ok := p.Settings.Send.Reserve(linepacket.AETHEnd, len(mem))
	if !ok {
		return false
	}
	if line {
		p.Took(0)
	}
	execution.Move(payload, mem)
	w.PutBTH(h, readOnly, w.In.PSN, false, false)
	packet.AETH{Syndrome: packet.SyndromeACK,
		MSN: w.In.MSN + 1}.Put((*[packet.AETHSize]byte)(h[packet.BTHSize:]))
	traffic.Sent(w.Q, len(mem))
	w.Port.Publish(w.Path, len(mem))
	traffic.Fetched(w.Q)
	p.Left -= len(mem) + object.PieceCost // rule: an answer has its cost
	w.In.Advance()
	return true
}

// fastResult moves payload to where it belongs if it is the whole answer to q's oldest message, and this
// message is a READ of one short piece. It reports whether it has done so. The packet came through the port
// of q. If line is true, the packet is still in the ring, and fastResult takes it out.
func (sh *sender) fastResult(p *object.Port, q *object.QP, path, psn uint32, payload []byte, line bool) bool {
	w := q.Wire
	r := &w.Out
	if r.First == r.Sending ||
		path != w.Source || // rule: an answer comes from the peer
		!sh.fast(q) {
		return false
	}
	m := r.Oldest()
	if psn != m.PSN || // rule: an answer is of the oldest message
		m.PSNs != 1 || !m.Answers || m.Answered != 0 ||
		uint64(len(payload)) != m.Total { // rule: an answer is whole
		return false
	}
	b := q.SQ.Blocks.At(m.Index)
	if h := execution.HeadOf(b); h != m.Head || // rule: the WQE of an answer has not changed
		h.Opcode() != wqe.OpRDMARead {
		return false
	}
	near, _, ok := sh.shortPiece(q, b, m.Head, uint64(w.MTU), new(foundKey))
	if !ok || uint64(len(near)) != m.Total {
		return false
	}
	if line {
		p.Took(len(payload))
	}
	execution.Move(near, payload)
	m.Answered = 1
	sh.acknowledged(q, m.End())
	return true
}
