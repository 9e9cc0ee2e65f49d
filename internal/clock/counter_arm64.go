package clock

// monotonic is false: the monotonic clock is not needed in place of the counter, because
// the rate of the generic timer is constant by definition.
const monotonic = false

// Now returns the counter. Differences of two readings wrap correctly as uint64. Readings of
// two threads at the same moment may differ by a few cycles, so compare them with care.
//
// Safe for concurrent use; it neither allocates nor locks.
//
//go:noescape
func Now() uint64

// statedHz returns CNTFRQ_EL0, which the firmware should set. It returns 0 if the firmware
// did not.
//
//go:noescape
func statedHz() uint64
