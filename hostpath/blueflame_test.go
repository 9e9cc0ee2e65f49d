package hostpath

import (
	"testing"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// A queue with its own BlueFlame register writes each WQE of one block into the register,
// alternately into its two halves. For several WQEs, or for a longer WQE, it writes a
// doorbell with ds 0. Ring and record have the same bytes as without the register.
func TestBlueFlame(t *testing.T) {
	var halves [2]*shm.Block
	r, err := shm.Heap(4096)
	require.NoError(t, err)
	mem := r.Bytes()
	for i := range halves {
		halves[i] = shm.BlockAt(mem, uint64(i)*doorbell.BFHalf)
		halves[i].PublishFirst(77) // left by the previous user
	}
	b := newBench(t, 16, func(c *SQConfig) { c.BlueFlame = mem[:doorbell.BFRegSize] })
	require.Equal(t, make([]byte, doorbell.BFRegSize), mem[:doorbell.BFRegSize], "cleared")
	write := &SendWR{Op: OpWrite, SGE: []SGE{{Addr: 0x1000, LKey: 0x1234, Length: 8}}, RemoteAddr: 0x2000, RKey: 0x5678}
	for i := range 3 {
		require.NoError(t, b.sq.Post(write))
		b.sq.Ring()
		half := halves[i%2]
		require.Equal(t, b.sq.ring[i*wqe.BlockSize:][:wqe.BlockSize], half[:])
		require.Equal(t, uint32(i+1), shm.BE32At(b.record, 4*doorbell.SendWord).Observe())
	}
	was := *halves[0]
	b.sq.Ring() // nothing was posted
	require.Equal(t, was, *halves[0])

	doorbellIn := func(half int, end uint16) {
		t.Helper()
		require.Equal(t, doorbell.MakeRing(end, benchQPN), doorbell.ParseRing((*[8]byte)(halves[half][:8])))
		require.Equal(t, uint32(end), shm.BE32At(b.record, 4*doorbell.SendWord).Observe())
	}
	_, err = b.sq.PostList([]SendWR{*write, *write})
	require.NoError(t, err)
	doorbellIn(1, 5)
	require.NoError(t, b.sq.Post(&SendWR{Op: OpWrite, Data: make([]byte, 60), RemoteAddr: 0x2000, RKey: 0x5678}))
	b.sq.Ring()
	doorbellIn(0, 7)
	require.Equal(t, make([]byte, len(b.uar)), b.uar, "the register that queues share")

	b.sq.Reset()
	for _, half := range halves {
		require.Zero(t, half.Word(0))
	}
}

func TestHalfAFlame(t *testing.T) {
	m := newMemory(t, 4096)
	_, err := NewSQ(SQConfig{Ring: m.take(256), Record: m.take(8), MaxSGE: 1, BlueFlame: m.take(doorbell.BFHalf)})
	require.EqualError(t, err, "hostpath: BlueFlame register of 256 bytes; 512 are needed")
}
