package pool

import (
	"fmt"

	"github.com/nicless/nicless/internal/packetring"
)

// Defaults for a pool that node 0 formats.
const (
	defaultNodes = 8
	defaultSlots = 512
	defaultSize  = 64 << 20
	mostData     = 1 << 20
	leastData    = 16 << 10
	defaultMTU   = 16 << 10
)

// plan divides memory of this many bytes. plan chooses what cfg leaves open: many slots, and as
// much data area as fits, up to mostData.
func plan(cfg *Config, memory uint64) (header, error) {
	h := header{
		nodes: cfg.Nodes, incoherent: cfg.Incoherent,
		ring: packetring.Geometry{Slots: cfg.Slots, Data: cfg.Data},
	}
	if h.nodes == 0 {
		h.nodes = max(defaultNodes, cfg.Node+1)
	}
	if h.ring.Slots == 0 {
		h.ring.Slots = defaultSlots
	}
	if cfg.Data == 0 {
		for h.ring.Data = mostData; h.ring.Data > leastData && h.needs() > memory; {
			h.ring.Data /= 2
		}
	}
	h.mtu = cfg.MTU
	if h.mtu == 0 {
		h.mtu = min(defaultMTU, h.ring.Data/8&^3)
	}
	h.size, h.identity = h.needs(), 1
	if h.size > memory {
		return h, fmt.Errorf("%d bytes are too few for %d nodes with rings of %d slots and %d bytes of data: %d are needed; give it more (size=), or less to hold (nodes=, slots=, data=)",
			memory, h.nodes, h.ring.Slots, h.ring.Data, h.size)
	}
	return h, h.check(memory)
}

// needs returns how many bytes the pool takes.
func (h *header) needs() uint64 { return ringsAt + uint64(h.rings())*h.stride() }

// suits returns an error if a pool that is formatted already is not what cfg asks for.
func (h *header) suits(cfg *Config) error {
	differs := func(what string, has, want int) error {
		return fmt.Errorf("it has %s=%d, and %s=%d is asked for", what, has, what, want)
	}
	switch {
	case cfg.Node >= h.nodes:
		return fmt.Errorf("it has %d nodes, 0 to %d, and this is to be node %d", h.nodes, h.nodes-1, cfg.Node)
	case cfg.Nodes != 0 && cfg.Nodes != h.nodes:
		return differs("nodes", h.nodes, cfg.Nodes)
	case cfg.Slots != 0 && cfg.Slots != h.ring.Slots:
		return differs("slots", h.ring.Slots, cfg.Slots)
	case cfg.Data != 0 && cfg.Data != h.ring.Data:
		return differs("data", h.ring.Data, cfg.Data)
	case cfg.Incoherent && !h.incoherent:
		return fmt.Errorf("it was formatted for hosts with coherent caches: node 0 needs coherence=none too")
	}
	return nil
}
