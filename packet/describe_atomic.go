package packet

import (
	"encoding/binary"
	"fmt"

	"github.com/nicless/nicless/field"
)

// operands adds the operands of a masked atomic, whose headers i are there and whose payload has size bytes.
// It reports whether they are the operands of a word of the length that the RETH has.
func (d *describer) operands(op Operation, i *Info, size int) bool {
	if !i.RETH {
		return false
	}
	word := ParseRETH((*[RETHSize]byte)(d.b[i.OffRETH:])).Length
	if word != 4 && word != 8 {
		return false
	}
	fields := []field.Field{{Name: "add", Text: "number to add"},
		{Name: "boundary", Text: "top bits of the fields that are added"}}
	if op == MaskedCompareSwap {
		fields = []field.Field{{Name: "swap", Text: "new value"}, {Name: "compare", Text: "expected value"},
			{Name: "swap_mask", Text: "bits that are stored"}, {Name: "compare_mask", Text: "bits that are compared"}}
	}
	at, n := i.HeaderSize, len(fields)*int(word)
	if size != max(n, 16) {
		return false
	}
	d.header(at, "operands", fmt.Sprintf("of a masked atomic on %d bytes", word), func(d *describer) {
		for k, f := range fields {
			b := d.b[at+k*int(word):]
			if word == 4 {
				d.put(at+k*4, 4, f.Name, field.Hex32(binary.BigEndian.Uint32(b)), f.Text)
			} else {
				d.put(at+k*8, 8, f.Name, field.Hex64(binary.BigEndian.Uint64(b)), f.Text)
			}
		}
		d.plain(at+n, size-n, "ignored")
	})
	return true
}
