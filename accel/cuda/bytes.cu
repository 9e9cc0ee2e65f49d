/*
 * Posting in the order of RDMaxcel's kernels: a WQE by 48 single bytes, then the record, both by volatile
 * stores. The doorbell is a kernel of its own. bytes_gpu has a record that releases for the GPU only.
 */
#include <stdint.h>

__device__ static void copy(volatile uint8_t *slot, const uint8_t *wqe) {
	for (int i = 0; i < 48; i++)
		slot[i] = wqe[i];
}

extern "C" __global__ void bytes(volatile uint8_t *slot, const uint8_t *wqe, volatile uint32_t *record, uint32_t count) {
	copy(slot, wqe);
	*record = count;
}

extern "C" __global__ void bytes_gpu(volatile uint8_t *slot, const uint8_t *wqe, uint32_t *record, uint32_t count) {
	copy(slot, wqe);
	asm volatile("st.release.gpu.b32 [%0], %1;" ::"l"(record), "r"(count) : "memory");
}

extern "C" __global__ void bytes_sys(volatile uint8_t *slot, const uint8_t *wqe, uint32_t *record, uint32_t count) {
	copy(slot, wqe);
	asm volatile("st.release.sys.b32 [%0], %1;" ::"l"(record), "r"(count) : "memory");
}

extern "C" __global__ void doorbell(volatile uint64_t *reg, const uint64_t *wqe) { *reg = *wqe; }
