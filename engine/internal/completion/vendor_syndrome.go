//go:build linux && (amd64 || arm64)

package completion

import "github.com/nicless/nicless/cqe"

// vendorSyndrome has, for each syndrome of an error CQE, the vendor's error syndrome with which hardware was
// observed to report it.
var vendorSyndrome = [256]uint8{
	cqe.LocalProtection: 0x52, cqe.Flush: 0xf9, cqe.RemoteInvalidRequest: 0x8a,
	cqe.RemoteAccess: 0x88, cqe.TransportRetry: 0x81,
}
