package shm

import "github.com/klauspost/cpuid/v2"

// usualCache is the largest cache of a processor that does not tell.
const usualCache = 32 << 20

// CacheSize returns how many bytes the largest cache of a core holds, which it may
// share with others.
func CacheSize() int {
	if size := max(cpuid.CPU.Cache.L2, cpuid.CPU.Cache.L3); size > 0 {
		return size
	}
	return usualCache
}
