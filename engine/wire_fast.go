//go:build linux && (amd64 || arm64)

package engine

import (
	"encoding/binary"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
)

// The fast path of reliable connections on wires: WRITEs and READs of one short piece, which travel
// in one packet each way. Like fastPath it checks everything that the slow path checks, keeps what
// it needs in registers, and leaves anything unusual to the slow path, which looks again, judges
// and explains.
//
// TestWireFastPathAgrees compares it with the slow path.

const (
	writeOnly = packet.Opcode(packet.WriteOnly) // of the service RC, which is 0
	readAsk   = packet.Opcode(packet.ReadRequest)
	readOnly  = packet.Opcode(packet.ReadResponseOnly)

	rethEnd = packet.BTHSize + packet.RETHSize // bytes of headers of both requests
	aethEnd = packet.BTHSize + packet.AETHSize // bytes of headers of the answer
)

// fast reports whether packets and WQEs of a queue pair on a wire may take the fast path.
func (sh *sender) fast(q *qp) bool {
	return q.fastPath && q.transport == control.QPTypeRC && q.attr.State == control.StateRTS && !sh.hooks.noFastPath
}

// A foundKey is the key that was looked up last.
type foundKey struct {
	key uint32
	m   *mkey
}

func (f *foundKey) find(sh *sender, key uint32) *mkey {
	if f.m == nil || f.key != key {
		f.m, f.key = sh.keys.find(key), key
	}
	return f.m
}

// fastRequests sends the next WQEs of q, at most the parameter most, as long as each is a WRITE or a
// READ of one short piece, and returns how many it has sent. All messages of q have been sent before,
// and canFetch is true.
//
// Of several short WRITEs that it sends, only the last asks for an acknowledgement, and one in
// ackEvery. So a WRITE is held back until the next one has been judged, and has room.
//
// If a fault of memory ends it early, sq.done counts each message that was made.
func (sh *sender) fastRequests(q *qp, most int, bytes *int) (done int) {
	w := q.wire
	r := &w.out
	if !sh.fast(q) ||
		!w.port.up { // rule: requests need a link that is up
		return 0
	}
	ring := w.port.cfg.Send
	most = min(most, len(r.messages)-int(r.last-r.first))
	most = min(most, int(r.window)-int(packet.DiffPSN(r.psn, r.una))) // rule: requests fit into the window
	budget := *bytes
	var local foundKey
	held, size := []byte(nil), 0 // the headers of the WRITE that is held back, and its bytes
	for done < most && budget > 0 {
		b := q.sq.blocks.At(q.sq.done)
		h := headOf(b)
		near, key, ok := sh.shortPiece(q, b, h, uint64(w.mtu), &local)
		// Flags other than that of a completion are left to the slow path: fences, events.
		if !ok ||
			!h.second.Plain() || // rule: fences and events take the slow path
			!q.ordinary(h) {
			break
		}
		n, op, reads := len(near), writeOnly, h.opcode() == wqe.OpRDMARead
		if reads {
			if r.reading >= uint32(max(q.attr.MaxRdAtomic, 1)) { // rule: the requester has its READs at a time
				break
			}
			n, op = 0, readAsk
		}
		if !reads && n <= lineBytes {
			if held != nil {
				packet.AskForAck(held)
				w.port.publish(w.path, size)
				held = nil
			}
			k := sh.sendLines(q, b, h, near, key, min(most-done, 1+(budget-1)/(n+pieceCost)))
			if k == 0 {
				break
			}
			done += k
			budget -= k * (n + pieceCost)
			continue
		}
		if held != nil {
			if rethEnd+n > packetring.Inline || ring.Free() < 2 {
				packet.AskForAck(held)
			}
			w.port.publish(w.path, size)
			held = nil
		}
		head, payload, ok := ring.Reserve(rethEnd, n)
		if !ok {
			break
		}
		if !reads {
			move(payload, near)
		}
		ask := reads || r.psn%ackEvery == ackEvery-1
		w.putBTH(head, op, r.psn, ask, false)
		reth := packet.RETH{Addr: b.Word(wqe.WordRAddr), RKey: wqe.KeyWord(b.Word(wqe.WordRKey)).RKey(), Length: uint32(len(near))}
		reth.Put((*[packet.RETHSize]byte)(head[packet.BTHSize:]))
		if ask {
			w.port.publish(w.path, n)
		} else {
			held, size = head, n
		}
		r.push(q, h, uint64(len(near)), 1, reads)
		q.sq.done++
		done++
		budget -= n + pieceCost
	}
	if held != nil {
		packet.AskForAck(held) // rule: the last WRITE asks for an acknowledgement
		w.port.publish(w.path, size)
	}
	if done > 0 {
		r.at, r.most = r.last, r.psn
		if !w.timer.running() { // rule: a timer runs while messages wait
			sh.startTimer(w)
		}
	}
	*bytes = budget
	return done
}

