//go:build linux && (amd64 || arm64)

package bench

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"

	"github.com/nicless/nicless/internal/shm"
)

// A floor is the memory of a poster and a device that exchange only the necessary cache lines:
// a ring of descriptors and a doorbell in one direction, and a ring of 64-byte completions in the
// other. For each descriptor the device copies a payload. So a floor is nicless without queues,
// keys, checks or formats. Its shape says which lines it has besides.
type floor struct {
	shape
	region   *shm.Region
	mem      []byte
	doorbell *shm.Word64
	mask     uint64 // number of entries in a ring less 1
	entry    uint64 // bytes of a descriptor, a multiple of 64
	cq       uint64 // offset of the ring of completions
	src, dst []byte
	size     int // bytes of a payload
	slots    int // number of payloads, a power of two; descriptor i stands for payload i%slots
	partner  int // core of the device; negative: any
	piece    int // longest single copy in bytes

	rq receives // only if the shape has them
}

// floorWQ is the offset of the ring of descriptors. The page before it holds only the doorbell.
const floorWQ = shm.PageSize

// newFloor makes a floor. The argument slots is the number of payloads, size is the number of
// bytes of each payload, and depth is the number of operations that may be in flight.
func newFloor(s shape, size, slots, depth, partner int) (*floor, error) {
	ring := 1 << bits.Len(uint(max(depth, 256)-1))
	data := roundUp(slots*size, shm.PageSize)
	f := &floor{shape: s, size: size, slots: slots, partner: partner, piece: pieces}
	f.mask, f.entry = uint64(ring-1), uint64(s.descriptor(size))
	f.cq = floorWQ + uint64(ring)*f.entry
	rings := int(f.cq) + ring*64
	if s.receives {
		rings += f.rq.place(uint64(rings), depth)
	}
	rings = roundUp(rings, shm.PageSize)
	create := shm.Create
	if shm.RaceEnabled {
		create = func(_ string, size int) (*shm.Region, error) { return shm.Heap(size) }
	}
	r, err := create("floor", rings+2*data)
	if err != nil {
		return nil, err
	}
	f.region, f.mem = r, r.Bytes()
	f.doorbell = shm.Word64At(f.mem, 0)
	f.src, f.dst = f.mem[rings:rings+data], f.mem[rings+data:]
	clear(f.mem) // touches all pages, so that no page fault comes later
	for i := range f.src {
		f.src[i] = byte(i)
	}
	return f, nil
}

func (f *floor) close() error { return f.region.Close() }

func (f *floor) descriptor(i uint64) *shm.Block { return shm.BlockAt(f.mem, floorWQ+i&f.mask*f.entry) }
func (f *floor) completion(i uint64) *shm.Block { return shm.BlockAt(f.mem, f.cq+i&f.mask*64) }

// put fills a cache line with its first word, seq in all others, and publishes its last word.
func put(b *shm.Block, first, seq uint64) {
	le := binary.LittleEndian
	le.PutUint64(b[0:8], first)
	le.PutUint64(b[8:16], seq)
	le.PutUint64(b[16:24], seq)
	le.PutUint64(b[24:32], seq)
	le.PutUint64(b[32:40], seq)
	le.PutUint64(b[40:48], seq)
	le.PutUint64(b[48:56], seq)
	b.PublishTail(seq)
}

// get reads a cache line.
func get(b *shm.Block) uint64 {
	le := binary.LittleEndian
	return le.Uint64(b[0:8]) + le.Uint64(b[8:16]) + le.Uint64(b[16:24]) + le.Uint64(b[24:32]) +
		le.Uint64(b[32:40]) + le.Uint64(b[40:48]) + le.Uint64(b[48:56]) + b.ObserveTail()
}

// sink keeps the compiler from removing reads.
var sink atomic.Uint64

// play runs poster on this thread and device on another thread, and returns the stint of
// poster.
func (f *floor) play(n uint64, device func(n uint64) (sum uint64), poster func() stint) (stint, error) {
	clear(f.mem[:len(f.mem)-len(f.src)-len(f.dst)])
	if f.receives {
		f.rq.ready = 0
		f.receive(0)
	}
	ready, ended := make(chan error), make(chan uint64)
	go func() {
		err := pinForGood(f.partner)
		ready <- err
		if err == nil {
			ended <- device(n) // the thread must not end before poster has read the time
		}
	}()
	if err := <-ready; err != nil {
		return stint{}, err
	}
	t := poster()
	sink.Store(<-ended)
	return t, nil
}

// pieces is the longest single copy in bytes. From 1 MiB on, Go's copy uses non-temporal stores,
// which are slower.
const pieces = 256 << 10

func copyBy(dst, src []byte, piece int) {
	for len(src) > piece {
		copy(dst[:piece], src[:piece])
		dst, src = dst[piece:], src[piece:]
	}
	copy(dst, src)
}

// warmUp returns how many operations are made before those that are measured.
func warmUp(iters int) int { return max(1, iters/10) }

// roundUp returns the least multiple of unit that is not less than n.
func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }
