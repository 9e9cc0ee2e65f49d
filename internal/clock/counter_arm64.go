package clock

// monotonic is never needed: the generic timer has one rate by definition.
const monotonic = false

// Now returns the counter. Differences wrap correctly as uint64; two threads
// may see it a few cycles apart, so compare across threads with care.
//
// Safe for concurrent use; it neither allocates nor locks.
//
//go:noescape
func Now() uint64

// statedHz reads CNTFRQ_EL0, which firmware sets; 0 where it forgot.
//
//go:noescape
func statedHz() uint64
