package engine

import (
	"fmt"
	"testing"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/explore"
)

// With compressed CQs the fast path has the same results: its sessions, once expanded, are
// byte for byte the completions that the slow path writes, which never compresses. The rows
// are those of the fast path.
func TestCompressedAgrees(t *testing.T) {
	cqsCompressed = true
	defer func() { cqsCompressed, cqsFormat = false, control.MiniHash }()
	for _, format := range []uint8{control.MiniHash, control.MiniChecksumStride}[:explore.Rounds(1, 2)] {
		cqsFormat = format
		t.Run(fmt.Sprintf("format %d", cqsFormat), func(t *testing.T) {
			t.Run("rows", TestFastPathAgrees)
			t.Run("one CQ", TestFastPathAgreesOnOneCQ)
			t.Run("index", TestSeriesAcrossTheEndOfTheIndex)
			t.Run("fault", TestFaultInASeries)
		})
	}
}

// FuzzCompressedAgrees is FuzzFastPathAgrees with compressed CQs.
func FuzzCompressedAgrees(f *testing.F) {
	cqsCompressed = true
	defer func() { cqsCompressed = false }()
	FuzzFastPathAgrees(f)
}
