package nicless

import (
	"fmt"
	"log/slog"

	"github.com/nicless/nicless/engine"
)

// Limits bound what one client may take: regions, their bytes, PDs, MRs, CQs, QPs
// and channels. Zero fields mean the defaults.
//
//	Regions, PDs, MRs, CQs, QPs, Channels int
//	Bytes uint64 // of all regions together
type Limits = engine.Limits

// Config says how an engine behaves. The zero value is right for most.
type Config struct {
	// CPUs lists the cores that the engine's thread may run on. Nil leaves the
	// choice to the kernel.
	CPUs []int

	// Cores lists cores that get a thread of the engine each, in place of CPUs. Clients
	// are divided among the threads. Clients that are connected to each other are put on
	// one thread where that is possible, because only the work between clients of one
	// thread runs in parallel with that of other threads. It is for Serve: with Open there
	// is one client. See docs/TUNING.md.
	Cores []int

	// Stay keeps each client on its first thread.
	Stay bool

	// DMACores lists cores for threads that only copy, for transfers of 256 KiB and more,
	// while the engine goes on with other work. They must not be among CPUs, and cannot be
	// combined with several Cores. Nil means none: the engine copies itself.
	DMACores []int

	// Spin keeps the engine from sleeping while there is no work. The first work after a
	// pause is executed at once, and the engine uses all of its core.
	Spin bool

	// Monitor is Spin with UMWAIT between polls: the core takes less power and leaves more
	// to its hyperthread. The first work on another queue than the last is found a
	// microsecond later. On a processor without WAITPKG the engine spins, and Log says so.
	Monitor bool

	// Populate takes all pages of a region from the system when the region is made, not on
	// the engine's thread, and charges them to the engine. Then a client in a memory cgroup
	// of its own cannot delay the thread by keeping its pages swapped out. Making 1 MiB
	// takes 0.5 to 1.5 ms more, and memory that is never used is taken too.
	Populate bool

	// Limits bound what one client may take. Zero fields mean the defaults.
	Limits Limits

	// VerbsDevices is how many devices Serve shows to programs that use rdma-core, in the
	// directory PATH.verbs beside the socket. 0 means none. Open ignores it.
	VerbsDevices int

	// Log receives what the device reports about faults, on a goroutine of its own. The
	// last reports come when the context is closed, or Serve returns; they are lost if the
	// program ends before, by os.Exit for instance. Nil means no log.
	Log *slog.Logger
}

// Open starts an engine inside this program and returns a client of it. The
// engine ends when the context is closed. For an engine that other processes
// use, see [Serve].
func Open(cfg Config) (*Context, error) {
	if len(cfg.Cores) > 1 {
		return nil, fmt.Errorf("nicless: Open with Cores %v; an engine inside a program has one client, which one thread serves", cfg.Cores)
	}
	dev, err := openEmbedded(cfg)
	if err != nil {
		return nil, err
	}
	return newContext(dev, cfg.Log)
}
