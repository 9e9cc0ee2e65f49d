//go:build linux && (amd64 || arm64)

package linepacket

import (
	"encoding/binary"

	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/packet"
)

// Indices of the words of a line that have headers, in the packet's order of bytes. Each word has 8 bytes.
const (
	Path = 1 // upper half: the path
	BTH  = 2 // the first 8 bytes of the BTH
	Next = 3 // the last 4 bytes of the BTH, then the first 4 bytes of a RETH or an AETH
	Key  = 4 // with a RETH: the lower half of the address, then the key
	End  = 5 // with a RETH: the length, then 4 bytes of payload
)

const (
	RETHEnd = packet.BTHSize + packet.RETHSize // bytes of headers of a WRITE, or of a READ's request
	AETHEnd = packet.BTHSize + packet.AETHSize // bytes of headers of an acknowledgement

	// MostPayload is the longest payload of a WRITE whose packet is one line.
	MostPayload = packetring.LineRoom - RETHEnd

	// AckReq is the bit of that name in the third 4 bytes of a BTH.
	AckReq = 1 << 31
)

// The operations, of the service RC, which is 0.
const (
	WriteOnly = packet.Opcode(packet.WriteOnly)
	ACKOnly   = packet.Opcode(packet.Acknowledge)
)

// PublishWrite sends a WRITE that asks for an acknowledgement to the queue pair dest at the end of a path,
// and reports whether the ring had room. The payload has at most MostPayload bytes and goes to the address
// addr of the key rkey.
func PublishWrite(ring *packetring.Producer, path, dest, psn, rkey uint32, addr uint64, payload []byte) bool {
	n := uint64(len(payload))
	w5, w6, w7 := Payload(payload)
	word := uint64(psn)
	word |= AckReq // rule: a lone line asks for an acknowledgement
	return ring.PublishLine(path, uint32(RETHEnd<<16|n), packet.PlainWord(WriteOnly, dest),
		word<<32|addr>>32, addr<<32|uint64(rkey), n<<32|w5, w6, w7)
}

// PublishACK sends an acknowledgement of psn to the queue pair dest at the end of a path, and reports whether
// the ring had room. msn is the number of the last message that was executed; it has 24 bits.
func PublishACK(ring *packetring.Producer, path, dest, psn, msn uint32) bool {
	return ring.PublishLine(path, AETHEnd<<16, packet.PlainWord(ACKOnly, dest),
		uint64(psn)<<32|packet.SyndromeACK<<24|uint64(msn&0xffffff), 0, 0, 0, 0)
}

// Payload returns the payload of a WRITE, as numbers in the packet's order of bytes: its first 4 bytes, the
// next 8, and the last 8. It has at most MostPayload bytes.
func Payload(b []byte) (first, second, third uint64) {
	be := binary.BigEndian
	if len(b) == 8 {
		v := be.Uint64(b)
		return v >> 32, v << 32, 0
	}
	var all [MostPayload]byte
	copy(all[:], b)
	return uint64(be.Uint32(all[:])), be.Uint64(all[4:]), be.Uint64(all[12:])
}