// shortPiece returns the local memory of the WQE in block b, with the control segment h, if it is a
// WRITE or a READ of one piece of at most the parameter most bytes. k is the key of that memory, nil if the
// bytes are in the WQE. Its client can change the block at any time, so nobody looks there a second time
// which of the two it is.
func (sh *sender) shortPiece(q *qp, b *shm.Block, h head, most uint64, local *foundKey) (near []byte, k *mkey, ok bool) {
	op := h.opcode()
	if op != wqe.OpRDMAWrite && op != wqe.OpRDMARead || q.fastOps>>op&1 == 0 {
		return nil, nil, false
	}
	data := wqe.DataWord(b.Word(wqe.WordMoveData))
	n, ok := wqe.AdmitShort(h.first, data, wqe.UnitsBeforeMove, min(fastBytes, most))
	if !ok {
		return nil, nil, false
	}
	if data.Inline() {
		return b[wqe.MoveInlineAt:][:n], nil, true
	}
	k = local.find(sh, data.LKey())
	if k == nil || k.pd != q.pd || op == wqe.OpRDMARead && k.access&control.AccessLocalWrite == 0 {
		return nil, nil, false
	}
	near, ok = k.span(b.Word(wqe.WordMoveLAddr), n)
	return near, k, ok
}

// fastRequest executes the packet in p if it is a WRITE or a READ of one packet, which its queue
// pair expects, and reports whether it was. Its headers have rethEnd bytes.
func (sh *sender) fastRequest(p *port) bool {
	k, be := &p.packet, binary.BigEndian
	w3 := be.Uint64(k.Head[8:])
	q, mem := sh.judgeFast(p, k.Path, be.Uint64(k.Head[0:]), w3, be.Uint64(k.Head[16:]), be.Uint32(k.Head[24:]), len(k.Payload))
	if q == nil {
		return false
	}
	sh.enter(q)
	if len(k.Payload) == 0 {
		return sh.fastAnswer(p, q.wire, mem, false)
	}
	move(mem, k.Payload)
	p.executed(q, w3>>63 != 0)
	return true
}

// judgeFast returns the queue pair of a request, and the memory that it names, if the request may take the
// fast path: nil if not. w2, w3, w4 and last are its headers BTH and RETH, n is the length of its
// payload: 0 if it is a READ.
func (sh *sender) judgeFast(p *port, path uint32, w2, w3, w4 uint64, last uint32, n int) (q *qp, mem []byte) {
	op, qpn, ok := packet.ParsePlainWord(w2)
	if !ok || op != writeOnly && op != readAsk {
		return nil, nil
	}
	q = p.find(qpn)
	if q == nil || q.wire == nil || !sh.fast(q) {
		return nil, nil
	}
	w := q.wire
	in := &w.in
	if uint32(w3>>32)&^askBit != in.psn || // rule: a request has the expected PSN
		in.job != nil || // rule: a request is not in the middle of a message
		in.due > 0 || // rule: a request waits for the answers before it
		w.port != p || // rule: a request comes through the port of its queue pair
		path != w.source { // rule: a request comes from the peer
		return nil, nil
	}
	length, need := uint64(last), uint32(control.AccessRemoteWrite)
	if op == readAsk {
		if need = control.AccessRemoteRead; q.attr.MaxDestRdAtomic == 0 ||
			n > 0 || // rule: a request of a READ has no payload
			p.left <= 0 { // rule: the budget pays for answers
			return nil, nil
		}
	} else if length != uint64(n) { // rule: a WRITE has the length that it says
		return nil, nil
	}
	if length == 0 ||
		length > uint64(w.mtu) || // rule: a WRITE of one packet fits into the MTU
		length > fastBytes ||
		q.attr.Access&need == 0 { // rule: the queue pair gives the right to packets
		return nil, nil
	}
	k := sh.keys.find(uint32(w4))
	if k == nil ||
		!k.serves(q) || // rule: the key serves the queue pair
		k.access&need == 0 { // rule: the key gives the right to packets
		return nil, nil
	}
	if mem, ok = k.span(w3<<32|w4>>32, length); !ok {
		return nil, nil
	}
	return q, mem
}

