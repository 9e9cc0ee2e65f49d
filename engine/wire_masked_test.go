package engine

import (
	"testing"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// The packet of a masked atomic, byte for byte: its RETH and the operands of its WQE. Masks that change
// nothing are left out, so that a device that knows no masked atomics takes the packet, too.
func TestPacketsOfMaskedAtomics(t *testing.T) {
	const all = ^uint64(0)
	be := []byte{0, 0, 0, 0, 0, 0, 0, 5}
	zero, ones := make([]byte, 8), []byte{255, 255, 255, 255, 255, 255, 255, 255}
	join := func(list ...[]byte) (b []byte) {
		for _, l := range list {
			b = append(b, l...)
		}
		return b
	}
	for name, row := range map[string]struct {
		op      wqe.Opcode
		opmod   uint8
		operand any
		sent    packet.Operation
		tail    []byte // of the headers, behind the address and the key
		payload []byte
	}{
		"CS": {wqe.OpAtomicMaskedCS, wqe.OpMod8, wqe.MaskedCS8{Swap: 5, SwapMask: all}, packet.MaskedCompareSwap,
			[]byte{0, 0, 0, 8}, join(be, zero, ones, zero)},
		"CS, all bits": {wqe.OpAtomicMaskedCS, wqe.OpMod8, wqe.MaskedCS8{Swap: 5, SwapMask: all, CompareMask: all},
			packet.CompareSwap, join(be, zero), nil},
		"CS, 4 bytes, all bits": {wqe.OpAtomicMaskedCS, wqe.OpMod4, wqe.MaskedCS4{Compare: 5, SwapMask: 1<<32 - 1,
			CompareMask: 1<<32 - 1}, packet.MaskedCompareSwap, []byte{0, 0, 0, 4}, join(zero[:4], be[4:], ones)},
		"FA": {wqe.OpAtomicMaskedFA, wqe.OpMod8, wqe.MaskedFA8{Add: 5, Boundary: all}, packet.MaskedFetchAdd,
			[]byte{0, 0, 0, 8}, join(be, ones)},
		"FA, one field": {wqe.OpAtomicMaskedFA, 0, wqe.MaskedFA8{Add: 5}, packet.FetchAdd, join(be, zero), nil},
		"FA, 4 bytes, one field": {wqe.OpAtomicMaskedFA, wqe.OpMod4, wqe.MaskedFA4{Add: 5}, packet.MaskedFetchAdd,
			[]byte{0, 0, 0, 4}, join(be[4:], zero[:4], zero)},
	} {
		t.Run(name, func(t *testing.T) {
			overCableOf(t, nic.PortConfig{MTU: 256}, &fates{})
			r, p, q := duo(t, Config{})
			from, to := p.h.full(8, 1), q.h.full(64, 7)
			var sent []heldPacket
			r.cable.seen = func(k *heldPacket) {
				if packet.Opcode(k.head[0]).Info().Request {
					sent = append(sent, *k)
				}
			}
			size := 8
			if row.opmod == wqe.OpMod4 {
				size = 4
			}
			c := ctrl(row.op)
			c.OpMod = row.opmod
			p.post(c, to.raddr(8), row.operand, from.data(0, size))
			r.settle()
			p.good()
			require.Len(t, sent, 1)
			k := sent[0]
			require.Equal(t, rc(row.sent), packet.Opcode(k.head[0]))
			require.Equal(t, join(readHeader(to, 8, 0)[:12], row.tail), k.head[packet.BTHSize:rc(row.sent).Info().HeaderSize])
			require.Equal(t, row.payload, append([]byte(nil), k.payload...))
		})
	}
}

// The answer to a masked atomic of 4 bytes has the word in its low half, and so have the answers to
// repetitions, which do not execute it again.
func TestAnswersToMaskedAtomics(t *testing.T) {
	overCableOf(t, nic.PortConfig{MTU: 256}, &fates{})
	r, _, q := duo(t, Config{})
	to := q.h.full(64, 7)
	copy(to.mem[4:], []byte{0xd4, 0xc3, 0xb2, 0xa1, 0xff})
	var answers [][]byte
	r.cable.seen = func(k *heldPacket) {
		if packet.Opcode(k.head[0]) == rc(packet.AtomicAcknowledge) {
			answers = append(answers, k.head[packet.BTHSize+packet.AETHSize:][:packet.AtomicAckETHSize])
		}
	}
	add := make([]byte, 16)
	add[3] = 1
	for range 3 {
		q.give(rc(packet.MaskedFetchAdd), firstPSN, readHeader(to, 4, 4), add)
		r.carried(2, q)
	}
	want := []byte{0, 0, 0, 0, 0xa1, 0xb2, 0xc3, 0xd4}
	require.Equal(t, [][]byte{want, want, want}, answers)
	require.Equal(t, []byte{0xd5, 0xc3, 0xb2, 0xa1, 0xff}, to.mem[4:9], "executed once")
}
