//go:build linux && (amd64 || arm64)

package roce

import (
	"log/slog"
	"net/netip"
	"runtime"
	"time"

	"github.com/nicless/nicless/fabric/auth"
	"github.com/nicless/nicless/internal/packetring"
)

// Config says how a carrier works. The zero value works.
type Config struct {
	// Name is the name of the port, for the log and for explanations. Empty means "roce".
	Name string

	// Allowed lists the remote addresses with which the carrier exchanges packets. Nil means
	// all addresses. Packets from others are dropped and counted.
	Allowed []netip.Prefix

	// ECT marks sent packets as capable of ECN: ECT(0). If it is false, they are Not-ECT.
	ECT bool

	// Send and Receive are the sizes of the rings. The zero value means 512 packets and 1 MiB.
	Send, Receive packetring.Geometry

	// Window is how many bytes of payload a queue pair may have on the way. 0 means a quarter of
	// the receive buffer that the kernel gives, at least 64 KiB and at most 1 MiB. On paths with
	// round trips of 2 ms and more between two engines, WRITEs and SENDs begin with so many, and
	// may have up to 8191 packets on the way.
	Window int

	// Strangers is how many remote addresses are remembered although no path to them was
	// requested. 0 means 1024, which is also the most.
	Strangers int

	// SourcePorts is how many sockets each local address has for sending. A remote address
	// always gets its packets from the same one. Networks with several links choose among the
	// links by the source port. 0 means 2; at most 64.
	SourcePorts int

	// Threads is 1 if one goroutine sends and receives, or 2 for one goroutine each. 0 means 2
	// if there are at least four processors, and 1 otherwise.
	Threads int

	// Spin is how long a goroutine looks for work before it sleeps. 0 means 20 µs, or no time
	// if there are less than four processors. Below 0 means no time.
	Spin time.Duration

	// Auth authenticates the packets. Nil means that they are not authenticated.
	Auth *auth.Party

	// Management is given the packets for QP 1; see nic.PortConfig.
	Management func(path uint32, packet []byte)

	// Log gets changes, and errors that occur for the first time. Nil means no log.
	Log *slog.Logger

	unscreened bool // tests of packet_check.go: the kernel lets everything through

	// How often the network devices are looked at; 0: lookEvery. Tests make it shorter.
	lookEvery time.Duration

	// Tests that change what a look would change back have no notifications of the kernel.
	deaf bool
}

const (
	defaultName        = "roce"
	defaultSlots       = 512
	defaultData        = 1 << 20
	defaultSpin        = 20 * time.Microsecond
	defaultSourcePorts = 2
	maxSourcePorts     = 64
	maxStrangers       = tableSize / 4

	minWindow = 64 << 10
	maxWindow = 1 << 20

	// enough is how many processors it takes before sender and receiver get a goroutine each,
	// and spin. The engine's thread and the program need a processor too.
	enough = 4
)

// withDefaults returns the configuration with all zero values replaced.
func (c Config) withDefaults() Config {
	for _, g := range []*packetring.Geometry{&c.Send, &c.Receive} {
		if *g == (packetring.Geometry{}) {
			*g = packetring.Geometry{Slots: defaultSlots, Data: defaultData}
		}
	}
	if c.Name == "" {
		c.Name = defaultName
	}
	if c.Strangers <= 0 || c.Strangers > maxStrangers {
		c.Strangers = maxStrangers
	}
	if c.SourcePorts <= 0 {
		c.SourcePorts = defaultSourcePorts
	}
	c.SourcePorts = min(c.SourcePorts, maxSourcePorts)
	processors := min(runtime.NumCPU(), runtime.GOMAXPROCS(0))
	if c.Threads != 1 && c.Threads != 2 {
		c.Threads = 1
		if processors >= enough {
			c.Threads = 2
		}
	}
	if c.Spin == 0 && processors >= enough {
		c.Spin = defaultSpin
	}
	c.Spin = max(c.Spin, 0)
	if c.lookEvery == 0 {
		c.lookEvery = lookEvery
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// defaultWindow is the window if the receive buffer of a peer holds as many bytes as ours. The
// kernel charges a datagram with about twice its size, so half of the buffer is for payload. A
// window takes half of that, so that two queue pairs that send at full speed to one address
// lose no packet.
func defaultWindow(receiveBuffer int) int {
	return min(max(receiveBuffer/4, minWindow), maxWindow)
}
