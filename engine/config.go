package engine

import (
	"log/slog"

	"github.com/nicless/nicless/fault"
)

// Config says how an engine behaves. The zero value suits most programs.
type Config struct {
	// CPUs lists the cores that the engine's thread may run on. Nil leaves the choice
	// to the kernel.
	CPUs []int

	// Cores lists cores that get one engine thread each. Clients are divided among the
	// threads. Clients that are connected to each other share a thread where possible.
	// Nil means one thread, on the cores in CPUs.
	Cores []int

	// Stay keeps each client on the thread that it was first assigned to.
	Stay bool

	// DMACores lists cores that get one worker each. Workers copy long transfers while
	// the engine's thread serves other queues. The engine's thread stays off these cores.
	// Nil means no workers. Only an engine with one thread can have workers.
	DMACores []int

	// Populate takes all pages of a region from the system when the region is made, off
	// the engine's thread. The pages are charged to the engine's process, so a client in a
	// memory cgroup of its own cannot delay the thread by keeping them swapped out.
	// With Populate, making a region takes 0.5 to 1.5 ms longer for each MiB, and pages
	// that are never used take memory too.
	Populate bool

	// Idle says what Run does while there is no work. Zero means IdleNap.
	Idle Idle

	// PostersStep lets goroutines of this process run steps whenever Run's thread sleeps, and lets this
	// thread sleep as soon as only such goroutines have work for it. Without PostersStep they do so only
	// where the process has one core. It needs IdleNap and at most one of Cores.
	PostersStep bool

	// Burst is the most WQEs taken from one queue in a Step. It is at least 1. Zero means 32.
	Burst int

	// Slice is the most bytes moved for one queue in a Step before the other queues
	// get their turn. It is at least 64. Zero means 65536.
	Slice int

	// Limits bound what one client may take. Zero fields mean the defaults.
	Limits Limits

	// DeviceNames names the devices that clients see, in sysfs, rules of faults and explanations:
	// "mlx5_%d", with the number of the device in place of %d. Names of at most 63 bytes that can be
	// printed and have no / are possible. "" means "nicless%d".
	DeviceNames string

	// GUID identifies the engine, and is the GUID of its first device; see CheckGUID. No other engine that
	// it meets may have the same. 0 means one by chance.
	GUID uint64

	// Faults are rules that the device obeys from the beginning, for all clients; nil: none.
	Faults *fault.Rules

	// Log receives the device's messages about faults and clients. Nil means no messages.
	Log *slog.Logger
}

// Limits bound what one client may take. Zero fields mean the defaults; New refuses
// negative ones.
type Limits struct {
	Regions, PDs, MRs, CQs, QPs, Channels int
	Bytes                                 uint64 // size of all regions together
}

// DefaultLimits are the limits of a Config that sets none.
var DefaultLimits = Limits{
	Regions:  1 << 12,
	PDs:      1 << 12,
	MRs:      1 << 16,
	CQs:      1 << 14,
	QPs:      1 << 14,
	Channels: 1 << 10,
	Bytes:    1 << 40,
}

// Idle says what Run does while there is no work.
type Idle uint8

const (
	// IdleNap spins for a short while, then yields, then sleeps. If all clients with queues
	// wake the device, the first work after a sleep is done in some 40 us. If some do not,
	// the device takes naps, whose length bounds how late work is seen.
	IdleNap Idle = iota
	// IdleSpin never sleeps: the engine takes its core for itself.
	IdleSpin
	// IdleMonitor never sleeps either, but lets the core rest (UMONITOR and UMWAIT) until
	// the send record of the queue that worked last is written, for at most a few
	// microseconds. On processors without WAITPKG it is IdleSpin.
	IdleMonitor
)
