//go:build linux && (amd64 || arm64)

package bench

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"

	"github.com/nicless/nicless/internal/shm"
)

// A floor is the memory of a poster and a device that exchange only the necessary cache lines:
// a ring of 64-byte descriptors and a doorbell in one direction, and a ring of 64-byte
// completions in the other. For each descriptor the device copies a payload. So a floor is
// nicless without queues, keys, checks or formats.
type floor struct {
	region   *shm.Region
	mem      []byte
	doorbell *shm.Word64
	mask     uint64 // number of entries in a ring less 1
	cq       uint64 // offset of the ring of completions
	src, dst []byte
	size     int // bytes of a payload
	slots    int // number of payloads; descriptor i stands for payload i%slots
	partner  int // core of the device; negative: any
	piece    int // longest single copy in bytes
}

// floorWQ is the offset of the ring of descriptors. The page before it holds only the doorbell.
const floorWQ = shm.PageSize

// newFloor makes a floor. The argument slots is the number of payloads, size is the number of
// bytes of each payload, and depth is the number of operations that may be in flight.
func newFloor(size, slots, depth, partner int) (*floor, error) {
	ring := 1 << bits.Len(uint(max(depth, 256)-1))
	data := roundUp(slots*size, shm.PageSize)
	rings := floorWQ + 2*ring*64
	create := shm.Create
	if shm.RaceEnabled {
		create = func(_ string, size int) (*shm.Region, error) { return shm.Heap(size) }
	}
	r, err := create("floor", rings+2*data)
	if err != nil {
		return nil, err
	}
	f := &floor{region: r, mem: r.Bytes(), size: size, slots: slots, partner: partner, piece: pieces}
	f.mask, f.cq = uint64(ring-1), uint64(floorWQ+ring*64)
	f.doorbell = shm.Word64At(f.mem, 0)
	f.src, f.dst = f.mem[rings:rings+data], f.mem[rings+data:]
	clear(f.mem) // touches all pages, so that no page fault comes later
	for i := range f.src {
		f.src[i] = byte(i)
	}
	return f, nil
}

func (f *floor) close() error { return f.region.Close() }

func (f *floor) descriptor(i uint64) *shm.Block { return shm.BlockAt(f.mem, floorWQ+i&f.mask*64) }
func (f *floor) completion(i uint64) *shm.Block { return shm.BlockAt(f.mem, f.cq+i&f.mask*64) }

// put fills a cache line and publishes its last word.
func put(b *shm.Block, seq uint64) {
	le := binary.LittleEndian
	le.PutUint64(b[0:8], seq)
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

// device answers n descriptors and copies payload i%slots for descriptor i. The poster rings
// one doorbell for one or more descriptors. A completion stands for each descriptors; each is a
// power of two.
func (f *floor) device(n, each uint64) (sum uint64) {
	shift, last, piece := bits.TrailingZeros64(each)&63, each-1, f.piece
	for done := uint64(0); done < n; {
		rung := f.doorbell.Observe()
		for ; done < rung; done++ {
			sum += get(f.descriptor(done))
			at := int(done) % f.slots * f.size
			copyBy(f.dst[at:at+f.size], f.src[at:at+f.size], piece)
			if done&last == last {
				put(f.completion(done>>shift), done+1)
			}
		}
	}
	return sum
}

// answering returns device as an argument of play.
func (f *floor) answering(each int) func(n uint64) uint64 {
	return func(n uint64) uint64 { return f.device(n, uint64(each)) }
}

// sink keeps the compiler from removing reads.
var sink atomic.Uint64

// pollingDevice answers n descriptors. It finds them by polling the ring, without a doorbell,
// and copies nothing.
func (f *floor) pollingDevice(n uint64) (sum uint64) {
	for i := range n {
		d := f.descriptor(i)
		for d.ObserveTail() != i+1 {
		}
		sum += get(d)
		put(f.completion(i), i+1)
	}
	return sum
}

// play runs poster on this thread and device on another thread, and returns the stint of
// poster.
func (f *floor) play(n uint64, device func(n uint64) (sum uint64), poster func() stint) (stint, error) {
	clear(f.mem[:len(f.mem)-len(f.src)-len(f.dst)])
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

// roundTrip returns the nanoseconds from descriptor to completion, with one descriptor at a
// time. The floor's name is pp_wqe_doorbell_memcpy_cqe_rtt.
func (f *floor) roundTrip(iters int) (sample, error) {
	warm := warmUp(iters)
	t, err := f.play(uint64(warm+iters), f.answering(1), func() stint {
		f.trips(0, uint64(warm))
		return timed(func() { sink.Store(f.trips(uint64(warm), uint64(warm+iters))) })
	})
	return t.nanoseconds(iters), err
}

// pollTrip is roundTrip without a doorbell and without a copy; the device polls the line of the
// descriptor. The floor's name is pp_poll_wqe_cqe_rtt.
func (f *floor) pollTrip(iters int) (sample, error) {
	warm := warmUp(iters)
	t, err := f.play(uint64(warm+iters), f.pollingDevice, func() stint {
		f.pollTrips(0, uint64(warm))
		return timed(func() { sink.Store(f.pollTrips(uint64(warm), uint64(warm+iters))) })
	})
	return t.nanoseconds(iters), err
}

func (f *floor) pollTrips(i, end uint64) (sum uint64) {
	for ; i < end; i++ {
		put(f.descriptor(i), i+1)
		c := f.completion(i)
		for c.ObserveTail() != i+1 {
		}
		sum += get(c)
	}
	return sum
}

func (f *floor) trips(i, end uint64) (sum uint64) {
	var stamp [8]byte
	for ; i < end; i++ {
		binary.LittleEndian.PutUint64(stamp[:], i)
		copy(f.src[:f.size], stamp[:])
		put(f.descriptor(i), i+1)
		f.doorbell.Publish(i + 1)
		c := f.completion(i)
		for c.ObserveTail() != i+1 {
		}
		sum += get(c)
	}
	return sum
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
