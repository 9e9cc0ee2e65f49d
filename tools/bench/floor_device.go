//go:build linux && (amd64 || arm64)

package bench

import (
	"encoding/binary"
	"math/bits"
)

// answering returns the device of the floor's shape as an argument of play. The poster rings one doorbell
// for one or more descriptors. A completion stands for each descriptors; each is a power of two. A receive
// always has a completion of its own.
func (f *floor) answering(each int) func(n uint64) uint64 {
	switch {
	case f.polled:
		return f.pollingDevice
	case f.shape == shape{}:
		return func(n uint64) uint64 { return f.device(n, uint64(each)) }
	}
	return func(n uint64) uint64 { return f.readingDevice(n, uint64(each)) }
}

// device answers n descriptors and copies payload i%slots for descriptor i.
func (f *floor) device(n, each uint64) (sum uint64) {
	shift, last, piece := bits.TrailingZeros64(each)&63, each-1, f.piece
	for done := uint64(0); done < n; {
		rung := f.doorbell.Observe()
		for ; done < rung; done++ {
			sum += get(f.descriptor(done))
			at := f.place(done)
			copyBy(f.dst[at:at+f.size], f.src[at:at+f.size], piece)
			if done&last == last {
				put(f.completion(done>>shift), done+1, done+1)
			}
		}
	}
	return sum
}

// readingDevice is device for shapes whose descriptors say where a payload is, or have it inside.
func (f *floor) readingDevice(n, each uint64) (sum uint64) {
	shift, last := bits.TrailingZeros64(each)&63, each-1
	for done := uint64(0); done < n; {
		rung := f.doorbell.Observe()
		for ; done < rung; done++ {
			sum += f.answer(done)
			if f.receives {
				put(f.receiveCompletion(done), done+1, done+1)
			}
			if done&last == last {
				put(f.completion(done>>shift), done+1, done+1)
			}
		}
	}
	return sum
}

// answer reads a descriptor, and that of a receive if the shape has receives, and copies the payload that
// they say.
func (f *floor) answer(i uint64) (sum uint64) {
	le := binary.LittleEndian
	var at int
	var from []byte
	if f.inline {
		b := f.mem[floorWQ+i&f.mask*f.entry:][:f.entry]
		sum = le.Uint64(b[8:16]) + le.Uint64(b[16:24]) + le.Uint64(b[24:32])
		at, from = int(le.Uint64(b[0:8])), b[inlineAt:inlineAt+f.size]
	} else {
		d := f.descriptor(i)
		sum = get(d)
		at = int(le.Uint64(d[0:8]))
		from = f.src[at : at+f.size]
	}
	if f.receives {
		for f.posted().Observe() <= i {
		}
		r := f.receiveDescriptor(i)
		sum += le.Uint64(r[8:16])
		at = int(le.Uint64(r[0:8]))
	}
	copyBy(f.dst[at:at+f.size], from, f.piece)
	return sum
}

// pollingDevice answers n descriptors. It finds them by polling two lines in turn, without a doorbell.
func (f *floor) pollingDevice(n uint64) (sum uint64) {
	le := binary.LittleEndian
	for i := range n {
		d := f.half(i)
		for d.ObserveTail() != i+1 {
		}
		sum += le.Uint64(d[0:8]) + le.Uint64(d[8:16]) + le.Uint64(d[16:24]) + le.Uint64(d[24:32])
		copy(f.dst[:f.size], d[inlineAt:inlineAt+polledMost])
		put(f.completion(i), i+1, i+1)
	}
	return sum
}
