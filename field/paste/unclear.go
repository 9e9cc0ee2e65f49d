package paste

import (
	"fmt"

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
		op := cqe.OpOwn(d.b[cqe.OffOpOwn])
		return fmt.Sprintf("in no byte order a CQE (as printed, byte 63 is 0x%02x: %v) or a WQE (byte 3, the opcode, is 0x%02x)",
			uint8(op), op.Opcode(), d.b[3])
	}
	if n%cqe.Size != 0 {
		return fmt.Sprintf("%d bytes that are no CQE, WQE or packet in any byte order; a CQE has %d bytes", n, cqe.Size)
	}
	return fmt.Sprintf("%d bytes that are no CQE, WQE or packet in any byte order", n)
}
