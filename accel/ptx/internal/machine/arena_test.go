package machine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Memory begins at a multiple of its alignment, also of one larger than a page, and of a chunk's.
func TestArenaAligns(t *testing.T) {
	var a Arena
	defer func() { require.NoError(t, a.Close()) }()
	for range 3 {
		for align := int64(1); align <= 1<<24; align *= 4 {
			address, b, err := a.Allocate(3, align)
			require.NoError(t, err)
			require.Zero(t, address%uint64(align), "alignment %d", align)
			require.Len(t, b, 3)
		}
	}
}
