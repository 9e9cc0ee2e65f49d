//go:build linux && (amd64 || arm64)

package transport

import (
	"github.com/nicless/nicless/engine/internal/inject"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
)

// noWork is the opcode of packets that are of no work request: acknowledgements and NAKs. No rule that names
// opcodes fits it.
const noWork = wqe.Opcode(0xff)

// packetFacts returns what rules ask of a packet that q sends.
func packetFacts(q *object.QP, p *object.Port, l *inject.Link, k *packetring.Packet) fault.Facts {
	bth := packet.ParseBTH((*[packet.BTHSize]byte)(k.Head[:]))
	f := fault.Facts{Opcode: noWork, Size: uint64(payloadOf(p, bth.Opcode, k))}
	op := bth.Opcode.Operation()
	switch {
	case q.Transport == control.QPTypeUD:
		f.Opcode = requestOf(op)
	case op == packet.AtomicAcknowledge:
		f.Opcode = l.Atomic(bth.PSN)
	case op >= packet.ReadResponseFirst && op <= packet.ReadResponseOnly:
		f.Opcode = wqe.OpRDMARead
	case bth.Opcode.Info().Request:
		f.Opcode = requestOf(op)
		if m := messageOf(q.Wire, bth.PSN); m != nil {
			f.Opcode = m.Head.Opcode()
		}
	}
	return f
}

// payloadOf returns how long the payload of a packet is, without the GRH of a datagram.
func payloadOf(p *object.Port, op packet.Opcode, k *packetring.Packet) int {
	n := len(k.Payload)
	if op.Info().DETH && p.Settings.GRH {
		n -= object.GRHSize
	}
	return n
}

// messageOf returns the message on the way, or just sent, that has a PSN; nil if there is none any more.
func messageOf(w *object.Wire, psn uint32) *object.Message {
	if w == nil {
		return nil
	}
	r := &w.Out
	for i := range uint32(len(r.Messages)) {
		m := r.Message(r.Last - 1 - i)
		if n := packet.DiffPSN(psn, m.PSN); n >= 0 && n < int32(m.PSNs) {
			return m
		}
	}
	return nil
}

// requestOf returns the opcode of a work request that has packets of an operation.
func requestOf(op packet.Operation) wqe.Opcode {
	switch op {
	case packet.SendLastImm, packet.SendOnlyImm:
		return wqe.OpSendImm
	case packet.SendLastInv, packet.SendOnlyInv:
		return wqe.OpSendInval
	case packet.WriteFirst, packet.WriteMiddle, packet.WriteLast, packet.WriteOnly:
		return wqe.OpRDMAWrite
	case packet.WriteLastImm, packet.WriteOnlyImm:
		return wqe.OpRDMAWriteImm
	case packet.ReadRequest:
		return wqe.OpRDMARead
	case packet.CompareSwap:
		return wqe.OpAtomicCS
	case packet.FetchAdd:
		return wqe.OpAtomicFA
	case packet.MaskedCompareSwap:
		return wqe.OpAtomicMaskedCS
	case packet.MaskedFetchAdd:
		return wqe.OpAtomicMaskedFA
	}
	return wqe.OpSend
}
