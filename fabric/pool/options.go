package pool

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/packetring"
)

// A Config says which pool, and which node of it an engine is to be. Path must be set; zero values of all
// other fields are good defaults, and Node 0 is node 0.
type Config struct {
	Path   string // memfd (/proc/PID/fd/N), file of tmpfs or hugetlbfs, DAX device, resource of a PCI device
	Node   int    // number of this engine in the pool, from 0; no two may have the same. AnyNode: a free one
	Offset uint64 // where the pool begins in the file, in bytes: a multiple of the page size
	Size   uint64 // bytes of the file to use; 0: all. The first node makes a file of 64 MiB if there is none

	// The node that formats the pool, node 0 or one of AnyNode, does it with these. The other nodes find
	// them in the pool. If one of them has another value than 0 here, the pool must agree.
	Nodes      int  // 2 to 1,024; 0 means one for each 4 MiB, 16 at least
	Slots      int  // packets in a ring, a power of two; 0 means 64, which grow to 512
	Data       int  // bytes for long payloads in a ring; 0 means 48 KiB, or less, which grow to 1 MiB
	Incoherent bool // caches of different hosts are not coherent: write back, and invalidate
	Coherent   bool // the hardware keeps caches of different hosts coherent. If neither, nodes have one host
	Sums       Sums // whether packets carry check sums

	MTU  int           // most bytes of payload in a packet; 0 means 16 KiB. Two nodes use the smaller one
	Dead time.Duration // how long a node's heartbeat may stand still; 0 means 2 s, 100 ms are the least
	Wait time.Duration // how long to wait until the pool is formatted; 0 means 30 s

	Name      string    // of this engine, for the other nodes' logs: at most 64 bytes
	Addresses []Address // of this engine's ports

	// Management is given packets for QP 1; see nic.PortConfig. It can be nil.
	Management func(from nic.Path, packet []byte)

	// Log gets a line when links come and go. It can be nil.
	Log *slog.Logger
}

// Sums says whether packets in a pool carry check sums, so that bytes that are stale, lost or wrong for
// another reason are never taken for data.
type Sums uint8

// Values of Sums.
const (
	SumsByCoherence Sums = iota // with Config.Incoherent only
	SumsOn
	SumsOff
)

// An Address is what other engines call a port of this engine.
type Address struct {
	GID [16]byte // 0: none
	LID uint16   // 0: none
}

// Parse reads what follows "pool:" in a --link option: PATH, and options after commas. These are the options,
// with their defaults:
//
//	node            number of this engine; without it, a free one is taken
//	coherence=host  host: all nodes are on one host. full: the hardware keeps caches of different hosts
//	                coherent. none: it does not
//	sums=off        on: packets carry check sums, so stale or lost memory is never taken for data. They do
//	                by default where caches are not coherent. A pool that is there stays as it is: without
//	                check sums if an older release has formatted it
//	offset=0        where the pool begins in the file; a multiple of the page size
//	size=0          bytes of the file to use; 0: all. The first node makes a file of 64M if there is none
//	nodes=0         2 to 1024; 0: one for each 4 MiB of the pool, 16 at least
//	slots=64        packets in a new ring, a power of two
//	data=48K        bytes for long payloads in a new ring
//	mtu=16384       most bytes of payload in a packet; two nodes use the smaller one
//	dead=2s         how long a node's heartbeat may stand still; 100ms are the least
//	wait=30s        how long to wait until the pool is formatted
//
// K, M and G stand for powers of 1024 in offset, size and data. Node 0, or the first engine without a
// number, formats the pool. If another node names nodes, slots, data, sums or coherence=none, the pool
// must agree. Rings that are full grow to 512 slots and 1 MiB. In memory that is too small for it, the
// default of data is less, 4K at least, and that of mtu is at most a third of data.
func Parse(s string) (Config, error) {
	path, rest, _ := strings.Cut(s, ",")
	cfg := Config{Path: path, Node: AnyNode}
	for _, o := range strings.Split(rest, ",") {
		name, value, _ := strings.Cut(o, "=")
		if o == "" {
			continue
		}
		var err error
		switch name {
		case "node":
			err = number(value, &cfg.Node)
		case "nodes":
			err = number(value, &cfg.Nodes)
		case "slots":
			err = number(value, &cfg.Slots)
		case "mtu":
			err = number(value, &cfg.MTU)
		case "data":
			var n uint64
			n, err = ParseSize(value)
			cfg.Data = int(min(n, math.MaxInt64))
		case "size":
			cfg.Size, err = ParseSize(value)
		case "offset":
			cfg.Offset, err = ParseSize(value)
		case "dead":
			cfg.Dead, err = time.ParseDuration(value)
		case "wait":
			cfg.Wait, err = time.ParseDuration(value)
		case "coherence":
			cfg.Incoherent, cfg.Coherent = value == "none", value == "full"
			if !cfg.Incoherent && !cfg.Coherent && value != "host" {
				err = fmt.Errorf("host, full and none are possible")
			}
		case "sums":
			cfg.Sums, err = parseSums(value)
		default:
			return cfg, fmt.Errorf("pool: no option %q; node, nodes, coherence, sums, size, offset, slots, data, mtu, dead and wait are options", name)
		}
		if err != nil {
			return cfg, fmt.Errorf("pool: option %q: %w", o, err)
		}
	}
	if path == "" {
		return cfg, fmt.Errorf("pool: %q; a path is needed: pool:PATH", s)
	}
	return cfg, cfg.check()
}

