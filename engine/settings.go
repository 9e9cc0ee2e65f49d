//go:build linux && (amd64 || arm64)

package engine

// settings are what a device keeps of its configuration; engine.Config explains each. None is 0
// unless 0 has a meaning.
type settings struct {
	cpus, cores  []int
	stay         bool
	dmaCores     []int
	populate     bool
	idle         idle
	burst, slice int
	limits       limits
}

// limits bound what one client may take.
type limits struct {
	Regions, PDs, MRs, CQs, QPs, Channels int
	Bytes                                 uint64 // size of all regions together
}

// An idle says what a thread does while there is no work. Its values are those of engine.Idle.
type idle uint8

const (
	idleNap idle = iota
	idleSpin
	idleMonitor
)