// askBit is the bit AckReq of the third word of a BTH.
const askBit = 1 << 31

// executed notes that the request that q expects, a SEND or WRITE of one packet, has been executed.
func (p *port) executed(q *qp, ask bool) {
	in := &q.wire.in
	if ask {
		p.owe(q) // rule: a WRITE that asks is acknowledged
	}
	in.data = in.psn
	in.advance()
}

// advance expects the packet after a whole message of one packet.
func (in *inbound) advance() {
	in.silent = false // rule: an expected packet ends silence
	in.psn = packet.AddPSN(in.psn, 1)
	in.msn++
}

// fastAnswer sends the answer to the READ in p, and reports whether there was room. The queue pair
// owes no other answer, and the port is up, because it serves packets. The budget of the batch pays for
// the answer. If line is true, the request is still in the ring.
func (sh *sender) fastAnswer(p *port, w *wire, mem []byte, line bool) bool {
	h, payload, ok := p.cfg.Send.Reserve(aethEnd, len(mem))
	if !ok {
		return false
	}
	if line {
		p.took(0)
	}
	move(payload, mem)
	w.putBTH(h, readOnly, w.in.psn, false, false)
	packet.AETH{Syndrome: packet.SyndromeACK, MSN: w.in.msn + 1}.Put((*[packet.AETHSize]byte)(h[packet.BTHSize:]))
	p.publish(w.path, len(mem))
	p.left -= len(mem) + pieceCost // rule: an answer has its cost
	w.in.advance()
	return true
}

// fastResult delivers payload if it is the whole answer of q's oldest message, a READ of one
// short piece, and reports whether it was. The packet came through the port of q. If line is true, it
// is still in the ring.
func (sh *sender) fastResult(p *port, q *qp, path, psn uint32, payload []byte, line bool) bool {
	w := q.wire
	r := &w.out
	if r.first == r.at ||
		path != w.source || // rule: an answer comes from the peer
		!sh.fast(q) {
		return false
	}
	m := r.oldest()
	if psn != m.psn || // rule: an answer is of the oldest message
		m.psns != 1 || !m.answers || m.answered != 0 ||
		uint64(len(payload)) != m.total { // rule: an answer is whole
		return false
	}
	b := q.sq.blocks.At(m.index)
	if h := headOf(b); h != m.head || // rule: the WQE of an answer has not changed
		h.opcode() != wqe.OpRDMARead {
		return false
	}
	near, _, ok := sh.shortPiece(q, b, m.head, uint64(w.mtu), new(foundKey))
	if !ok || uint64(len(near)) != m.total {
		return false
	}
	if line {
		p.took(len(payload))
	}
	move(near, payload)
	m.answered = 1
	sh.acknowledged(q, m.end())
	return true
}

// finishWrites completes the oldest messages of q together, if they are WRITEs or SENDs whose PSNs
// are all before psn, and of one opcode, one block, and signaled. It returns how many they were.
func (sh *sender) finishWrites(q *qp, psn uint32) (n int) {
	r := &q.wire.out
	c := q.sq.cq
	if r.at-r.first < 2 ||
		c.session != nil || // rule: compressed completions are collected
		sh.hooks.noFastPath {
		return 0
	}
	first := r.oldest()
	bytes, op := uint64(0), first.head.opcode()
	for most := min(int(r.at-r.first), mostSeries); n < most; n++ {
		m := r.message(r.first + uint32(n))
		if m.answers || // rule: a READ completes with its answer
			packet.DiffPSN(psn, m.end()) < 0 || // rule: a message completes when it is acknowledged
			m.head.opcode() != op ||
			m.head.ce() != wqe.CEAlways || // rule: only signaled messages complete
			m.index != first.index+uint64(n) {
			break
		}
		bytes += m.total
	}
	if n < 2 ||
		c.free(n) < n { // rule: completions of messages have room
		return 0
	}
	r.una = r.message(r.first + uint32(n) - 1).end()
	r.first += uint32(n)
	q.client.count[control.CounterWQEs] += uint64(n)
	q.client.count[control.CounterBytes] += bytes
	sh.completeAll(c, n, allSignaled(n), 0, q.uidx, 0, requesterTail(op, q.num, uint16(first.index)))
	return n
}
