package cpu

// CanFlushLines reports whether WriteBackLines and InvalidateLines work on this machine: no
// line of its caches is longer than LineSize. Linux lets programs flush lines.
func CanFlushLines() bool { return dataLine() <= LineSize }

// step is how far the lines of the caches are apart in memory, in bytes.
var step = min(dataLine(), LineSize)

// writeBack uses DC CVAC and DSB SY.
func writeBack(p *byte, n uint64) { dcCVAC(p, n*(LineSize/step), step) }

// invalidate uses DC CIVAC between two DSB SY.
func invalidate(p *byte, n uint64) { dcCIVAC(p, n*(LineSize/step), step) }

// The functions in assembly work on the byte at p, on the one step bytes behind it, and so on:
// on n bytes, at least one.

//go:noescape
func dcCVAC(p *byte, n, step uint64)

//go:noescape
func dcCIVAC(p *byte, n, step uint64)

// dataLine returns the size in bytes of the smallest line of all data caches (CTR_EL0, DminLine).
func dataLine() uint64
