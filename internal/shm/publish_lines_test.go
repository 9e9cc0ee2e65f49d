package shm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// PublishLines writes all bytes of its blocks, and no others.
func TestPublishLines(t *testing.T) {
	was := wideLines
	defer func() { wideLines = was }()
	for _, wide := range []bool{false, was} {
		wideLines = wide
		for n := range 5 {
			dst, src := Blocks(heap(t, PageSize).Bytes())[:9], make([]Block, n)
			for i := range dst {
				for j := range dst[i] {
					dst[i][j] = 0xa5
				}
			}
			for i := range src {
				for j := range src[i] {
					src[i][j] = byte(i*64 + j)
				}
			}
			PublishLines(dst, 2, src)
			for i := range dst {
				if i%2 == 0 && i/2 < n {
					require.Equal(t, src[i/2], dst[i])
				} else {
					require.Equal(t, byte(0xa5), dst[i][0])
					require.Equal(t, byte(0xa5), dst[i][63])
				}
			}
		}
	}
}
