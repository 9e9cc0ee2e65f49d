//go:build linux && (amd64 || arm64)

package netdev

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nicless/nicless/fabric/pool"
	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/internal/shm"
)

// A SlotsConfig says where interfaces share slots. All interfaces that share them must have the same values,
// but for Node. Path must be set; zero values of all other fields are good defaults.
type SlotsConfig struct {
	Path   string // file of tmpfs or hugetlbfs, DAX device, resource file of a PCI device
	Offset uint64 // where the slots begin in the file, in bytes: a multiple of the page size
	Size   uint64 // bytes of the file to use; 0: all. A file that does not exist is made, of 64 MiB
	// Number of this interface among those that share the slots, from 0; no two may have the same.
	Node       int
	Nodes      int  // 2 to 16; 0 means 8
	Incoherent bool // caches of different hosts are not coherent: write back, and invalidate
}

const (
	leastAreas, defaultAreas = 2, 8
	newFile                  = 64 << 20
)

// ParseSlots reads the argument of --slots: PATH,node=N, and other options after commas. These are the other
// options, with their defaults:
//
//	nodes=8         2 to 16
//	coherence=full  none: caches of different hosts are not coherent
//	offset=0        where the slots begin in the file; a multiple of the page size
//	size=0          bytes of the file to use; 0: all. A file that does not exist is made, of 64M
//
// K, M and G stand for powers of 1024.
func ParseSlots(s string) (c SlotsConfig, err error) {
	path, rest, _ := strings.Cut(s, ",")
	c.Path, c.Nodes, c.Node = path, defaultAreas, -1
	for _, o := range strings.Split(rest, ",") {
		name, value, _ := strings.Cut(o, "=")
		switch name {
		case "":
		case "node":
			c.Node, err = number(value)
		case "nodes":
			c.Nodes, err = number(value)
		case "offset":
			c.Offset, err = pool.ParseSize(value)
		case "size":
			c.Size, err = pool.ParseSize(value)
		case "coherence":
			c.Incoherent = value == "none"
			if !c.Incoherent && value != "full" {
				err = errors.New("none and full are possible")
			}
		default:
			err = errors.New("node, nodes, coherence, offset and size are options")
		}
		if err != nil {
			return c, fmt.Errorf("slots: option %q: %w", o, err)
		}
	}
	switch {
	case c.Path == "" || c.Node == -1:
		return c, fmt.Errorf("slots: %q; a path and a node are needed: PATH,node=N", s)
	case c.Nodes < leastAreas || c.Nodes > maxAreas:
		return c, fmt.Errorf("slots: %d nodes; %d to %d are possible", c.Nodes, leastAreas, maxAreas)
	case c.Node < 0 || c.Node >= c.Nodes:
		return c, fmt.Errorf("slots: node %d of %d; 0 to %d are possible", c.Node, c.Nodes, c.Nodes-1)
	}
	return c, nil
}

func number(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, errors.New("a number is needed")
	}
	return n, nil
}

// Slots are mapped memory that several interfaces share.
type Slots struct {
	region     *shm.Region
	areas, own int
	incoherent bool
}

// OpenSlots maps the memory. Close it after the Interface that uses it.
func OpenSlots(c SlotsConfig) (*Slots, error) {
	if c.Incoherent && !cpu.CanFlushLines() {
		return nil, errors.New("slots: coherence=none: this processor cannot write back cache lines")
	}
	m := pool.Memory{Path: c.Path, Offset: c.Offset, Size: c.Size, Make: cmp.Or(c.Size, newFile)}
	r, err := m.Map()
	if err != nil {
		return nil, fmt.Errorf("slots: %w", err)
	}
	s := &Slots{region: r, areas: c.Nodes, own: c.Node, incoherent: c.Incoherent}
	if c.Nodes == 0 {
		s.areas = defaultAreas
	}
	if _, err := newSlots(r, s.areas, s.own, s.incoherent); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return s, nil
}

// Close unmaps the memory.
func (s *Slots) Close() error { return s.region.Close() }
