//go:build linux && (amd64 || arm64)

package loop

import (
	"testing"

	"github.com/nicless/nicless/engine/internal/object"
)

// The visit that is prefetched can be at the beginning of the list, and its queue may have neither record
// nor blocks.
func TestPrefetchVisit(t *testing.T) {
	warm := make([]*object.QP, manyWarm)
	for i := range warm {
		warm[i] = new(object.QP)
	}
	for next := range warm {
		prefetchVisit(warm, next)
	}
}
