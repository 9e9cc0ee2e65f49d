//go:build linux && (amd64 || arm64)

package request

import (
	"github.com/nicless/nicless/engine/internal/sealer"
	"github.com/nicless/nicless/internal/mapholder"
)

// StartHelpers starts two helper processes. Without the sealer, clients could keep this
// process from serving. Without the holder (package mapholder), clients could keep it from
// ending. An error of the sealer is not returned, because starting the sealer is tried again
// later, and memory that is not sealed stays mapped until then. The error that StartHelpers
// returns is that of the holder, which is needed only when this process ends.
func StartHelpers() error {
	_ = sealer.Start()
	return mapholder.Start()
}
