package verbs

import (
	"encoding/binary"
	"errors"
)

// What shim/wire.h says, in Go; a test compares them. All is little-endian.
const (
	wireMagic   = 0x6272766e
	wireMajor   = 2
	wireMinor   = 0
	maxDatagram = 128 << 10
	maxFDs      = 8

	headerSize = 24
	ioctlSize  = 16
	helloSize  = 32
	outSize    = 16
	needSize   = 32
	resultSize = 16
	mmapSize   = 32
	mappedSize = 16
	openSize   = 8

	registersGone = 0x7f8

	flagAnswer = 1
	flagAgain  = 2

	wantFast = 1
	hasUFFD  = 2
)

type wireOp uint16

const (
	opHello wireOp = 1
	opOpen  wireOp = 2
	opAdopt wireOp = 3
	opIoctl wireOp = 4
	opMmap  wireOp = 5
	opAlloc wireOp = 6
	opFree  wireOp = 7
)

// Kinds of what an answer says.
const (
	outBytes    = 1
	outValue    = 2
	outFD       = 3
	outFDInside = 4

	needFD    = 1
	needRemap = 2
)

var le = binary.LittleEndian

var errWire = errors.New("not a datagram of the shim")

// A wireHeader begins every datagram.
type wireHeader struct {
	op      wireOp
	flags   uint16
	error   int32
	length  uint32
	tag     uint32
	context uint64
}

func parseHeader(b []byte) (h wireHeader, body []byte, err error) {
	if len(b) < headerSize {
		return h, nil, errWire
	}
	h = wireHeader{
		op: wireOp(le.Uint16(b)), flags: le.Uint16(b[2:]), error: int32(le.Uint32(b[4:])),
		length: le.Uint32(b[8:]), tag: le.Uint32(b[12:]), context: le.Uint64(b[16:]),
	}
	if int64(h.length) != int64(len(b)) || h.flags != 0 {
		return h, nil, errWire
	}
	return h, b[headerSize:], nil
}

// appendAnswer begins the answer to a request; finish sets its length.
func appendAnswer(dst []byte, to wireHeader, flags uint16, errno int32) []byte {
	dst = le.AppendUint16(dst, uint16(to.op))
	dst = le.AppendUint16(dst, flagAnswer|flags)
	dst = le.AppendUint32(dst, uint32(errno))
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint32(dst, to.tag)
	return le.AppendUint64(dst, to.context)
}

func finish(datagram []byte) []byte {
	le.PutUint32(datagram[8:], uint32(len(datagram)))
	return datagram
}

// padded rounds up to what bytes take in a datagram.
func padded(n int) int { return (n + 7) &^ 7 }

// A wireResult is how a need was met.
type wireResult struct {
	attr  uint16
	kind  uint16
	errno int32
	addr  uint64
}

func parseResult(b []byte) wireResult {
	return wireResult{le.Uint16(b), le.Uint16(b[2:]), int32(le.Uint32(b[4:])), le.Uint64(b[8:])}
}

// A wireNeed is what the shim is to do before it asks again.
type wireNeed struct {
	attr         uint16
	kind         uint16
	addr, length uint64
	offset       uint64
}

func (n *wireNeed) append(dst []byte) []byte {
	dst = le.AppendUint16(dst, n.attr)
	dst = le.AppendUint16(dst, n.kind)
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint64(dst, n.addr)
	dst = le.AppendUint64(dst, n.length)
	return le.AppendUint64(dst, n.offset)
}

// A wireOut is something that the shim is to write into the program.
type wireOut struct {
	attr  uint16
	kind  uint16
	value uint64
	bytes []byte
}

func (o *wireOut) append(dst []byte) []byte {
	dst = le.AppendUint16(dst, o.attr)
	dst = le.AppendUint16(dst, o.kind)
	dst = le.AppendUint32(dst, uint32(len(o.bytes)))
	dst = le.AppendUint64(dst, o.value)
	dst = append(dst, o.bytes...)
	return append(dst, make([]byte, padded(len(o.bytes))-len(o.bytes))...)
}

// A mapRequest is an nv_mmap.
type mapRequest struct {
	addr, length, offset uint64
	prot, flags          uint32
}

func parseMap(b []byte) (m mapRequest, ok bool) {
	if len(b) != mmapSize {
		return m, false
	}
	return mapRequest{le.Uint64(b), le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint32(b[24:]), le.Uint32(b[28:])}, true
}

// A mappedAnswer is an nv_mapped.
type mappedAnswer struct {
	offset, whole uint64
}

func (m mappedAnswer) append(dst []byte) []byte {
	return le.AppendUint64(le.AppendUint64(dst, m.offset), m.whole)
}

// The program's own: struct ib_uverbs_ioctl_hdr, then struct ib_uverbs_attr.
const (
	ioctlHeaderSize = 24
	attrSize        = 16
	attrMandatory   = 1
)

// An ioctlHeader says which method is meant.
type ioctlHeader struct {
	object, method uint16
	attrs          int
	driver         uint32
}

// An attr is one argument, as it came.
type attr struct {
	id, length, flags uint16
	elem              uint16
	data              uint64
	bytes             []byte // that data points at, where length is above 8
	unreadable        bool
	index             uint16
}

// inline returns the bytes of an argument that goes in.
func (a *attr) inline() []byte {
	if a.length > 8 {
		return a.bytes
	}
	return le.AppendUint64(nil, a.data)[:a.length]
}

// parseIoctl takes an NV_IOCTL apart: the program's header, its attributes, and
// how the shim has met what it was asked for.
func parseIoctl(b []byte) (h ioctlHeader, attrs []attr, results []wireResult, err error) {
	if len(b) < ioctlSize+ioctlHeaderSize {
		return h, nil, nil, errWire
	}
	unreadable, nresults, length := le.Uint64(b), le.Uint32(b[8:]), le.Uint32(b[12:])
	b = b[ioctlSize:]
	h = ioctlHeader{object: le.Uint16(b[2:]), method: le.Uint16(b[4:]), attrs: int(le.Uint16(b[6:])), driver: le.Uint32(b[16:])}
	size := ioctlHeaderSize + h.attrs*attrSize
	switch {
	case size > pageSize || int(le.Uint16(b)) != size || length != uint32(size):
		return h, nil, nil, refuse(eINVAL, "header: length %d with %d attributes", le.Uint16(b), h.attrs)
	case len(b) < size:
		return h, nil, nil, errWire
	case le.Uint64(b[8:]) != 0 || le.Uint32(b[20:]) != 0:
		return h, nil, nil, refuse(ePROTONOSUPPORT, "header: reserved fields are not 0")
	}
	raw, rest := b[ioctlHeaderSize:size], b[size:]
	attrs = make([]attr, h.attrs)
	for i := range attrs {
		r := raw[i*attrSize:]
		a := attr{id: le.Uint16(r), length: le.Uint16(r[2:]), flags: le.Uint16(r[4:]), elem: le.Uint16(r[6:]), data: le.Uint64(r[8:]), index: uint16(i)}
		if a.length > 8 {
			n := padded(int(a.length))
			if n > len(rest) {
				return h, nil, nil, errWire
			}
			a.bytes, rest = rest[:a.length:a.length], rest[n:]
			a.unreadable = i < 64 && unreadable>>i&1 != 0
		}
		attrs[i] = a
	}
	if uint64(len(rest)) != uint64(nresults)*resultSize {
		return h, nil, nil, errWire
	}
	for ; len(rest) > 0; rest = rest[resultSize:] {
		results = append(results, parseResult(rest))
	}
	return h, attrs, results, nil
}
