package cpu

import "github.com/klauspost/cpuid/v2"

// Name returns the name that the processor reports, or "this processor" if it reports none.
func Name() string {
	if cpuid.CPU.BrandName != "" {
		return cpuid.CPU.BrandName
	}
	return "this processor"
}

// defaultCache is the size in bytes that is assumed if a processor does not report its
// caches.
const defaultCache = 32 << 20

// CacheSize returns the size in bytes of the largest cache that a core uses, possibly
// together with other cores.
func CacheSize() int {
	if size := max(cpuid.CPU.Cache.L2, cpuid.CPU.Cache.L3); size > 0 {
		return size
	}
	return defaultCache
}
