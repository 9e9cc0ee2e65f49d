//go:build linux && (amd64 || arm64)

package bench

import (
	"fmt"
	"math/bits"
)

// A streaming floor has several descriptors in flight.
type streaming struct {
	shape
	depth int // most descriptors in flight
	batch int // descriptors for each doorbell
	each  int // descriptors for each completion, a power of two
}

// name returns the name of the floor.
func (s streaming) name() string {
	sig := ""
	if s.each > 1 {
		sig = fmt.Sprintf("_sig%d", s.each)
	}
	return fmt.Sprintf("stream_%s_%s_db%d%s_depth%d", s.wqe(), s.steps(), s.batch, sig, s.depth)
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
	for posted, sent := done, done; done < end; {
		for posted < end && posted-done+batch <= depth {
			for range batch {
				f.post(posted)
				posted++
			}
			f.doorbell.Publish(posted)
		}
		for sent < posted && f.completion(sent>>shift).ObserveTail() == sent+each {
			sent += each
		}
		if !f.receives {
			done = sent
			continue
		}
		for done < sent && f.receiveCompletion(done).ObserveTail() == done+1 {
			done++
		}
		f.receive(done)
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
