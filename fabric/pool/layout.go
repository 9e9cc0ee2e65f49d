package pool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"

	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/internal/shm"
)

// The layout; doc.go draws it. All numbers are bytes.
const (
	line       = 64
	headerSize = 64
	partsAt    = 4096

	lifeAt     = 0     // in a part
	describeAt = 128   // in a part
	boardAt    = 4096  // in a part
	pairsAt    = 12288 // in a part: the table of pairs
	pairSize   = 2 * line

	boardSize = namesAt - boardAt
)

// Limits of a pool.
const (
	MinNodes, MaxNodes = 2, 1024
	MinMTU             = 256

	// headroom is what a packet may have beside the MTU: a GRH.
	headroom = 40

	// The table of a part has one pair for each 16 KiB of the part, because the smallest ring that is of use
	// takes as much, but no more than twice as many as there are other nodes: pairs that end are kept for a
	// while (fence.go).
	bytesOfPair = 16 << 10
	leastPairs  = 8
)

const (
	magic   = 0x6e69636c65737350 // "niclessP"
	version = 3

	// versionSums is the version of a pool whose packets carry check sums. Nodes that know only version 3
	// refuse it with words, where an unknown flag would make them take the header for damaged.
	versionSums = 4

	flagIncoherent = 1 // in the header: all nodes write back and invalidate
	flagCoherent   = 2 // in the header: coherence=full was asked for, so hosts may differ
)

var (
	be    = binary.BigEndian
	table = crc64.MakeTable(crc64.ECMA)
)

// A header says how the pool is divided. The node that formats the pool writes it.
type header struct {
	nodes      int
	incoherent bool
	coherent   bool                // somebody has said that caches of different hosts are coherent
	sums       bool                // packets carry check sums
	size       uint64              // bytes of the pool that are used
	identity   uint64              // random; another one whenever the pool is formatted
	ring       packetring.Geometry // of a new ring
	mtu        int
}

// Errors of parseHeader. A pool that is not ready may become so.
var (
	errBlank    = errors.New("no node has formatted it")
	errVersion  = errors.New("it has another version")
	errDamaged  = errors.New("its header is damaged")
	errTooLarge = errors.New("the pool is larger than the memory")
	errUnsuited = errors.New("it does not suit this node")
)

// put writes the header. The line is:
//
//	0   magic
//	8   version:16, 4 if packets carry check sums | nodes:16 | flags:32
//	16  size
//	24  identity
//	32  slots of a new ring:32 | MTU:32
//	40  bytes of the data area of a new ring
//	48  0
//	56  CRC-64/ECMA of bytes 0 to 55
func (h *header) put(b *[headerSize]byte) {
	*b = [headerSize]byte{}
	be.PutUint64(b[0:], magic)
	be.PutUint16(b[8:], version)
	if h.sums {
		be.PutUint16(b[8:], versionSums)
	}
	be.PutUint16(b[10:], uint16(h.nodes))
	var flags uint32
	if h.incoherent {
		flags |= flagIncoherent
	}
	if h.coherent {
		flags |= flagCoherent
	}
	be.PutUint32(b[12:], flags)
	be.PutUint64(b[16:], h.size)
	be.PutUint64(b[24:], h.identity)
	be.PutUint32(b[32:], uint32(h.ring.Slots))
	be.PutUint32(b[36:], uint32(h.mtu))
	be.PutUint64(b[40:], uint64(h.ring.Data))
	be.PutUint64(b[56:], headerSum(b))
}

func headerSum(b *[headerSize]byte) uint64 { return crc64.Checksum(b[:56], table) }

