//go:build linux && (amd64 || arm64)

// Package umr plans what a UMR, a work request that changes a memory key, does to the key, and says in words
// why it cannot.
package umr

import (
	"fmt"

	"github.com/nicless/nicless/wqe"
)

// The mask of a UMR has a bit for each field that the UMR changes. The device acts on the bits changes.
// A UMR with MaskLocalRead must allow local reading, which this device never forbids. The device ignores
// the bit harmless, which asks for a fence: the reads of this device need no fence before them. The other
// bits name things that hardware can change and that this device does not have.
const (
	changes = wqe.MaskLen | wqe.MaskStartAddr | wqe.MaskMkey | wqe.MaskQPN | wqe.MaskFree |
		wqe.MaskLocalRead | wqe.MaskLocalWrite | wqe.MaskRemoteRead | wqe.MaskRemoteWrite | wqe.MaskAtomic
	harmless = wqe.MaskSmallFence
)

// Unchangeable returns a name for what mask asks to change and this device cannot change. If the device can
// change everything in mask, Unchangeable returns an empty string.
func Unchangeable(mask uint64) (what string) {
	mask &^= changes | harmless
	switch mask {
	case 0:
		return ""
	case wqe.MaskPageSize:
		return "the page size"
	case wqe.MaskPD:
		return "the protection domain"
	case wqe.MaskRemoteInval:
		return "remote invalidation"
	case wqe.MaskSigErrCount:
		return "the count of signature errors"
	case wqe.MaskBSFEnable:
		return "signatures (bsf)"
	}
	return fmt.Sprintf("bits %#x", mask)
}

// Within returns which of the n bytes at addr are among the size bytes at base: how many others are before
// them, and how many they are. If there are none, both results are 0.
func Within(addr, n, base, size uint64) (before, within uint64) {
	if n == 0 || size == 0 {
		return 0, 0
	}
	first, last := max(addr, base), min(base+size-1, addr+n-1)
	if addr+n-1 < addr { // the bytes go around the address space
		last = base + size - 1
	}
	if first > last {
		return 0, 0
	}
	return first - addr, last - first + 1
}

// TooLong says that a key of size bytes is longer than the entries of its list, which have
// overflow<<64 + total bytes. rdma-core before 61 adds up the entries of mlx5dv_wr_mr_list in an int, so that
// a sum with bit 31 set becomes a number near 2^64.
func TooLong(size, overflow, total uint64) (why string) {
	const longer = "it is longer than the entries of its list together: it has %d bytes, they have %d"
	why = fmt.Sprintf(longer, size, total)
	switch {
	case overflow != 0:
		return "the entries of its list together have more than 2^64 bytes"
	case size == uint64(int64(int32(total))):
		return why + ", which rdma-core before 61 adds up in an int: bind lists below 2 GiB, or use a newer one"
	}
	return why
}
