package shm

import "encoding/binary"

// PublishLines copies the blocks of src to every stride-th block of dst, in order, with as few
// stores as possible: while the lines of dst come from another core, each store waits in the processor's
// store buffer, and only what is in the buffer is fetched ahead. The first eight bytes of a block become
// visible after the rest of it. dst has room for all.
func PublishLines(dst []Block, stride int, src []Block) {
	if len(src) == 0 {
		return
	}
	_ = dst[(len(src)-1)*stride]
	if wideLines {
		publishLines(&dst[0], &src[0], uint64(len(src)), uint64(stride*blockSize))
		return
	}
	for i := range src {
		to := &dst[i*stride]
		*(*[blockSize - 8]byte)(to[8:]) = [blockSize - 8]byte(src[i][8:])
		to.PublishFirst(binary.BigEndian.Uint64(src[i][:]))
	}
}
