package control

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// HeaderSize is the size of the header in bytes.
const HeaderSize = 16

// MaxMessage is the size of the longest datagram in bytes, including the header.
const MaxMessage = 512

// Flags of a header.
const (
	FlagAnswer uint16 = 1 << 0 // the datagram is an answer of the device
	FlagError  uint16 = 1 << 1 // the payload is an Error
	FlagLinked uint16 = 1 << 2 // the datagram is a request that is refused if the one before it was
)

// A Header begins every datagram.
type Header struct {
	Op    Op
	Flags uint16
	Size  uint32 // size of the payload in bytes
	Tag   uint64
}

// A Message is the payload of a datagram. The encoder, the decoder and the test of the
// documentation all walk its fields, in their order in the datagram. So there is only one
// description of each message.
type Message interface {
	walk(w walker)
}

// walker visits the fields of a message.
type walker interface {
	u8(name string, v *uint8)
	u16(name string, v *uint16)
	u32(name string, v *uint32)
	u64(name string, v *uint64)
	bytes(name string, v []byte) // bytes, whose number the message type fixes
	text(name string, v *string) // the rest of the message; only as the last field
}

// Append appends the datagram of m to dst. The tag says which request an answer belongs to.
// If a text does not fit into MaxMessage, Append cuts it between two characters.
func Append(dst []byte, op Op, flags uint16, tag uint64, m Message) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, HeaderSize)...)
	e := encoder{b: dst, start: start + HeaderSize, widest: 1}
	m.walk(&e)
	e.align(e.widest)
	le := binary.LittleEndian
	h := e.b[start:]
	le.PutUint16(h[0:], uint16(op))
	le.PutUint16(h[2:], flags)
	le.PutUint32(h[4:], uint32(len(h)-HeaderSize))
	le.PutUint64(h[8:], tag)
	return e.b
}

// ParseHeader splits a datagram into its header and its payload. The payload is a part of
// b. If the size in the header is wrong, ParseHeader returns the header with the error,
// because the answer repeats parts of the header.
func ParseHeader(b []byte) (Header, []byte, error) {
	if len(b) < HeaderSize || len(b) > MaxMessage {
		return Header{}, nil, fmt.Errorf("control: datagram of %d bytes; %d to %d are possible", len(b), HeaderSize, MaxMessage)
	}
	le := binary.LittleEndian
	h := Header{
		Op:    Op(le.Uint16(b[0:])),
		Flags: le.Uint16(b[2:]),
		Size:  le.Uint32(b[4:]),
		Tag:   le.Uint64(b[8:]),
	}
	payload := b[HeaderSize:]
	if uint64(h.Size) != uint64(len(payload)) {
		return h, nil, fmt.Errorf("control: %v: header says %d bytes of payload, datagram has %d", h.Op, h.Size, len(payload))
	}
	return h, payload, nil
}

// Parse fills m from a payload, which must have exactly the length of m. If Parse returns an
// error, the contents of m are undefined.
func Parse(op Op, payload []byte, m Message) error {
	d := decoder{b: payload, widest: 1}
	m.walk(&d)
	d.align(d.widest)
	if d.off != len(payload) {
		return fmt.Errorf("control: %v: payload of %d bytes; this message has %d", op, len(payload), d.off)
	}
	return nil
}

// Encoder and decoder place fields as a C compiler does: each field is on a multiple of its
// size. Unless the message ends with a text, it is padded to a multiple of the size of its
// widest field.

type encoder struct {
	b      []byte
	start  int // offset of the payload in b
	widest int
}

// align pads to a multiple of n from the start of the payload.
func (e *encoder) align(n int) {
	e.widest = max(e.widest, n)
	for (len(e.b)-e.start)%n != 0 {
		e.b = append(e.b, 0)
	}
}

func (e *encoder) u8(_ string, v *uint8) { e.b = append(e.b, *v) }
func (e *encoder) u16(_ string, v *uint16) {
	e.align(2)
	e.b = binary.LittleEndian.AppendUint16(e.b, *v)
}
func (e *encoder) u32(_ string, v *uint32) {
	e.align(4)
	e.b = binary.LittleEndian.AppendUint32(e.b, *v)
}
func (e *encoder) u64(_ string, v *uint64) {
	e.align(8)
	e.b = binary.LittleEndian.AppendUint64(e.b, *v)
}
func (e *encoder) bytes(_ string, v []byte) { e.b = append(e.b, v...) }
func (e *encoder) text(_ string, v *string) {
	n, room := len(*v), e.start-HeaderSize+MaxMessage-len(e.b)
	if n > room {
		n = room
		for n > 0 && !utf8.RuneStart((*v)[n]) {
			n--
		}
	}
	e.b = append(e.b, (*v)[:n]...)
	e.widest = 1
}

type decoder struct {
	b []byte
	// off is the offset of the next field. It is larger than len(b) if b is too short, and after the last
	// field the length that b should have.
	off    int
	widest int
}

func (d *decoder) align(n int) {
	d.widest = max(d.widest, n)
	d.off = (d.off + n - 1) / n * n
}

var zeros [8]byte

// take returns the next n bytes, or zeros past the end.
func (d *decoder) take(n, align int) []byte {
	d.align(align)
	off := d.off
	d.off += n
	if d.off > len(d.b) {
		return zeros[:]
	}
	return d.b[off:d.off]
}

func (d *decoder) u8(_ string, v *uint8)   { *v = d.take(1, 1)[0] }
func (d *decoder) u16(_ string, v *uint16) { *v = binary.LittleEndian.Uint16(d.take(2, 2)) }
func (d *decoder) u32(_ string, v *uint32) { *v = binary.LittleEndian.Uint32(d.take(4, 4)) }
func (d *decoder) u64(_ string, v *uint64) { *v = binary.LittleEndian.Uint64(d.take(8, 8)) }
func (d *decoder) bytes(_ string, v []byte) {
	copy(v, d.take(len(v), 1))
}
func (d *decoder) text(_ string, v *string) {
	if d.off <= len(d.b) {
		*v = string(d.b[d.off:])
		d.off = len(d.b)
	}
	d.widest = 1
}