// parseHeader returns the header of a pool in memory of this many bytes. It checks everything.
func parseHeader(b *[headerSize]byte, memory uint64) (header, error) {
	switch {
	case be.Uint64(b[0:]) != magic:
		return header{}, errBlank
	case be.Uint64(b[56:]) != headerSum(b):
		return header{}, fmt.Errorf("%w: wrong check sum", errDamaged)
	case be.Uint16(b[8:]) != version && be.Uint16(b[8:]) != versionSums:
		return header{}, fmt.Errorf("%w: %d; this is version %d, or %d with check sums: engines of one release share a pool, so end the others and remove the file, or name another one", errVersion, be.Uint16(b[8:]), version, versionSums)
	}
	flags, data := be.Uint32(b[12:]), be.Uint64(b[40:])
	h := header{
		nodes:      int(be.Uint16(b[10:])),
		incoherent: flags&flagIncoherent != 0, coherent: flags&flagCoherent != 0,
		sums: be.Uint16(b[8:]) == versionSums,
		size: be.Uint64(b[16:]), identity: be.Uint64(b[24:]), mtu: int(be.Uint32(b[36:])),
		ring: packetring.Geometry{Slots: int(be.Uint32(b[32:])), Data: int(min(data, 1<<33))},
	}
	if flags&^(flagIncoherent|flagCoherent) != 0 || be.Uint64(b[48:]) != 0 {
		return header{}, fmt.Errorf("%w: unknown flags", errDamaged)
	}
	if err := h.check(memory); err != nil {
		return header{}, err
	}
	return h, nil
}

// check returns an error if there can be no such pool in memory of this many bytes.
func (h *header) check(memory uint64) error {
	err := h.ring.Check()
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errDamaged, err)
	case h.nodes < MinNodes || h.nodes > MaxNodes:
		return fmt.Errorf("%w: %d nodes; %d to %d are possible", errDamaged, h.nodes, MinNodes, MaxNodes)
	case h.mtu < MinMTU || h.mtu > mostMTU(h.ring.Data) || h.mtu%4 != 0:
		return fmt.Errorf("%w: MTU %d; a multiple of 4 from %d to %d is possible with a data area of %d bytes", errDamaged, h.mtu, MinMTU, mostMTU(h.ring.Data), h.ring.Data)
	case h.identity == 0 || h.size != partsAt+uint64(h.nodes)*h.part() || h.room() < 1:
		return fmt.Errorf("%w: size %d", errDamaged, h.size)
	case h.size > memory:
		return fmt.Errorf("%w: %d bytes; %d are mapped here. Ask for as much (size=), with the same offset= as its other nodes, or remove the file when no engine uses it", errTooLarge, h.size, memory)
	}
	return nil
}

// mostMTU returns the largest MTU for rings with so much data area. A packet must fit into half
// of it.
func mostMTU(data int) int { return (min(data/2, packetring.MaxPayload) - headroom) &^ 3 }

// part returns how many bytes the part of each node has: whole pages.
func (h *header) part() uint64 {
	if h.size < partsAt {
		return 0
	}
	return (h.size - partsAt) / uint64(h.nodes) &^ (shm.PageSize - 1)
}

// pairs returns how many pairs the table of each part has.
func (h *header) pairs() int {
	return min(max(int(min(h.part()/bytesOfPair, 2*MaxNodes)), leastPairs), 2*h.nodes)
}

// ringsAt returns where the rings begin in each part.
func (h *header) ringsAt() uint64 { return pageUp(pairsAt + uint64(h.pairs())*pairSize) }

// pages returns how many pages for rings each part has.
func (h *header) pages() uint64 {
	if h.part() < h.ringsAt() {
		return 0
	}
	return (h.part() - h.ringsAt()) / shm.PageSize
}

// room returns how many new rings fit into each part.
func (h *header) room() int { return int(h.pages() / pagesOf(h.ring)) }

// partAt returns where the part of a node begins.
func (h *header) partAt(node int) uint64 { return partsAt + uint64(node)*h.part() }

// pairAt returns where a pair of a node's table begins.
func (h *header) pairAt(node, index int) uint64 {
	return h.partAt(node) + pairsAt + uint64(index)*pairSize
}

// pageUp rounds up to whole pages.
func pageUp(n uint64) uint64 { return (n + shm.PageSize - 1) &^ (shm.PageSize - 1) }

// pagesOf returns how many pages a ring takes.
func pagesOf(g packetring.Geometry) uint64 { return pageUp(uint64(g.RingSize())) / shm.PageSize }
