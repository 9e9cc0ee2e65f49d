package packet

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/nicless/nicless/internal/crc"
)

// Arithmetic of CRC-32 as the ICRC needs it. The state of a CRC is a polynomial over GF(2)
// modulo the CRC's. Bit 31 is the coefficient of x^0. A step over a byte b adds b to the low
// byte and multiplies by x^8. There is no inversion here: state = ^crc of package hash/crc32.

const (
	protocolUDP = 17
	ipv4Size    = 20 // without options
	ipv6Size    = 40
	udpSize     = 8
)

// lengths is how many lengths of packets there are: 0, 4, … MaxPacket.
const lengths = MaxPacket/4 + 1

var (
	// columns[n][b] is the state after byte b and then n bytes 0. A byte of a header adds the
	// entry of its value to the state after the headers, where n bytes of the headers follow it.
	columns [afterLength6 + 1][256]uint32

	// The length fields add this to the state after the headers, by length of the packet / 4.
	length4, length6 [lengths]uint32

	// backwards[n/4] is the inverse of x^(32+8m), where m bytes follow the identification and
	// flags of an IPv4 packet of n bytes: 12 of IP, 8 of UDP, n-4 of the packet.
	backwards [lengths]uint32
)

// Bytes between the upper byte of a field and the end of the headers. One less
// follows the lower byte.
const (
	afterPort    = 7  // UDP source port
	afterUDP     = 3  // UDP length
	afterID      = 23 // IPv4 identification
	afterLength4 = 25 // IPv4 total length
	afterLength6 = 43 // IPv6 payload length
)

// field16 returns what a field of a header adds to the state after the headers. after is one
// of the constants above.
func field16(v uint16, after int) uint32 { return columns[after][v>>8] ^ columns[after-1][uint8(v)] }

// shift returns the state after bytes b. It is for tables and for the headers of a flow.
func shift(state uint32, b []byte) uint32 {
	for _, c := range b {
		state = state>>8 ^ crc32.IEEETable[uint8(state)^c]
	}
	return state
}

// shiftBTH returns the state after a BTH whose byte 4 counts as 0xff.
func shiftBTH(state uint32, b *[BTHSize]byte) uint32 {
	le := binary.LittleEndian
	return shift12(state, le.Uint32(b[0:4]), le.Uint32(b[4:8])|0xff, le.Uint32(b[8:12]))
}

// shift12 returns the state after three words, which are the bytes in little-endian order. All
// look-ups are independent of each other.
func shift12(state, w0, w1, w2 uint32) uint32 {
	w0 ^= state
	return columns[11][uint8(w0)] ^ columns[10][uint8(w0>>8)] ^
		columns[9][uint8(w0>>16)] ^ columns[8][w0>>24] ^
		columns[7][uint8(w1)] ^ columns[6][uint8(w1>>8)] ^ columns[5][uint8(w1>>16)] ^ columns[4][w1>>24] ^
		columns[3][uint8(w2)] ^ columns[2][uint8(w2>>8)] ^ columns[1][uint8(w2>>16)] ^ columns[0][w2>>24]
}

// shift4 returns the state after four bytes 0. The state after four other bytes is shift4 of
// the exclusive or of the state and the bytes.
func shift4(w uint32) uint32 {
	return columns[3][uint8(w)] ^ columns[2][uint8(w>>8)] ^ columns[1][uint8(w>>16)] ^ columns[0][w>>24]
}

// shiftLong returns the state after b. Package crc is ten times as fast as tables from 64 bytes on, and
// slower below; for short packets it uses hash/crc32, which wants multiples of 16.
func shiftLong(state uint32, b []byte) uint32 {
	if n := len(b) &^ 15; n >= 64 {
		state, b = ^crc.Update(^state, b[:n]), b[n:]
	}
	le := binary.LittleEndian
	for ; len(b) >= 12; b = b[12:] {
		state = shift12(state, le.Uint32(b[0:4]), le.Uint32(b[4:8]), le.Uint32(b[8:12]))
	}
	for ; len(b) >= 4; b = b[4:] {
		state = shift4(state ^ le.Uint32(b))
	}
	return shift(state, b)
}

func init() {
	columns[0] = *crc32.IEEETable
	for n := 1; n < len(columns); n++ {
		for b, state := range &columns[n-1] {
			columns[n][b] = state>>8 ^ columns[0][uint8(state)]
		}
	}
	for i := range lengths {
		udp := uint16(4*i + udpSize)
		length4[i] = field16(udp+ipv4Size, afterLength4) ^ field16(udp, afterUDP)
		length6[i] = field16(udp, afterLength6) ^ field16(udp, afterUDP)
	}
	const one = 1 << 31 // x^0
	word := divide(one, 32)
	backwards[0] = divide(one, 32+8*(12+udpSize-ICRCSize))
	for i := 1; i < lengths; i++ {
		backwards[i] = multiply(backwards[i-1], word)
	}
}

// divide returns p divided by x^n modulo the polynomial of the CRC.
func divide(p uint32, n int) uint32 {
	for range n {
		if p>>31 != 0 {
			p = (p^crc32.IEEE)<<1 | 1
		} else {
			p <<= 1
		}
	}
	return p
}

// multiply returns a·b modulo the polynomial of the CRC.
func multiply(a, b uint32) uint32 {
	var t [16]uint64 // carry-less multiples of b
	for i := 0; i < len(t); i += 2 {
		t[i] = t[i/2] << 1
		t[i+1] = t[i] ^ uint64(b)
	}
	p := t[a&15] ^ t[a>>4&15]<<4 ^ t[a>>8&15]<<8 ^ t[a>>12&15]<<12 ^
		t[a>>16&15]<<16 ^ t[a>>20&15]<<20 ^ t[a>>24&15]<<24 ^ t[a>>28]<<28
	p <<= 1 // bit 63 is now the coefficient of x^0, and bit 31 that of x^32
	return uint32(p>>32) ^ shift4(uint32(p))
}
