//go:build linux && (amd64 || arm64)

package recovery

import (
	"encoding/binary"

	"github.com/nicless/nicless/packet"
)

// A Report says which packets a responder has. It acknowledges nothing: requests complete by
// acknowledgements. The responder has all packets before Expected, which is the PSN of the report.
//
// Its payload is 4 bytes, and up to ReportBytes bytes of bits, a multiple of 4. The first byte and the next
// three, big-endian, are Copy and Trigger: the number of the copy and the PSN of the packet that has made the
// responder report. A requester puts the number of the copy, 1..127, into the seven reserved bits beside the
// PSN of each packet that it sends again, so it knows which copy has come. Of the bits,
// bit i%8 of byte i/8 stands for the PSN i+1 after Expected.
type Report struct {
	Expected uint32
	Trigger  uint32
	Copy     uint8
	Bits     []byte
}

// ReportBytes is the most bytes of bits: one bit for each packet that can be early. A report is
// shorter than the first packet of a WRITE; see Stretches.
const ReportBytes = LongReach / 8

// ReportRoom is the size of the longest payload.
const ReportRoom = 4 + ReportBytes

// Has reports whether bit i is set.
func (r *Report) Has(i uint32) bool { return r.Bits[i/8]>>(i%8)&1 != 0 }

// ParseReport reads the payload of a report. ok is false if no report has this payload. Bits is part of b.
func ParseReport(expected uint32, b []byte) (r Report, ok bool) {
	if len(b) < 4 || len(b) > ReportRoom || len(b)%4 != 0 {
		return r, false
	}
	trigger := binary.BigEndian.Uint32(b)
	return Report{Expected: expected, Trigger: trigger & (1<<24 - 1), Copy: b[0], Bits: b[4:]}, b[0] < 128
}

// Looks returns how many packets PutReport looks at: a READ that is kept may stand for thousands.
func (e *Early) Looks(expected uint32) int {
	if e.N == 0 {
		return 0
	}
	return int(max(packet.DiffPSN(e.highest, expected), 0))
}

// PutReport writes the payload of a report, and returns its length. expected is the PSN that the responder
// expects; the copy of the packet trigger has come.
func (e *Early) PutReport(b *[ReportRoom]byte, expected, trigger uint32, copies uint8) (n int) {
	*b = [ReportRoom]byte{}
	binary.BigEndian.PutUint32(b[:], uint32(copies)<<24|trigger)
	n = 4
	for i := range uint32(e.Looks(expected)) {
		if e.bit(packet.AddPSN(expected, 1+i)) {
			b[4+i/8] |= 1 << (i % 8)
			n = 4 + int(i/32+1)*4
		}
	}
	return n
}
