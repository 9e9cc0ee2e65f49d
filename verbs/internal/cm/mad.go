//go:build linux && (amd64 || arm64)

package cm

import "fmt"

// MADSize is the size of every management datagram.
const MADSize = 256

// Class is the class of its datagrams, communication management. It is their second byte.
const Class = 7

// A MAD is a management datagram of the connection manager, as it is the payload of a packet to
// queue pair 1. It has a header, and at byte 24 the message.
//
//	 0  base version 1, class 7, class version 2, method 3 (send)
//	 4  status, class specific
//	 8  transaction id, which answers have from what they answer
//	16  attribute: which message it is; reserved
//	20  attribute modifier: the options of ECE
//
// All numbers are big-endian. Sources: InfiniBand Architecture Specification, volume 1, 13.4.3
// and 12.6 to 12.11; Linux include/rdma/ib_mad.h (struct ib_mad_hdr) and
// include/rdma/ibta_vol1_c12.h.
type MAD [MADSize]byte

const (
	madHeader   = 24
	madVersion  = 1
	madClassVer = 2
	madSend     = 3
)

// attributeIDs has the attribute of each kind of message.
var attributeIDs = [...]uint16{
	kindREQ: 0x10, kindMRA: 0x11, kindREJ: 0x12, kindREP: 0x13, kindRTU: 0x14,
	kindDREQ: 0x15, kindDREP: 0x16, kindSIDRREQ: 0x17, kindSIDRREP: 0x18,
}

// body returns what follows the header.
func (b *MAD) body() *[MADSize - madHeader]byte { return (*[MADSize - madHeader]byte)(b[madHeader:]) }

// modifier returns the attribute modifier.
func (b *MAD) modifier() uint32     { return be.Uint32(b[20:24]) }
func (b *MAD) setModifier(v uint32) { be.PutUint32(b[20:24], v) }

// newMAD returns a message as a management datagram.
func newMAD(tid uint64, msg Message) *MAD {
	b := &MAD{madVersion, Class, madClassVer, madSend}
	be.PutUint64(b[8:16], tid)
	be.PutUint16(b[16:18], attributeIDs[msg.kind()])
	msg.put(b)
	return b
}

// parseMAD returns the message in a datagram and its transaction id. Fields that this package has
// no use for, and reserved ones, may have any value.
func parseMAD(b *MAD) (tid uint64, msg Message, err error) {
	if got := [4]byte(b[:4]); got != [4]byte{madVersion, Class, madClassVer, madSend} {
		return 0, nil, fmt.Errorf("a datagram of base version %d, class %#x, class version %d, method %#x", got[0], got[1], got[2], got[3])
	}
	switch attribute := be.Uint16(b[16:18]); attribute {
	case attributeIDs[kindREQ]:
		msg = new(REQ)
	case attributeIDs[kindMRA]:
		msg = new(MRA)
	case attributeIDs[kindREJ]:
		msg = new(REJ)
	case attributeIDs[kindREP]:
		msg = new(REP)
	case attributeIDs[kindRTU]:
		msg = new(RTU)
	case attributeIDs[kindDREQ]:
		msg = new(DREQ)
	case attributeIDs[kindDREP]:
		msg = new(DREP)
	case attributeIDs[kindSIDRREQ]:
		msg = new(SIDRREQ)
	case attributeIDs[kindSIDRREP]:
		msg = new(SIDRREP)
	default:
		return 0, nil, fmt.Errorf("attribute %#x is no message", attribute)
	}
	msg.parse(b)
	return be.Uint64(b[8:16]), msg, nil
}

// putNumbers writes the link numbers with which most messages begin, and parseNumbers reads them.
func putNumbers(b *[MADSize - madHeader]byte, from, to linkNumber) {
	be.PutUint32(b[0:4], uint32(from))
	be.PutUint32(b[4:8], uint32(to))
}

func parseNumbers(b *[MADSize - madHeader]byte) (from, to linkNumber) {
	return linkNumber(be.Uint32(b[0:4])), linkNumber(be.Uint32(b[4:8]))
}

// put24 writes the lower 24 bits of a number, and get24 reads them.
func put24(b []byte, v uint32) { b[0], b[1], b[2] = byte(v>>16), byte(v>>8), byte(v) }

func get24(b []byte) uint32 { return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]) }
