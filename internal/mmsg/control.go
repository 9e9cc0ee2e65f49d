//go:build linux && (amd64 || arm64)

package mmsg

import "encoding/binary"

// Ancillary data: a 16-byte header (length of header and data as 64 bits, level and type as
// 32 bits each), then the data, padded to a multiple of 8 bytes (struct cmsghdr).
const (
	controlHeader = 16
	// ControlInt is the space of ancillary data of at most 8 bytes.
	ControlInt = controlHeader + 8
)

// AppendInt appends ancillary data of size 2 or 4 bytes with a value in host order.
func AppendInt(b []byte, level, kind int32, size int, value uint32) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, uint64(controlHeader+size))
	b = le.AppendUint32(b, uint32(level))
	b = le.AppendUint32(b, uint32(kind))
	if size == 2 {
		value &= 0xffff
	}
	return le.AppendUint64(b, uint64(value))
}

// Control takes the first item of ancillary data from b. data is at least one byte long. ok is
// false if there is no whole item left.
func Control(b []byte) (level, kind int32, data, rest []byte, ok bool) {
	if len(b) <= controlHeader {
		return 0, 0, nil, nil, false
	}
	le := binary.LittleEndian
	n := le.Uint64(b)
	if n <= controlHeader || n > uint64(len(b)) {
		return 0, 0, nil, nil, false
	}
	next := min((n+7)&^7, uint64(len(b)))
	return int32(le.Uint32(b[8:])), int32(le.Uint32(b[12:])), b[controlHeader:n], b[next:], true
}

// Int returns the value of ancillary data of 1, 2 or 4 bytes in host order; 0 if it has
// another size.
func Int(data []byte) uint32 {
	switch len(data) {
	case 1:
		return uint32(data[0])
	case 2:
		return uint32(binary.LittleEndian.Uint16(data))
	case 4:
		return binary.LittleEndian.Uint32(data)
	}
	return 0
}
