package machine

// A multiprocessor has room for so much at a time (CUDA C++ Programming Guide, table "Technical
// Specifications per Compute Capability", 9.0).
const (
	MultiprocessorThreads = 2048
	MultiprocessorBlocks  = 32
	MultiprocessorShared  = 228 << 10 // bytes of shared memory

	reservedShared = 1 << 10 // bytes of it that it keeps for each block
	pieceOfShared  = 128     // bytes: it gives them out in such pieces
)

// multiprocessors is how many of them execute a grid, as many as an H200 has: more than a program may count
// on, so that kernels whose blocks wait for each other end if they do so on such a GPU.
const multiprocessors = 132

// Resident returns how many blocks of so many threads, and with so many bytes of shared memory besides the
// program's own, a multiprocessor has at a time: 0 if there cannot be such blocks.
func (k *Kernel) Resident(threads int, shared uint64) int {
	own := uint64(k.prog.shared)
	if threads < 1 || int64(threads) > k.MaxThreads() || own > maxShared || shared > maxShared-own {
		return 0
	}
	warps := (threads + Lanes - 1) / Lanes
	bytes := (own+shared+pieceOfShared-1)/pieceOfShared*pieceOfShared + reservedShared
	return min(MultiprocessorBlocks, MultiprocessorThreads/(warps*Lanes), int(MultiprocessorShared/bytes))
}
