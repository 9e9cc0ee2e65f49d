//go:build linux && (amd64 || arm64)

package object

// Settings are what a device keeps of its configuration; engine.Config explains each. None is 0
// unless 0 has a meaning.
type Settings struct {
	CPUs, Cores    []int
	Names          string // nic.Names: of the devices that clients see
	DMACores       []int
	Stay, Populate bool
	PostersStep    bool // callers may run steps whenever the thread sleeps
	Idle           Idle
	Burst, Slice   int
	Limits         Limits
}

// Limits bound what one client may take.
type Limits struct {
	Regions, PDs, MRs, CQs, QPs, Channels int
	Bytes                                 uint64 // size of all regions together
}

// An Idle says what a thread does while there is no work. Its values are those of engine.Idle.
type Idle uint8

const (
	IdleNap Idle = iota
	IdleSpin
	IdleMonitor
)
