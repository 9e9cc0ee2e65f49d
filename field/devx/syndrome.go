package devx

import "fmt"

// A syndrome means what its maker says. Those of nicless name the field that was wrong: the command's
// number is in bits 31..16, the offset of the field's word in bits 15..5, and the field's lowest bit in bits
// 4..0. The lower 16 bits are 0 if the command was refused for no single field.

// SyndromeOf returns the syndrome of a command that is refused for a field; nil: for no single field.
func SyndromeOf(op uint16, f *Field) uint32 {
	s := uint32(op) << 16
	if f != nil {
		s |= uint32(f.At)<<5 | uint32(f.Low)
	}
	return s
}

// Refused says what a syndrome means if nicless is its maker: "CREATE_QP, pd (0x1c bits 23..0)". ok is false
// if nicless has no such syndrome.
func Refused(syndrome uint32) (words string, ok bool) {
	c := Find(uint16(syndrome >> 16))
	switch {
	case c == nil:
		return "", false
	case uint16(syndrome) == 0:
		return c.Name, true
	}
	for _, g := range c.In {
		for _, f := range g.Fields {
			if SyndromeOf(c.Op, f) == syndrome {
				return fmt.Sprintf("%s, %s (%s)", c.Name, f.Name, f.Place()), true
			}
		}
	}
	return "", false
}
