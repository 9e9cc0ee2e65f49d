package cpu

// CanFlushLines reports whether WriteBackLines and InvalidateLines work on this machine. On
// amd64 they always do.
func CanFlushLines() bool { return true }

// Features of CPUID leaf 7, ebx.
var (
	hasCLFLUSHOPT = structuredFeatures()&(1<<23) != 0
	hasCLWB       = structuredFeatures()&(1<<24) != 0
)

// writeBack uses CLWB and SFENCE. If there is no CLWB, it drops the lines too.
func writeBack(p *byte, n uint64) {
	if hasCLWB {
		clwb(p, n)
	} else {
		invalidate(p, n)
	}
}

// invalidate uses CLFLUSHOPT or CLFLUSH between two MFENCEs.
func invalidate(p *byte, n uint64) {
	if hasCLFLUSHOPT {
		clflushopt(p, n)
	} else {
		clflush(p, n)
	}
}

// The functions in assembly work on n lines, at least one, from p on.

//go:noescape
func clwb(p *byte, n uint64)

//go:noescape
func clflushopt(p *byte, n uint64)

//go:noescape
func clflush(p *byte, n uint64)

// structuredFeatures returns ebx of CPUID leaf 7, or 0 if the processor does not have this leaf.
func structuredFeatures() uint32
