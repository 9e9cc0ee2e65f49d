//go:build linux && (amd64 || arm64)

package completion

import "github.com/nicless/nicless/cqe"

// vendorSyndrome has, for each syndrome of an error CQE, the vendor's error syndrome with which hardware was
// observed to report it.
var vendorSyndrome = [256]uint8{
	cqe.LocalProtection: 0x52, cqe.Flush: 0xf9, cqe.RemoteInvalidRequest: 0x8a,
	cqe.RemoteAccess: 0x88, cqe.TransportRetry: 0x81,
}

// A Vendor says which vendor byte error CQEs have.
type Vendor uint16

// UsualVendor is the byte that mlx5 devices are seen to have with the syndrome.
const UsualVendor Vendor = 0

// SetVendor returns the Vendor that is one byte for all syndromes.
func SetVendor(b uint8) Vendor { return 1<<8 | Vendor(b) }

func (v Vendor) of(s cqe.Syndrome) uint8 {
	if v == UsualVendor {
		return vendorSyndrome[s]
	}
	return uint8(v)
}
