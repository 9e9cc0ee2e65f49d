package roce

import (
	"fmt"

	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
)

// pkey is the default partition, with full membership, as in all packets of the device.
const pkey = 0xffff

// reliable reports whether the peer answers.
func (x *message) reliable() bool { return x.service == packet.RC || x.service == packet.XRC }

// packets returns how many packets n bytes take.
func (x *message) packets(n uint64) int {
	return int(max((n+uint64(x.mtu)-1)/uint64(x.mtu), 1))
}

// emit emits the requests of a message and the answers to it, and counts them.
func (m *Maker) emit(x message, n *numbers, answer uint8) error {
	requests, numbered := x.packets(x.length), 0
	psn := n.psn
	switch {
	case x.form.last == 0 && x.form.first == 0 && x.op == wqe.OpRDMARead:
		requests, numbered = 1, requests // one number for each answer
	case x.form.last == 0 && x.form.first == 0:
		requests, numbered = 1, 1
	default:
		numbered = requests
	}
	if answer != succeeded {
		requests = 1 // the peer refuses the first, and gets the others again or never
	}
	for i := range requests {
		if err := m.request(&x, psn, i, answer); err != nil {
			return err
		}
	}
	if answer == succeeded {
		n.psn = packet.AddPSN(n.psn, uint32(numbered))
		n.msn = (n.msn + 1) & 0xffffff
	}
	if !x.reliable() {
		return nil
	}
	return m.answer(&x, psn, n.msn, answer)
}

// operation returns the operation of packet i of n.
func (f form) operation(i, n int) packet.Operation {
	switch {
	case n == 1:
		return f.only
	case i == 0:
		return f.first
	case i == n-1:
		return f.last
	}
	return f.middle
}

// request emits packet i of the message, whose first packet has a PSN.
func (m *Maker) request(x *message, psn uint32, i int, answer uint8) error {
	n, length, payload := x.packets(x.length), x.length, x.payload
	if x.op == wqe.OpRDMARead || x.op.Info().Atomic() {
		n, length, payload = 1, 0, nil // their bytes are in the answer
	}
	op := packet.MakeOpcode(x.service, x.form.operation(i, n))
	info := op.Info()
	if info.Atomic && info.Payload {
		length, payload = uint64(len(x.operand)), x.operand
	}
	length, payload = part(length, payload, i, x.mtu)
	ack := x.reliable() && (info.Last || answer != succeeded)
	h := make([]byte, info.HeaderSize, packet.MaxHeaders)
	packet.PutBTH((*[packet.BTHSize]byte)(h), op, x.se && info.Last, pad(length), pkey, x.peer, ack,
		packet.AddPSN(psn, uint32(i)))
	if info.XRCETH {
		packet.XRCETH{SRQN: x.srq}.Put((*[packet.XRCETHSize]byte)(h[info.OffXRCETH:]))
	}
	if info.DETH {
		packet.DETH{QKey: x.qkey, SrcQP: x.qp}.Put((*[packet.DETHSize]byte)(h[info.OffDETH:]))
	}
	if info.RETH {
		packet.RETH{Addr: x.remote.Addr, RKey: x.remote.RKey, Length: uint32(x.length)}.
			Put((*[packet.RETHSize]byte)(h[info.OffRETH:]))
	}
	if info.AtomicETH {
		o := wqe.ParseAtomic((*[wqe.AtomicSize]byte)(x.operand))
		a := packet.AtomicETH{Addr: x.remote.Addr, RKey: x.remote.RKey, SwapAdd: o.SwapAdd,
			Compare: o.Compare}
		a.Put((*[packet.AtomicETHSize]byte)(h[info.OffAtomicETH:]))
	}
	if info.Imm {
		packet.ImmDt(x.imm).Put((*[packet.ImmDtSize]byte)(h[info.OffImm:]))
	}
	if info.IETH {
		packet.IETH{RKey: x.imm}.Put((*[packet.IETHSize]byte)(h[info.OffIETH:]))
	}
	comment := inMemory + x.about + " " + x.op.String()
	if i == 0 {
		comment = inMemory + x.about + " " + x.what
	}
	if n > 1 {
		comment += fmt.Sprintf(" (packet %d of %d)", i+1, n)
	}
	return m.put(x, x.route, h, length, payload, comment)
}

// inMemory begins the comment of each packet that never was one.
const inMemory = "done in memory, not sent: "

// answer emits the answer to a message, or the answers of a READ.
func (m *Maker) answer(x *message, psn, msn uint32, syndrome uint8) error {
	a := packet.AETH{Syndrome: syndrome, MSN: msn}
	comment := inMemory + "the answer to " + x.op.String() + ", " + x.about
	back := x.route.reverse()
	one := func(op packet.Operation, psn uint32, length uint64, payload []byte) error {
		code := packet.MakeOpcode(x.service, op)
		info := code.Info()
		h := make([]byte, info.HeaderSize, packet.MaxHeaders)
		packet.PutBTH((*[packet.BTHSize]byte)(h), code, false, pad(length), pkey, x.qp, false, psn)
		if info.AETH {
			a.Put((*[packet.AETHSize]byte)(h[info.OffAETH:]))
		}
		if info.AtomicAck {
			// The trace does not have what the atomic has found.
			h, length, payload = h[:info.OffAtomicAck], packet.AtomicAckETHSize, nil
		}
		return m.put(x, back, h, length, payload, comment)
	}
	switch {
	case syndrome != succeeded:
		return one(packet.Acknowledge, psn, 0, nil)
	case x.op == wqe.OpRDMARead:
		n := x.packets(x.length)
		for i := range n {
			length, payload := part(x.length, x.payload, i, x.mtu)
			err := one(readResponse.operation(i, n), packet.AddPSN(psn, uint32(i)), length, payload)
			if err != nil {
				return err
			}
		}
		return nil
	case x.op.Info().Atomic():
		return one(packet.AtomicAcknowledge, psn, 0, nil)
	}
	return one(packet.Acknowledge, packet.AddPSN(psn, uint32(x.packets(x.length)-1)), 0, nil)
}

// pad returns how many bytes of padding follow n bytes of payload.
func pad(n uint64) uint8 { return uint8(-n & 3) }

// part returns how many bytes of a message of length bytes packet i has, and those that are known.
func part(length uint64, payload []byte, i, mtu int) (uint64, []byte) {
	at := uint64(i) * uint64(mtu)
	payload = payload[min(at, uint64(len(payload))):]
	length = min(length-min(at, length), uint64(mtu))
	return length, payload[:min(length, uint64(len(payload)))]
}

// put emits a packet with these headers, and of its length bytes of payload those that are known.
func (m *Maker) put(x *message, r route, h []byte, length uint64, payload []byte, comment string) error {
	n := len(h) + int(length) + int(pad(length)) + packet.ICRCSize
	b := append(append(r.header(m.out.Data[:0], n), h...), payload...)
	b = m.end(b, r, int(length)-len(payload), int(pad(length)))
	m.out = Packet{Time: x.time, Data: b, Length: r.headerSize() + n, Comment: comment}
	return m.give()
}
