package clock

// monotonic says that the TSC cannot be a clock here, because it would stop or
// change its pace with the core.
var monotonic = !invariantTSC()

// Now returns the counter. Differences wrap correctly as uint64; two threads
// may see it a few cycles apart, so compare across threads with care.
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

// statedHz returns 0: leaf 0x15 is empty or rounded on many machines, and
// measuring is as good.
func statedHz() uint64 { return 0 }
