//go:build linux && (amd64 || arm64)

package verbs

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/nicless/nicless/verbs/internal/abi"
)

// The protocol between the shim and this server, as shim/wire.h defines it; a test compares
// the two. Integers are little-endian.
const (
	wireMagic   = 0x6272766e
	wireMajor   = 2
	wireMinor   = 2
	maxDatagram = 128 << 10
	maxFDs      = 8

	headerSize  = 24
	ioctlSize   = 16
	helloSize   = 32
	outSize     = 16
	needSize    = 32
	resultSize  = 16
	mmapSize    = 40
	mmapSizeOld = 32 // without room
	mappedSize  = 32
	openSize    = 8

	addressesSize = 16
	addressSize   = 48
	maxIfname     = 16

	writeSize = 16
	gotSize   = 16

	lookSize = 8
	atPCI    = 0
	atNetdev = 1

	registersGone = 0x7f8

	flagAnswer = 1
	flagAgain  = 2
	flagFailed = 4

	wantFast = 1
	hasUFFD  = 2
	wantDEVX = 4
	noDEVX   = 8

	wantGuard = 16
	noGuard   = 32
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

	opAddresses   wireOp = 8
	opOpenChannel wireOp = 10
	opWrite       wireOp = 11
	opNetlink     wireOp = 12
	opCounter     wireOp = 13
	opOpenMAD     wireOp = 14
	opMADIoctl    wireOp = 15
	opMADRead     wireOp = 16
	opLook        wireOp = 17
	opWake        wireOp = 18
)

// Kinds of outs and needs in an answer.
const (
	outBytes    = 1
	outValue    = 2
	outFD       = 3
	outFDInside = 4
	outBack     = 5

	needFD       = 1
	needRemap    = 2
	needToken    = 3
	needRoute    = 4
	needTryRemap = 5
	needBytes    = 10

	needAddresses = 11
	needFDNumber  = 12
)

// inHeap is the attr of the result for pages that are in the heap of malloc.
const inHeap = 1

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

// appendAnswer appends the header of the answer to a request; finish sets its length.
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

// padded rounds a length up to a multiple of 8: the room that it takes in a datagram.
func padded(n int) int { return (n + 7) &^ 7 }

// A wireHello is an nv_hello and the program's name after it, at most maxName bytes.
type wireHello struct {
	major         uint16
	wants         uint32
	guard, cookie uint64
	name          []byte
}

const maxName = 64

func parseHello(b []byte) (h wireHello, ok bool) {
	if len(b) < helloSize || le.Uint32(b) != wireMagic {
		return h, false
	}
	name := b[helloSize:min(len(b), helloSize+maxName)]
	return wireHello{le.Uint16(b[4:]), le.Uint32(b[8:]), le.Uint64(b[16:]), le.Uint64(b[24:]),
		bytes.TrimRight(name, "\x00")}, true
}

// A wireResult reports that the shim has satisfied a need, or the error if it could not.
type wireResult struct {
	attr  uint16
	kind  uint16
	errno int32
	addr  uint64
}

func parseResult(b []byte) wireResult {
	return wireResult{le.Uint16(b), le.Uint16(b[2:]), int32(le.Uint32(b[4:])), le.Uint64(b[8:])}
}

// A wireNeed is something that the shim does before it repeats the request: send a copy of
// a descriptor, or remap memory.
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

// A wireOut is something that the shim writes to the program's memory.
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
	room                 uint64
}

func parseMap(b []byte) (m mapRequest, ok bool) {
	if len(b) != mmapSize && len(b) != mmapSizeOld {
		return m, false
	}
	m = mapRequest{addr: le.Uint64(b), length: le.Uint64(b[8:]), offset: le.Uint64(b[16:]),
		prot: le.Uint32(b[24:]), flags: le.Uint32(b[28:])}
	if len(b) == mmapSize {
		m.room = le.Uint64(b[mmapSizeOld:])
	}
	return m, true
}

// A mappedAnswer is an nv_mapped.
type mappedAnswer struct {
	offset, whole, given, alike uint64
}

func (m mappedAnswer) append(dst []byte) []byte {
	dst = le.AppendUint64(le.AppendUint64(dst, m.offset), m.whole)
	return le.AppendUint64(le.AppendUint64(dst, m.given), m.alike)
}

// An ioctlHeader is the program's struct ib_uverbs_ioctl_hdr.
type ioctlHeader struct {
	object, method uint16
	attrs          int
	driver         uint32
}

// An attr is one of the program's struct ib_uverbs_attr.
type attr struct {
	id, length, flags uint16
	elem              uint16
	data              uint64
	bytes             []byte // those to which data points, if length is more than inlineSize
	unreadable        bool   // data points to no memory of the program
	index             uint16 // position among the attributes of the call
}

// inlineSize is the most bytes that an attribute has in its field data itself.
const inlineSize = 8

// inline returns the bytes that the program passes in an attribute, whether they are in the
// field data itself or where data points.
func (a *attr) inline() []byte {
	if a.length > inlineSize {
		return a.bytes
	}
	return le.AppendUint64(nil, a.data)[:a.length]
}

// parseIoctl parses an NV_IOCTL: the program's header and attributes, and the results for
// the needs of earlier answers.
func parseIoctl(b []byte) (h ioctlHeader, attrs []attr, results []wireResult, err error) {
	if len(b) < ioctlSize+abi.IoctlHdrSize {
		return h, nil, nil, errWire
	}
	unreadable, nresults, length := le.Uint64(b), le.Uint32(b[8:]), le.Uint32(b[12:])
	b = b[ioctlSize:]
	h = ioctlHeader{object: le.Uint16(b[abi.IoctlHdrObjectID:]), method: le.Uint16(b[abi.IoctlHdrMethodID:]),
		attrs: int(le.Uint16(b[abi.IoctlHdrNumAttrs:])), driver: le.Uint32(b[abi.IoctlHdrDriverID:])}
	said := le.Uint16(b[abi.IoctlHdrLength:])
	size := abi.IoctlHdrSize + h.attrs*abi.AttrSize
	switch {
	case size > pageSize || int(said) != size || length != uint32(size):
		return h, nil, nil, refuse(eINVAL, "header: length %d with %d attributes", said, h.attrs)
	case len(b) < size:
		return h, nil, nil, errWire
	case le.Uint64(b[abi.IoctlHdrReserved1:]) != 0 || le.Uint32(b[abi.IoctlHdrReserved2:]) != 0:
		return h, nil, nil, refuse(ePROTONOSUPPORT, "header: reserved fields are not 0")
	}
	raw, rest := b[abi.IoctlHdrSize:size], b[size:]
	attrs = make([]attr, h.attrs)
	for i := range attrs {
		r := raw[i*abi.AttrSize:]
		a := attr{id: le.Uint16(r[abi.AttrAttrID:]), length: le.Uint16(r[abi.AttrLen:]),
			flags: le.Uint16(r[abi.AttrFlags:]), elem: le.Uint16(r[abi.AttrAttrData:]),
			data: le.Uint64(r[abi.AttrData:]), index: uint16(i)}
		if a.length > inlineSize {
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
