package cpu

// CanPrefetchWrite reports whether PrefetchWrite has an effect. It is CPUID leaf 0x80000001,
// ecx bit 8, PREFETCHW.
var CanPrefetchWrite = extendedFeatures()&(1<<8) != 0

// extendedFeatures returns ecx of CPUID leaf 0x80000001, which all 64-bit processors have.
func extendedFeatures() uint32
