package hostpath

import (
	"fmt"

	"github.com/nicless/nicless/wqe"
)

// checkMasked checks a masked atomic and returns how many units of 16 bytes its operands
// take. The SGE, which receives the result, sets the size of the atomic: 4 or 8 bytes.
func (wr *SendWR) checkMasked(op *opInfo) (units int, err error) {
	if len(wr.SGE) != 1 || wr.SGE[0].Length != 4 && wr.SGE[0].Length != 8 {
		return 0, fmt.Errorf("nicless: %s with %d SGEs of %d bytes; one of 4 or 8 is needed", op.name, len(wr.SGE), length(wr.SGE))
	}
	if wr.Mask == nil {
		return 0, fmt.Errorf("nicless: %s without Mask", op.name)
	}
	if wr.Op == OpMaskedCompareSwap && wr.SGE[0].Length == 8 {
		return 2, nil
	}
	return 1, nil
}

// putMasked writes the operands of a masked atomic and returns the opmod for their size.
func (wr *SendWR) putMasked(b *wqe.Builder) (opmod uint8) {
	m, short := wr.Mask, wr.SGE[0].Length == 4
	switch {
	case wr.Op == OpMaskedFetchAdd && short:
		b.MaskedFA4(wqe.MaskedFA4{Add: uint32(wr.SwapAdd), Boundary: uint32(m.Boundary)})
	case wr.Op == OpMaskedFetchAdd:
		b.MaskedFA8(wqe.MaskedFA8{Add: wr.SwapAdd, Boundary: m.Boundary})
	case short:
		b.MaskedCS4(wqe.MaskedCS4{
			Swap: uint32(wr.SwapAdd), Compare: uint32(wr.Compare),
			SwapMask: uint32(m.Swap), CompareMask: uint32(m.Compare),
		})
	default:
		b.MaskedCS8(wqe.MaskedCS8{
			Swap: wr.SwapAdd, Compare: wr.Compare, SwapMask: m.Swap, CompareMask: m.Compare,
		})
	}
	if short {
		return wqe.OpMod4
	}
	return wqe.OpMod8
}

// checkLocal checks an operation that has no peer and returns how many units of 16 bytes
// follow its control segment.
func (wr *SendWR) checkLocal(op *opInfo) (units int, err error) {
	want := 1
	if wr.Op == OpCopy {
		want = 2
		units = wqe.MMOMetaSize / wqe.UnitSize
	}
	if len(wr.Data) != 0 {
		return 0, fmt.Errorf("nicless: %s with %d inline bytes; it takes none", op.name, len(wr.Data))
	}
	if len(wr.SGE) != want {
		return 0, fmt.Errorf("nicless: %s with %d SGEs; %d are needed", op.name, len(wr.SGE), want)
	}
	for i := range wr.SGE {
		if n := wr.SGE[i].Length; n == 0 || n > maxLength {
			return 0, fmt.Errorf("nicless: SGE %d of %s has %d bytes; 1 to %d are possible", i, op.name, n, uint32(maxLength))
		}
	}
	if n := wr.SGE[0].Length; n != wr.SGE[want-1].Length {
		return 0, fmt.Errorf("nicless: %s of %d bytes to a place of %d", op.name, n, wr.SGE[1].Length)
	}
	return units + want, nil
}
