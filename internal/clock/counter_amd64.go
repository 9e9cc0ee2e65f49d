package clock

// monotonic is true if the monotonic clock is used in place of the TSC: on processors whose TSC
// may stop, or change its rate with the core's frequency.
var monotonic = !invariantTSC()

// Now returns the counter. Differences of two readings wrap correctly as uint64. Readings of
// two threads at the same moment may differ by a few cycles, so compare them with care.
//
// Safe for concurrent use; it neither allocates nor locks.
//
//go:noescape
func Now() uint64

// invariantTSC reports CPUID leaf 0x80000007, edx bit 8: the TSC runs at one
// rate in all power states (Intel SDM volume 3, "Invariant TSC"; AMD APM
// volume 3, "TscInvariant").
//
//go:noescape
func invariantTSC() bool

// statedHz returns 0, which means that the rate must be measured. The rate in CPUID leaf 0x15
// is not used: on many machines it is missing or rounded, and a measurement is as good.
func statedHz() uint64 { return 0 }
