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
	nodesAt    = 4096
	nodeSize   = 8192
	boardsAt   = nodesAt + MaxNodes*nodeSize
	boardSize  = 8192
	ringsAt    = boardsAt + MaxNodes*boardSize

	lifeAt     = 0    // in a node block
	linksAt    = 128  // in a node block: one line for each node
	describeAt = 4096 // in a node block
)

// Limits of a pool.
const (
	MinNodes, MaxNodes = 2, 16
	MinMTU             = 256

	// headroom is what a packet may have beside the MTU: a GRH.
	headroom = 40
)

const (
	magic   = 0x6e69636c65737350 // "niclessP"
	version = 2

	flagIncoherent = 1 // in the header: all nodes write back and invalidate
)

var (
	be    = binary.BigEndian
	table = crc64.MakeTable(crc64.ECMA)
)

// A header says how the pool is divided. Node 0 writes it.
type header struct {
	nodes      int
	incoherent bool
	size       uint64 // bytes of the pool that are used
	identity   uint64 // random; another one whenever the pool is formatted
	ring       packetring.Geometry
	mtu        int
}

// Errors of parseHeader. A pool that is not ready may become so.
var (
	errBlank    = errors.New("node 0 has not formatted it")
	errVersion  = errors.New("it has another version")
	errDamaged  = errors.New("its header is damaged")
	errTooLarge = errors.New("it is larger than the memory")
)

// put writes the header. The line is:
//
//	0   magic
//	8   version:16 | nodes:16 | flags:32
//	16  size
//	24  identity
//	32  slots:32 | MTU:32
//	40  bytes of the data area of a ring
//	48  0
//	56  CRC-64/ECMA of bytes 0 to 55
func (h *header) put(b *[headerSize]byte) {
	*b = [headerSize]byte{}
	be.PutUint64(b[0:], magic)
	be.PutUint16(b[8:], version)
	be.PutUint16(b[10:], uint16(h.nodes))
	if h.incoherent {
		be.PutUint32(b[12:], flagIncoherent)
	}
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
	case be.Uint16(b[8:]) != version:
		return header{}, fmt.Errorf("%w: %d; this is version %d", errVersion, be.Uint16(b[8:]), version)
	case be.Uint64(b[56:]) != headerSum(b):
		return header{}, fmt.Errorf("%w: wrong check sum", errDamaged)
	}
	data := be.Uint64(b[40:])
	h := header{
		nodes: int(be.Uint16(b[10:])), incoherent: be.Uint32(b[12:])&flagIncoherent != 0,
		size: be.Uint64(b[16:]), identity: be.Uint64(b[24:]), mtu: int(be.Uint32(b[36:])),
		ring: packetring.Geometry{Slots: int(be.Uint32(b[32:])), Data: int(min(data, 1<<33))},
	}
	if be.Uint32(b[12:])&^flagIncoherent != 0 || be.Uint64(b[48:]) != 0 {
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
	case h.identity == 0 || h.size != ringsAt+uint64(h.rings())*h.stride():
		return fmt.Errorf("%w: size %d", errDamaged, h.size)
	case h.size > memory:
		return fmt.Errorf("%w: %d bytes; %d are mapped here", errTooLarge, h.size, memory)
	}
	return nil
}

// mostMTU returns the largest MTU for rings with so much data area. A packet must fit into half
// of it.
func mostMTU(data int) int { return (min(data/2, packetring.MaxPayload) - headroom) &^ 3 }

// rings returns how many rings there are: one for each ordered pair of nodes.
func (h *header) rings() int { return h.nodes * (h.nodes - 1) }

// stride returns how far the beginnings of two rings are apart.
func (h *header) stride() uint64 {
	return (uint64(h.ring.Size()) + shm.PageSize - 1) &^ (shm.PageSize - 1)
}

// ringAt returns where the ring of packets from one node to another begins.
func (h *header) ringAt(from, to int) uint64 {
	if to > from {
		to--
	}
	return ringsAt + uint64(from*(h.nodes-1)+to)*h.stride()
}

// nodeAt returns where the block of a node begins.
func nodeAt(node int) uint64 { return nodesAt + uint64(node)*nodeSize }

// boardAt returns where the board of a node begins.
func boardAt(node int) uint64 { return boardsAt + uint64(node)*boardSize }

// linkAt returns where a node's line about another node begins.
func linkAt(node, about int) uint64 { return nodeAt(node) + linksAt + uint64(about)*line }
