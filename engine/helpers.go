//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/engine/internal/sealer"
	"github.com/nicless/nicless/internal/mapholder"
)

// startHelpers starts the two processes without which clients could keep this one from
// serving, or from ending. A sealer that is missing is tried again, and memory that is
// not sealed stays mapped; the error is of the holder, which is missed only at the end.
func startHelpers() error {
	_ = sealer.Start()
	return mapholder.Start()
}
