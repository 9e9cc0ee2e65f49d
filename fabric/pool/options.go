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

// A Config says which pool, and which node of it an engine is to be. Path and Node must be set;
// zero values of all other fields are good defaults.
type Config struct {
	Path   string // memfd (/proc/PID/fd/N), file of tmpfs or hugetlbfs, DAX device, resource of a PCI device
	Node   int    // number of this engine in the pool, from 0; no two may have the same
	Offset uint64 // where the pool begins in the file, in bytes: a multiple of the page size
	Size   uint64 // bytes of the file to use; 0: all. Node 0 makes a file that does not exist, of 64 MiB

	// Node 0 formats the pool with these. The other nodes find them in the pool. If one of them has another
	// value than 0 here, the pool must agree.
	Nodes      int  // 2 to 16; 0 means 8
	Slots      int  // packets in a ring, a power of two; 0 means 512
	Data       int  // bytes for long payloads in a ring; 0: as many as fit, up to 1 MiB
	Incoherent bool // caches of different hosts are not coherent: write back, and invalidate

	MTU  int           // most bytes of payload in a packet; 0 means 16 KiB. Two nodes use the smaller one
	Dead time.Duration // how long a node's heartbeat may stand still; 0 means 2 s, 100 ms are the least
	Wait time.Duration // how long to wait for node 0 to format the pool; 0 means 30 s

	Name      string    // of this engine, for the other nodes' logs: at most 64 bytes
	Addresses []Address // of this engine's ports

	// Management is given packets for QP 1; see nic.PortConfig. It can be nil.
	Management func(from nic.Path, packet []byte)

	// Log gets a line when links come and go. It can be nil.
	Log *slog.Logger
}

// An Address is what other engines call a port of this engine.
type Address struct {
	GID [16]byte // 0: none
	LID uint16   // 0: none
}

// Parse reads what follows "pool:" in a --link option: PATH,node=N, and other options after
// commas. These are the other options, with their defaults:
//
//	coherence=full  none: caches of different hosts are not coherent
//	offset=0        where the pool begins in the file; a multiple of the page size
//	size=0          bytes of the file to use; 0: all. Node 0 makes a file that does not exist, of 64M
//	nodes=8         2 to 16
//	slots=512       packets in a ring, a power of two
//	data=1M         bytes for long payloads in a ring
//	mtu=16384       most bytes of payload in a packet; two nodes use the smaller one
//	dead=2s         how long a node's heartbeat may stand still; 100ms are the least
//	wait=30s        how long to wait for node 0 to format the pool
//
// K, M and G stand for powers of 1024 in offset, size and data. Node 0 formats the pool. If another
// node names nodes, slots, data or coherence=none, the pool must agree. In memory that is too small for
// it, the default of data is less, 16K at least, and that of mtu is at most an eighth of data.
func Parse(s string) (Config, error) {
	path, rest, _ := strings.Cut(s, ",")
	cfg, hasNode := Config{Path: path}, false
	for _, o := range strings.Split(rest, ",") {
		name, value, _ := strings.Cut(o, "=")
		if o == "" {
			continue
		}
		var err error
		switch name {
		case "node":
			hasNode = true
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
			cfg.Incoherent = value == "none"
			if !cfg.Incoherent && value != "full" {
				err = fmt.Errorf("none and full are possible")
			}
		default:
			return cfg, fmt.Errorf("pool: no option %q; node, nodes, coherence, size, offset, slots, data, mtu, dead and wait are options", name)
		}
		if err != nil {
			return cfg, fmt.Errorf("pool: option %q: %w", o, err)
		}
	}
	if path == "" || !hasNode {
		return cfg, fmt.Errorf("pool: %q; a path and a node are needed: pool:PATH,node=N", s)
	}
	return cfg, cfg.check()
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

// Waits returns how long Open waits for node 0 to format the pool: Wait or its default.
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
	case c.Node < 0 || c.Node >= MaxNodes:
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
