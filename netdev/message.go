//go:build linux && (amd64 || arm64)

package netdev

import "fmt"

// Every message between two interfaces begins with 16 bytes:
//
//	0   kind, 1
//	1   flags, 1: bit 0: the sender reads the slots of the receiver
//	2   slot, 2: kindSlot only
//	4   length of the virtio header and the packet, 4; 0 for kindFreed and kindEnd
//	8   freed, 4: how many packets the sender of this message has consumed in this session, of those in
//	    slots of its receiver
//	12  tag of the slot, 4: kindSlot only
//
// In a message of kindPacket the virtio header and the packet follow.
const messageSize = 16

type kind uint8

const (
	kindPacket kind = 1 // the packet is in the message
	kindSlot   kind = 2 // the packet is in a slot of the sender's area
	kindFreed  kind = 3 // no packet
	kindEnd    kind = 4 // no packet; the sender sends nothing more in this session (quiet.go)
)

const flagReads = 1

type message struct {
	kind   kind
	reads  bool // the sender reads the slots of the receiver
	slot   uint16
	length uint32
	freed  uint32
	tag    uint32
}

func (m message) put(b *[messageSize]byte) {
	b[0], b[1] = byte(m.kind), 0
	if m.reads {
		b[1] = flagReads
	}
	be.PutUint16(b[2:], m.slot)
	be.PutUint32(b[4:], m.length)
	be.PutUint32(b[8:], m.freed)
	be.PutUint32(b[12:], m.tag)
}

// parseMessage reads a private copy of the first bytes of a message of size bytes. It checks all that
// can be checked without the slots.
func parseMessage(b *[messageSize]byte, size int) (m message, err error) {
	m = message{kind: kind(b[0]), reads: b[1]&flagReads != 0, slot: be.Uint16(b[2:]),
		length: be.Uint32(b[4:]), freed: be.Uint32(b[8:]), tag: be.Uint32(b[12:])}
	want := messageSize
	if m.kind == kindPacket {
		want += int(min(m.length, MaxPacket+1))
	}
	switch {
	case size < messageSize:
		return m, fmt.Errorf("a message of %d bytes; %d are the least", size, messageSize)
	case m.kind < kindPacket || m.kind > kindEnd:
		return m, fmt.Errorf("a message of kind %d; 1 to 4 are possible", m.kind)
	case m.kind <= kindSlot && (m.length <= HeaderSize || m.length > MaxPacket):
		return m, fmt.Errorf("a packet of %d bytes with its virtio header; %d to %d are possible", m.length, HeaderSize+1, MaxPacket)
	case size != want:
		return m, fmt.Errorf("a message of %d bytes with a packet of %d", size, m.length)
	}
	return m, nil
}
