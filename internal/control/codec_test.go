package control

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseHeaderRefuses(t *testing.T) {
	datagram := func(says uint32, has int) []byte {
		b := make([]byte, HeaderSize+has)
		binary.LittleEndian.PutUint16(b, uint16(OpRegMR))
		binary.LittleEndian.PutUint32(b[4:], says)
		return b
	}
	for _, c := range []struct {
		name string
		b    []byte
		says string
	}{
		{"nothing", nil, "control: datagram of 0 bytes; 16 to 512 are possible"},
		{"half a header", make([]byte, 15), "control: datagram of 15 bytes; 16 to 512 are possible"},
		{"too long", datagram(497, 497), "control: datagram of 513 bytes; 16 to 512 are possible"},
		{"one byte missing", datagram(5, 4), "control: reg_mr: header says 5 bytes of payload, datagram has 4"},
		{"one byte more", datagram(3, 4), "control: reg_mr: header says 3 bytes of payload, datagram has 4"},
		{"size that would wrap", datagram(1<<32-1, 0), "control: reg_mr: header says 4294967295 bytes of payload, datagram has 0"},
	} {
		_, payload, err := ParseHeader(c.b)
		assert.EqualError(t, err, c.says, c.name)
		assert.Nil(t, payload, c.name)
	}

	h, _, err := ParseHeader(datagram(5, 4))
	assert.Error(t, err)
	assert.Equal(t, OpRegMR, h.Op, "an answer needs the header")

	_, payload, err := ParseHeader(datagram(496, 496))
	assert.NoError(t, err, "the longest")
	assert.Len(t, payload, 496)
}

// Every message of a fixed length is refused at every other length.
func TestParseRefusesOtherLengths(t *testing.T) {
	for name, m := range messages() {
		l := layoutOf(m)
		for n := range 100 {
			err := Parse(OpHello, make([]byte, n), blank(m))
			switch {
			case n == l.end, n > l.end && l.hasText():
				assert.NoError(t, err, "%s of %d bytes", name, n)
			default:
				assert.EqualError(t, err, fmt.Sprintf("control: hello: payload of %d bytes; this message has %d", n, l.end), name)
			}
		}
	}
}

func TestLongTextIsCutToOneDatagram(t *testing.T) {
	for _, c := range []struct {
		name string
		text string
		keep int
	}{
		{"fits exactly", strings.Repeat("x", 492), 492},
		{"one byte too long", strings.Repeat("x", 493), 492},
		{"far too long", strings.Repeat("x", 100_000), 492},
		{"a character across the end", strings.Repeat("x", 491) + "é" + "x", 491},
		{"a longer one", strings.Repeat("x", 490) + "語", 490},
		{"a character that ends there", strings.Repeat("x", 490) + "éx", 492},
		{"not text at all", strings.Repeat("\x80", 600), 0},
	} {
		b := Append([]byte("before"), OpRegMR, FlagAnswer|FlagError, 1, Errorf(CodeInvalid, "%s", c.text))[len("before"):]
		assert.LessOrEqual(t, len(b), MaxMessage, c.name)
		_, payload, err := ParseHeader(b)
		require.NoError(t, err, c.name)
		var e Error
		require.NoError(t, Parse(OpRegMR, payload, &e), c.name)
		assert.Equal(t, c.text[:c.keep], e.Text, c.name)
		assert.True(t, utf8.ValidString(e.Text), c.name)
	}
}

// mixed has fields in an order that no message has yet: bytes, and a wide field before a narrow
// last field.
type mixed struct {
	A uint8
	B [16]byte
	C uint64
	D uint16
}

func (m *mixed) walk(w walker) {
	w.u8("a", &m.A)
	w.bytes("b", m.B[:])
	w.u64("c", &m.C)
	w.u16("d", &m.D)
}

func TestFieldsArePlacedAsInC(t *testing.T) {
	in := mixed{A: 1, B: [16]byte{2, 3, 15: 4}, C: 5, D: 6}
	b := Append(nil, OpHello, 0, 0, &in)[HeaderSize:]
	assert.Equal(t, unhex(t, `
		01 02030000000000000000000000000004 00000000000000
		0500000000000000 0600 000000000000`), b)
	var out mixed
	require.NoError(t, Parse(OpHello, b, &out))
	assert.Equal(t, in, out)
	for n := range b {
		assert.Error(t, Parse(OpHello, b[:n], &out), "%d bytes", n)
	}
}

func TestErrorIsOfItsCode(t *testing.T) {
	var err error = Errorf(CodeBusy, "CQ %#x: still used", 7)
	assert.EqualError(t, err, "CQ 0x7: still used")
	wrapped := fmt.Errorf("hostpath: destroy: %w", err)
	assert.ErrorIs(t, wrapped, &Error{Code: CodeBusy})
	assert.ErrorIs(t, wrapped, &Error{Code: CodeBusy, Text: "CQ 0x7: still used"})
	assert.NotErrorIs(t, wrapped, &Error{Code: CodeBusy, Text: "another"})
	assert.NotErrorIs(t, wrapped, &Error{Code: CodeLimit})
	assert.NotErrorIs(t, wrapped, errors.ErrUnsupported)
	assert.Equal(t, "busy", CodeBusy.String())
	assert.Equal(t, "code 99", Code(99).String())
}

// FuzzParse parses any payload as every message. It checks that Parse never panics, and that
// appending a message that was accepted gives the same payload, apart from padding.
func FuzzParse(f *testing.F) {
	for _, g := range golden {
		f.Add(Append(nil, g.op, g.flags, g.tag, g.m)[HeaderSize:])
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, payload []byte) {
		if len(payload) > MaxMessage-HeaderSize {
			t.Skip("longer than a datagram")
		}
		for name, m := range messages() {
			if Parse(OpHello, payload, m) != nil {
				continue
			}
			l := layoutOf(m)
			again := Append(nil, OpHello, 0, 0, m)[HeaderSize:]
			if want := l.clearPadding(payload); string(again) != string(want) {
				t.Errorf("%s: parsed and appended:\n in %x\nout %x", name, want, again)
			}
		}
	})
}

// FuzzParseHeader checks that a header is accepted if and only if its size is right.
func FuzzParseHeader(f *testing.F) {
	for _, g := range golden {
		f.Add(Append(nil, g.op, g.flags, g.tag, g.m))
	}
	f.Add(make([]byte, HeaderSize-1))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, payload, err := ParseHeader(b)
		right := len(b) >= HeaderSize && len(b) <= MaxMessage &&
			uint64(binary.LittleEndian.Uint32(b[4:])) == uint64(len(b)-HeaderSize)
		if (err == nil) != right {
			t.Fatalf("%x: %v", b, err)
		}
		if err == nil && (int(h.Size) != len(payload) || HeaderSize+len(payload) != len(b)) {
			t.Fatalf("%x: payload of %d bytes", b, len(payload))
		}
	})
}
