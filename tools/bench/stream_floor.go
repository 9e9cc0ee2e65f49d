//go:build linux && (amd64 || arm64)

package bench

import (
	"fmt"
	"math/bits"
)

// A streaming floor has several descriptors in flight.
type streaming struct {
	depth int // most descriptors in flight
	batch int // descriptors for each doorbell
	each  int // descriptors for each completion, a power of two
}

// name returns the name of the floor.
func (s streaming) name() string {
	if s.each > 1 {
		return fmt.Sprintf("stream_wqe_memcpy_cqe_db%d_sig%d_depth%d", s.batch, s.each, s.depth)
	}
	return fmt.Sprintf("stream_wqe_memcpy_cqe_db%d_depth%d", s.batch, s.depth)
}

// stream returns how long iters descriptors take, and which part of that time was disturbed.
func (f *floor) stream(iters int, s streaming) (stint, error) {
	warm := roundUp(warmUp(iters), s.batch)
	return f.play(uint64(warm+iters), f.answering(s.each), func() stint {
		f.flow(0, uint64(warm), s)
		return timed(func() { f.flow(uint64(warm), uint64(warm+iters), s) })
	})
}

func (f *floor) flow(done, end uint64, s streaming) {
	depth, batch, each := uint64(s.depth), uint64(s.batch), uint64(s.each)
	shift := bits.TrailingZeros64(each) & 63
	for posted := done; done < end; {
		for posted < end && posted-done+batch <= depth {
			for range batch {
				put(f.descriptor(posted), posted+1)
				posted++
			}
			f.doorbell.Publish(posted)
		}
		for done < posted && f.completion(done>>shift).ObserveTail() == done+each {
			done += each
		}
	}
}

// fastest calls stream with several lengths of single copies and returns the shortest stint.
func (f *floor) fastest(iters int, s streaming) (best stint, err error) {
	defer func(piece int) { f.piece = piece }(f.piece)
	for _, piece := range []int{pieces, 32 << 10, f.size} {
		f.piece = piece
		t, err := f.stream(iters, s)
		if err != nil {
			return t, err
		}
		if best.took == 0 || t.took < best.took {
			best = t
		}
		if f.size <= piece {
			break // a payload is one piece: longer pieces have no effect
		}
	}
	return best, nil
}
