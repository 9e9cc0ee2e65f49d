//go:build linux && (amd64 || arm64)

package bench

import (
	"encoding/binary"

	"github.com/nicless/nicless/internal/shm"
)

// post writes descriptor i, and rings no doorbell.
func (f *floor) post(i uint64) {
	switch {
	case f.inline:
		f.postInline(i)
	case f.named, f.receives:
		put(f.descriptor(i), uint64(f.place(i)), i+1)
	default:
		put(f.descriptor(i), i+1, i+1)
	}
}

// place returns where the payload of descriptor i begins.
func (f *floor) place(i uint64) int { return int(i) & (f.slots - 1) * f.size }

// postInline writes a descriptor with the payload inside it.
func (f *floor) postInline(i uint64) {
	le := binary.LittleEndian
	at := f.place(i)
	b := f.mem[floorWQ+i&f.mask*f.entry:][:f.entry]
	le.PutUint64(b[0:8], uint64(at))
	le.PutUint64(b[8:16], i+1)
	le.PutUint64(b[16:24], i+1)
	le.PutUint64(b[24:32], i+1)
	copy(b[inlineAt:], f.src[at:at+f.size])
}

// postPolled writes a descriptor into one of two lines, and publishes the last word of the line.
func (f *floor) postPolled(i uint64) {
	b := f.half(i)
	le := binary.LittleEndian
	le.PutUint64(b[0:8], 0)
	le.PutUint64(b[8:16], i+1)
	le.PutUint64(b[16:24], i+1)
	le.PutUint64(b[24:32], i+1)
	copy(b[inlineAt:inlineAt+polledMost], f.src[:f.size])
	b.PublishTail(i + 1)
}

// half returns the line of polled descriptor i. The two lines are 256 bytes apart, as the halves of a
// register are.
func (f *floor) half(i uint64) *shm.Block { return f.descriptor(4 * (i & 1)) }

// receives are the ring of descriptors of receives, 16 bytes each, and the ring of their completions.
type receives struct {
	at, cq uint64 // offsets
	mask   uint64 // entries of each less 1
	most   uint64 // most receives that are posted
	ready  uint64 // receives that were posted
}

// floorReceives is the offset of the count of receives that were posted. It shares a line with the
// doorbell, as the two counts of a queue pair's record do.
const floorReceives = 8

// place places the rings at an offset, for depth operations in flight, and returns their length. As many
// receives are posted as by a Pair.
func (r *receives) place(at uint64, depth int) int {
	r.most = uint64(receivesFor(depth))
	entries := uint64(1)
	for entries < r.most {
		entries *= 2
	}
	r.at, r.cq, r.mask = at, at+16*entries, entries-1
	return int((16 + 64) * entries)
}

func (f *floor) posted() *shm.Word64 { return shm.Word64At(f.mem, floorReceives) }

func (f *floor) receiveCompletion(i uint64) *shm.Block {
	return shm.BlockAt(f.mem, f.rq.cq+i&f.rq.mask*64)
}

func (f *floor) receiveDescriptor(i uint64) []byte {
	return f.mem[f.rq.at+i&f.rq.mask*16:][:16]
}

// receive posts as many receives as there is room for, refill at a time, as a Pair does. The argument taken
// counts the receives that have completed.
func (f *floor) receive(taken uint64) {
	for f.rq.ready-taken+refill <= f.rq.most {
		for range refill {
			b := f.receiveDescriptor(f.rq.ready)
			binary.LittleEndian.PutUint64(b[0:8], uint64(f.place(f.rq.ready)))
			f.rq.ready++
			binary.LittleEndian.PutUint64(b[8:16], f.rq.ready)
		}
		f.posted().Publish(f.rq.ready)
	}
}

// roundTrip returns the nanoseconds from descriptor to completion, or to both completions of a shape with
// receives, with one descriptor at a time.
func (f *floor) roundTrip(iters int) (sample, error) {
	warm := warmUp(iters)
	t, err := f.play(uint64(warm+iters), f.answering(1), func() stint {
		f.trips(0, uint64(warm))
		return timed(func() { sink.Store(f.trips(uint64(warm), uint64(warm+iters))) })
	})
	return t.nanoseconds(iters), err
}

func (f *floor) trips(i, end uint64) (sum uint64) {
	var stamp [8]byte
	for ; i < end; i++ {
		binary.LittleEndian.PutUint64(stamp[:], i)
		copy(f.src[:f.size], stamp[:])
		if f.polled {
			f.postPolled(i)
		} else {
			f.post(i)
			f.doorbell.Publish(i + 1)
		}
		sum += f.await(f.completion(i), i+1)
		if f.receives {
			sum += f.await(f.receiveCompletion(i), i+1)
			f.receive(i + 1)
		}
	}
	return sum
}

// await polls a completion and reads it.
func (f *floor) await(c *shm.Block, seq uint64) uint64 {
	for c.ObserveTail() != seq {
	}
	return get(c)
}