func parseSums(s string) (Sums, error) {
	switch s {
	case "on":
		return SumsOn, nil
	case "off":
		return SumsOff, nil
	}
	return SumsByCoherence, fmt.Errorf("on and off are possible")
}

func number(s string, to *int) error {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return fmt.Errorf("a number is needed")
	}
	*to = int(n)
	return nil
}

// ParseSize reads a number of bytes. K, M and G at its end stand for powers of 1024.
func ParseSize(s string) (uint64, error) {
	digits, shift := s, 0
	if len(s) > 0 {
		if shift = 10 * (1 + strings.IndexByte("KMG", s[len(s)-1]&^0x20)); shift > 0 {
			digits = s[:len(s)-1]
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63-shift)
	if err != nil {
		return 0, fmt.Errorf("a number of bytes is needed, such as 64M")
	}
	return n << shift, nil
}

// Waits returns how long Open waits until the pool is formatted: Wait or its default.
func (c *Config) Waits() time.Duration { return cmp.Or(c.Wait, defaultWait) }

// withDefaults returns the configuration with those zero values replaced that do not depend on the
// memory.
func (c Config) withDefaults() Config {
	if c.Dead == 0 {
		c.Dead = defaultDead
	}
	c.Wait = c.Waits()
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// check returns an error if a field has an impossible value.
func (c *Config) check() error {
	switch {
	case c.Node < AnyNode || c.Node >= MaxNodes:
		return fmt.Errorf("pool: node %d; 0 to %d are possible", c.Node, MaxNodes-1)
	case c.Nodes != 0 && (c.Nodes < MinNodes || c.Nodes > MaxNodes):
		return fmt.Errorf("pool: %d nodes; %d to %d are possible", c.Nodes, MinNodes, MaxNodes)
	case c.Nodes != 0 && c.Node >= c.Nodes:
		return fmt.Errorf("pool: node %d of %d; 0 to %d are possible", c.Node, c.Nodes, c.Nodes-1)
	case c.MTU != 0 && (c.MTU < MinMTU || c.MTU > packetring.MaxPayload-headroom || c.MTU%4 != 0):
		return fmt.Errorf("pool: MTU %d; a multiple of 4 from %d to %d is possible", c.MTU, MinMTU, (packetring.MaxPayload-headroom)&^3)
	case c.Dead != 0 && c.Dead < leastDead:
		return fmt.Errorf("pool: dead=%v; %v is the least", c.Dead, leastDead)
	case c.Wait < 0:
		return fmt.Errorf("pool: wait=%v", c.Wait)
	case len(c.Name) > nameSize:
		return fmt.Errorf("pool: a name of %d bytes; at most %d are possible", len(c.Name), nameSize)
	case len(c.Addresses) > MaxAddresses:
		return fmt.Errorf("pool: %d addresses; at most %d are possible", len(c.Addresses), MaxAddresses)
	}
	g := packetring.Geometry{Slots: c.Slots, Data: c.Data}
	if g.Slots == 0 {
		g.Slots = defaultSlots
	}
	if err := g.Check(); err != nil {
		return fmt.Errorf("pool: %w", err)
	}
	return nil
}
