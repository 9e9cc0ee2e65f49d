package paste

import (
	"fmt"
	"strings"

	"github.com/nicless/nicless/cqe"
)

// unclear says why the bytes are nothing.
func (d *blob) unclear() string {
	n := len(d.b)
	if d.star && !d.offsets && d.lost == 0 {
		d.lost = d.starLine
	}
	const row = 16 // bytes of a row, in the dumps of the kernel and of libmlx5
	switch {
	case d.lost > 0:
		return fmt.Sprintf("the \"*\" in line %d stands for rows like the one before, and without offsets nothing says "+
			"for how many: use od -v, which prints all rows", d.lost)
	case d.kind == CQE && n == cqe.Size-row:
		return fmt.Sprintf("a CQE has %d bytes, this dump %d: its last row, with syndrome and opcode, is missing", cqe.Size, n)
	case d.kind == CQE && n < cqe.Size && n%row == 0:
		return fmt.Sprintf("a CQE has %d bytes, this dump %d: its last %d rows, with syndrome and opcode, are missing",
			cqe.Size, n, (cqe.Size-n)/row)
	case blank(d.b):
		return fmt.Sprintf("all %d bytes are 0: probably never written", n)
	case d.kind == CQE && n < cqe.Size:
		return fmt.Sprintf("a CQE has %d bytes, this dump %d: the last ones, with syndrome and opcode, are missing", cqe.Size, n)
	case n < 16:
		return fmt.Sprintf("%d bytes: too few to recognize an object", n)
	case n == cqe.Size:
		if text, ok := d.notAnError(); ok {
			return text
		}
		op := cqe.OpOwn(d.b[cqe.OffOpOwn])
		return fmt.Sprintf("in no byte order a CQE (as printed, byte 63 is 0x%02x: %v) or a WQE (byte 3, the opcode, is 0x%02x)",
			uint8(op), op.Opcode(), d.b[3])
	}
	if n%cqe.Size != 0 {
		return fmt.Sprintf("%d bytes that are no CQE, WQE or packet in any byte order; a CQE has %d bytes", n, cqe.Size)
	}
	return fmt.Sprintf("%d bytes that are no CQE, WQE or packet in any byte order", n)
}

// notAnError says of 64 bytes with the opcode of an error, as printed or with the bytes of their words
// reversed, which fields are not as in an error CQE. ok is false if they have no such opcode.
func (d *blob) notAnError() (text string, ok bool) {
	b, how := d.b, "as printed, "
	if !cqe.OpOwn(b[cqe.OffOpOwn]).Opcode().IsError() {
		b, how = swapped(b, d.spans, byWidth), "with the words in host order, "
	}
	o := cqe.OpOwn(b[cqe.OffOpOwn])
	if !o.Opcode().IsError() {
		return "", false
	}
	list := againstError(b, o)
	if len(list) == 0 {
		return "", false
	}
	return fmt.Sprintf("%sbyte 63 is 0x%02x, as in an error CQE (%v), but %s", how, uint8(o), o.Opcode(),
		strings.Join(list, "; ")), true
}

// mostNamed is how many bytes of a field an error names.
const mostNamed = 4

// againstError says what scoreCQE and scoreError hold against bytes that have the opcode of an error.
func againstError(b []byte, o cqe.OpOwn) (list []string) {
	if o.Format() != cqe.FormatPlain {
		list = append(list, fmt.Sprintf("its format is %v, and that of error CQEs is %v", o.Format(), cqe.FormatPlain))
	}
	if s := cqe.Syndrome(b[cqe.OffSyndrome]); s.Status() == cqe.StatusGeneral {
		list = append(list, fmt.Sprintf("no public header names syndrome 0x%02x (byte %d)", uint8(s), cqe.OffSyndrome))
	}
	var reserved []string
	for i, c := range b {
		if c != 0 && (i < 32 || (i >= 36 && i < 52)) {
			reserved = append(reserved, fmt.Sprintf("byte %d is 0x%02x", i, c))
		}
	}
	if n := len(reserved); n > 0 {
		more := ""
		if n > mostNamed {
			reserved, more = reserved[:mostNamed], fmt.Sprintf(" and %d more", n-mostNamed)
		}
		list = append(list, "reserved bytes are not 0: "+strings.Join(reserved, ", ")+more)
	}
	if c := b[cqe.OffUIdx]; c != 0 {
		list = append(list, fmt.Sprintf("byte %d is 0x%02x, above the 24 bits of the number of an SRQ", cqe.OffUIdx, c))
	}
	if b[57]|b[58]|b[59] == 0 {
		list = append(list, "the number of the queue pair is 0")
	}
	return list
}
