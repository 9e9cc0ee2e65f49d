package shm

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPublishHead(t *testing.T) {
	b := heap(t, PageSize).Bytes()
	var src, got [64]byte
	for i := range src {
		src[i] = byte(i + 1)
	}
	block := BlockAt(b, 64)
	block.PublishHead(&src)
	assert.Equal(t, make([]byte, 64), b[:64], "bytes before the block")
	assert.Equal(t, src[:], b[64:128])
	assert.Equal(t, make([]byte, 64), b[128:192], "bytes after the block")
	assert.True(t, block.Snapshot(&got, block.Word(0)))
	assert.Equal(t, src, got)
	block.PublishFirst(0x0102030405060709)
	assert.Equal(t, []byte{1, 2, 3, 4, 5, 6, 7, 9, 9, 10}, b[64:74])
	assert.False(t, block.Snapshot(&got, 0x0102030405060708), "the first word has changed")
}

// A block that is overwritten again and again is read whole or not at all.
func TestSnapshotsAreWhole(t *testing.T) {
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("writer and reader need a core each")
	}
	const rounds, enough = 200_000, 1000
	block := BlockAt(heap(t, PageSize).Bytes(), 0)
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		var src [64]byte
		for i := range rounds {
			for k := range src {
				src[k] = byte(i%255 + 1)
			}
			block.PublishHead(&src)
		}
	}()
	whole := 0
	var got [64]byte
	for first := uint64(0); whole < enough || first == 0; first = block.Word(0) {
		if first == 0 || !block.Snapshot(&got, first) {
			continue
		}
		whole++
		for _, b := range got {
			require.Equal(t, got[0], b)
		}
	}
	wg.Wait()
}
