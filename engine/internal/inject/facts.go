//go:build linux && (amd64 || arm64)

package inject

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// SizeAndKeys returns how many bytes the segments of a WQE of a transport name, and which keys, the rkey
// first. The WQE is not checked yet, so segments may be wrong or missing; those are left out.
func SizeAndKeys(b []byte, transport uint8) (size uint64, keys []uint32) {
	v, err := ParseWQE(b, transport)
	if err != nil {
		return 0, nil
	}
	if s, ok := v.Find(wqe.KindRaddr); ok {
		keys = append(keys, wqe.ParseRaddr((*[wqe.RaddrSize]byte)(s.Bytes)).RKey)
	}
	for list := v.Data(); ; {
		d, inline, ok := list.Next()
		if !ok {
			return size, keys
		}
		size += uint64(len(inline))
		if !d.Inline() {
			size += d.Length()
			keys = append(keys, d.LKey)
		}
	}
}

// ParseWQE divides a WQE of a transport into its segments.
func ParseWQE(b []byte, transport uint8) (wqe.View, error) { return wqe.Parse(b, addresses[transport]) }

// addresses says which address segment the WQEs of a transport have.
var addresses = [...]wqe.Address{
	control.QPTypeUD: wqe.AddressUD, control.QPTypeXRC: wqe.AddressXRC, control.QPTypeDCI: wqe.AddressDC,
}
