package packet

import (
	"encoding/binary"
	"fmt"
	"time"
)

// AETH is the ACK extended header: what a responder answers.
type AETH struct {
	Syndrome uint8  // see the constants
	MSN      uint32 // 24 bits: message sequence number, how many messages the responder completed
}

// ParseAETH reads an ACK extended header.
func ParseAETH(b *[AETHSize]byte) AETH {
	w := binary.BigEndian.Uint32(b[:])
	return AETH{Syndrome: uint8(w >> 24), MSN: w & mask24}
}

// Put writes the header.
func (h AETH) Put(b *[AETHSize]byte) {
	binary.BigEndian.PutUint32(b[:], uint32(h.Syndrome)<<24|h.MSN&mask24)
}

// Syndromes. Bits 6..5 say what kind of answer it is, and bits 4..0 are its code. Bit 7 is
// 0. The kind 0x40 is reserved.
const (
	SyndromeACK = 0x1f // ACK; the code 31 means that the responder does not count credits
	SyndromeRNR = 0x20 // receiver not ready: a bit-or with the code of a timer, see [RNRTimer]
	SyndromeNAK = 0x60 // NAK: a bit-or with the code of an error

	NAKSequence        = 0x60 // PSN sequence error: a packet is missing
	NAKInvalidRequest  = 0x61
	NAKRemoteAccess    = 0x62
	NAKRemoteOperation = 0x63
	NAKInvalidRD       = 0x64 // invalid RD request

	syndromeKind = 0xe0
	syndromeCode = 0x1f
)

// ACK reports whether the answer acknowledges. Its code is a count of credits.
func (h AETH) ACK() bool { return h.Syndrome&syndromeKind == 0 }

// RNR reports whether the answer is an RNR NAK. Its code is the code of a timer.
func (h AETH) RNR() bool { return h.Syndrome&syndromeKind == SyndromeRNR }

// NAK reports whether the answer is a NAK other than an RNR NAK. Its code is the code of an
// error.
func (h AETH) NAK() bool { return h.Syndrome&syndromeKind == SyndromeNAK }

// Code returns bits 4..0 of the syndrome.
func (h AETH) Code() uint8 { return h.Syndrome & syndromeCode }

// String returns the answer in words, such as "RNR NAK, timer 14 (1.28ms)".
func (h AETH) String() string {
	c := h.Code()
	switch {
	case h.ACK() && c == syndromeCode:
		return "ACK"
	case h.ACK():
		return fmt.Sprintf("ACK, credit count %d", c)
	case h.RNR():
		return fmt.Sprintf("RNR NAK, timer %d (%v)", c, RNRTimer(c))
	case h.NAK() && int(c) < len(nakTexts):
		return "NAK: " + nakTexts[c]
	case h.NAK():
		return fmt.Sprintf("NAK, code %d", c)
	}
	return fmt.Sprintf("reserved syndrome 0x%02x", h.Syndrome)
}

var nakTexts = [...]string{
	"PSN sequence error", "invalid request", "remote access error", "remote operation error",
	"invalid RD request",
}

// RNRTimer returns the time that a code of min_rnr_timer means, which is also the code of an
// RNR NAK (InfiniBand Architecture Specification, table 45). Only bits 4..0 of code count.
func RNRTimer(code uint8) time.Duration {
	return time.Duration(rnrTimers[code&31]) * 10 * time.Microsecond
}

var rnrTimers = [32]uint32{
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
}
