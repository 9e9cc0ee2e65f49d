//go:build linux && (amd64 || arm64)

package verbs

import (
	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/internal/control"
)

// accessIn returns the rights of a peer that three fields give.
func accessIn(cmd []byte, reads, writes, atomics *devx.Field) (rights uint32) {
	if reads.On(cmd) {
		rights |= control.AccessRemoteRead
	}
	if writes.On(cmd) {
		rights |= control.AccessRemoteWrite
	}
	if atomics.On(cmd) {
		rights |= control.AccessRemoteAtomic
	}
	return rights
}
