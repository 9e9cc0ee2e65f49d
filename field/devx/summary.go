package devx

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"
	"strings"
)

// A summary is a part of a line of a log. The longest of a client that was seen has 390 bytes
// (INIT2RTR_QP of UCX); a mailbox without a byte of 0 would have more than 2000.
const maxSummary = 600

// Unknown is called for what a client passes, which can be thousands of bytes of anything: a message has as
// many places as one reads.
const maxUnknown = 8

// Summary names the command in a mailbox and its fields that are not 0, in one line of at most 600 bytes:
// "CREATE_QP st=DCI pd=0x5 log_sq_size=10". Bits that no field has are named last.
func Summary(mailbox []byte) string {
	if len(mailbox) < HeadSize {
		return fmt.Sprintf("a firmware command of %d bytes", len(mailbox))
	}
	op := binary.BigEndian.Uint16(mailbox)
	c := Find(op)
	if c == nil {
		return Name(op)
	}
	var s strings.Builder
	s.WriteString(c.Name)
	add := func(format string, args ...any) bool {
		text := fmt.Sprintf(format, args...)
		if s.Len()+len(text) > maxSummary-len(" …") {
			s.WriteString(" …")
			return false
		}
		s.WriteString(text)
		return true
	}
	for _, p := range places(mailbox, c.In) {
		set := p.On(mailbox)
		if p.Bytes != 0 {
			set = on(p.Raw(mailbox))
		}
		if !set || p.Field == Opcode {
			continue
		}
		if !add(" %s=%s", p.Name[strings.LastIndexByte(p.Name, '.')+1:], p.short(mailbox)) {
			return s.String()
		}
	}
	if places := c.Unknown(mailbox); len(places) != 0 {
		add(" unknown: %s", strings.Join(places, ", "))
	}
	return s.String()
}

// short writes the field's value without spaces: its meaning if that is one word, and a number of 16 bits or
// more in hexadecimal.
func (f *Field) short(mailbox []byte) string {
	v := f.Get(mailbox)
	m := f.Meaning(v)
	switch {
	case f.Bytes != 0:
		return hex.EncodeToString(f.Raw(mailbox))
	case m != "" && !strings.ContainsAny(m, " ,"):
		return m
	case f.High-f.Low >= 15:
		return fmt.Sprintf("%#x", v)
	default:
		return fmt.Sprint(v)
	}
}

// Unknown says where a command has bits that are not 0 and that no field has: "0x1c bits 25..24",
// "0x110 to 0x11f". The command's maker wants something that this package does not know. The list has 8
// places at most, and says in another line how many more there are.
func (c *Command) Unknown(mailbox []byte) (places []string) {
	u := unknown(mailbox, c.In)
	if c.Op == OpCreateMkey { // entries of the key's list follow
		u = u[:min(len(u), contextSize)]
	}
	more := 0
	for at := 0; at < len(u); at += 4 {
		var word [4]byte
		copy(word[:], u[at:])
		w := binary.BigEndian.Uint32(word[:])
		if w == 0 {
			continue
		}
		begin := at
		for at+8 <= len(u) && on(u[at+4:at+8]) && len(c.fieldsAt(at)) == 0 && len(c.fieldsAt(at+4)) == 0 {
			at += 4
		}
		high, low := 31-bits.LeadingZeros32(w), bits.TrailingZeros32(w)
		switch {
		case len(places) == maxUnknown:
			more++
		case at > begin:
			places = append(places, fmt.Sprintf("%#x to %#x", begin, at+3))
		default:
			places = append(places, (&Field{At: at, High: high, Low: low}).Place())
		}
	}
	if more != 0 {
		places = append(places, fmt.Sprintf("%d more places", more))
	}
	return places
}

// fieldsAt returns the fields that have bits of the word at an offset.
func (c *Command) fieldsAt(at int) (list []*Field) {
	for _, g := range c.In {
		for _, f := range g.Fields {
			if f.At < at+4 && f.End() > at {
				list = append(list, f)
			}
		}
	}
	return list
}

// unknown returns a copy of the mailbox in which the bits of fields are 0.
func unknown(mailbox []byte, groups []*Group) []byte {
	u := append([]byte(nil), mailbox...)
	for _, p := range places(mailbox, groups) {
		if p.Bytes == 0 {
			p.Put(u, 0)
		} else {
			clear(p.Raw(u))
		}
	}
	return u
}
