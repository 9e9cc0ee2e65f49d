package pool

import (
	"cmp"
	"fmt"

	"github.com/nicless/nicless/internal/packetring"
)

// Defaults for a pool that is formatted. A ring begins with 64 slots and 48 KiB, 56 KiB together, so that a
// part of 1 MiB has room for rings to 16 other nodes and the node's own pages. A ring that is full grows by
// four, up to 512 slots and 1 MiB: more brings nothing, because the data no longer fits into a core's
// cache.
const (
	defaultSize  = 64 << 20
	defaultPart  = 4 << 20 // one node for each 4 MiB of the memory
	leastDefault = 16      // nodes
	defaultSlots = 64
	defaultData  = 48 << 10
	leastData    = 4 << 10
	mostSlots    = 512
	mostData     = 1 << 20
	defaultMTU   = 16 << 10
)

// plan divides memory of this many bytes. plan chooses what cfg leaves open: a node for each 4 MiB, and a
// data area that lets rings to all other nodes, or to 16 of them, fit into a part.
func plan(cfg *Config, memory uint64) (header, error) {
	h := header{
		nodes: cfg.Nodes, incoherent: cfg.Incoherent, coherent: cfg.Coherent, identity: 1, size: memory,
		sums: cfg.Sums == SumsOn || cfg.Sums == SumsByCoherence && cfg.Incoherent,
		ring: packetring.Geometry{Slots: cmp.Or(cfg.Slots, defaultSlots), Data: cfg.Data},
	}
	if h.nodes == 0 {
		h.nodes = int(min(max(memory/defaultPart, leastDefault, uint64(max(cfg.Node, 0)+1)), MaxNodes))
	}
	if cfg.Data == 0 {
		for h.ring.Data = defaultData; h.ring.Data > leastData && h.room() < min(h.nodes-1, 16); {
			h.ring.Data = h.ring.Data / 2 &^ (line - 1)
		}
	}
	h.mtu = cmp.Or(cfg.MTU, min(defaultMTU, h.ring.Data/3&^3))
	h.size = partsAt + uint64(h.nodes)*h.part()
	if h.room() < 1 {
		need := partsAt + uint64(h.nodes)*(h.ringsAt()+pageUp(uint64(h.ring.RingSize())))
		return h, fmt.Errorf("%d bytes are too few for %d nodes with a ring of %d slots and %d bytes of data each: %d are needed; give it more (size=), or less to hold (nodes=, slots=, data=)",
			memory, h.nodes, h.ring.Slots, h.ring.Data, need)
	}
	return h, h.check(memory)
}

// suits returns an error, errUnsuited, if a pool that is formatted already is not what cfg asks for.
func (h *header) suits(cfg *Config) error {
	differs := func(what string, has, want int) error {
		return fmt.Errorf("%w: it has %s=%d, and %s=%d is asked for", errUnsuited, what, has, what, want)
	}
	switch {
	case cfg.Node >= h.nodes:
		return fmt.Errorf("%w: it has %d nodes, 0 to %d, and this is to be node %d", errUnsuited, h.nodes, h.nodes-1, cfg.Node)
	case cfg.Nodes != 0 && cfg.Nodes != h.nodes:
		return differs("nodes", h.nodes, cfg.Nodes)
	case cfg.Slots != 0 && cfg.Slots != h.ring.Slots:
		return differs("slots", h.ring.Slots, cfg.Slots)
	case cfg.Data != 0 && cfg.Data != h.ring.Data:
		return differs("data", h.ring.Data, cfg.Data)
	case cfg.Incoherent && !h.incoherent:
		return fmt.Errorf("%w: it was formatted for hosts with coherent caches: the node that formats it needs coherence=none too", errUnsuited)
	case cfg.Coherent && !h.coherent && !h.incoherent:
		return fmt.Errorf("%w: it was formatted for one host: the node that formats it needs coherence=full too", errUnsuited)
	case cfg.Sums == SumsOn && !h.sums:
		return fmt.Errorf("%w: its packets have no check sums: the node that formats it needs sums=on too", errUnsuited)
	case cfg.Sums == SumsOff && h.sums:
		return fmt.Errorf("%w: its packets have check sums, and sums=off is asked for: the node that formats it needs sums=off too", errUnsuited)
	}
	return nil
}
