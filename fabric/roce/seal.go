//go:build linux && (amd64 || arm64)

package roce

import (
	"encoding/binary"

	"github.com/nicless/nicless/packet"
	"golang.org/x/sys/unix"
)

const (
	vectorsEach = 3   // parts of a packet: headers, payload, pad and ICRC
	shortPacket = 320 // a packet up to this length is copied, so that it has one part

	// bufferEach holds a packet that is copied: one that is short, needs pad bytes, or has a tag.
	bufferEach = (packet.MaxPacket + sealedMore + 63) &^ 63
)

// padOf returns how many pad bytes a payload of n bytes has.
func padOf(n int) int { return -n & 3 }

// setPad sets the pad count of a BTH.
func setPad(bth []byte, pad int) { bth[1] = bth[1]&^0x30 | byte(pad)<<4 }

// measure computes how long the packet is on the wire.
func (o *outgoing) measure(with *session) {
	o.wire = o.N + (len(o.Payload)+3)&^3 + packet.ICRCSize
	if with != nil {
		o.wire += sealedMore
	}
}

// seal makes the bytes of packet i for the wire: it adds the pad count, pad bytes and the ICRC. It sets v to
// the parts of the packet, and returns how many parts there are. A long payload is not copied.
func (s *sender) seal(v []unix.Iovec, i int, flow packet.Flow, id uint16) int {
	o := &s.packets[i]
	pad := padOf(len(o.Payload))
	head := o.Head[:o.N]
	setPad(head, pad)
	if o.wire > shortPacket && pad == 0 {
		binary.LittleEndian.PutUint32(o.tail[:], flow.Sum(head, o.Payload, id))
		set(&v[0], head)
		set(&v[1], o.Payload)
		set(&v[2], o.tail[:packet.ICRCSize])
		return vectorsEach
	}
	b := s.buffers[i*bufferEach:][:o.wire]
	n := copy(b, head)
	n += copy(b[n:], o.Payload)
	clear(b[n:])
	flow.Seal(b, id)
	set(&v[0], b)
	return 1
}

func set(v *unix.Iovec, b []byte) {
	v.Base = &b[0]
	v.SetLen(len(b))
}
