package hostpath

import (
	"flag"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// This is a model of the protocol of SharedSQ. Each step is one atomic action. The model is
// small enough to go through every order of the steps of three posters, a device and a
// poller on a ring of four blocks. It follows sequence.go and SharedSQ.Ring line by line.
// TestSharedSQ runs the code itself.

const modelRing = 4

// The state of a poster: the atomic action that it takes next.
const (
	atSeen = iota
	atNext
	atFreed
	atSetSeen
	atReserve
	atWrite
	atCommit
	atDueRung
	atDueEnd
	atBegin
	atRung
	atEnds
	atLook // it reads the WQE whose first bytes it will write to the register
	atPublish
	atSetRung
	atRelease
	atDone
)

type modelPoster struct {
	pc, post            uint8
	seen, was, now, pos uint8
	first               uint8
}

// A world is the state of the model. It is a comparable value, so that a map can contain the
// worlds that were reached.
type world struct {
	seen, next, rung, record uint8
	ringing                  bool
	ends, written            [modelRing]uint8 // written: by slot, 1 plus the count of its last written block
	executed, freed          uint8
	posters                  [3]modelPoster
}

// A protocol is the model under test: the same as the code, or with a fault that explore must
// find.
type protocol struct {
	sizes      [3][]uint8 // blocks of the reservations of each poster
	noLookback bool       // fault: Ring does not check again after it has released ringing
	early      bool       // fault: commit before the WQE is written
	skipGaps   bool       // fault: ring all reserved blocks, not only the committed ones
	noFull     bool       // fault: reserve does not see that the ring is full
	lateLook   bool       // fault: the register's value is read after the record is published
}

func (p *protocol) total() (n uint8) {
	for _, s := range p.sizes {
		for _, b := range s {
			n += b
		}
	}
	return n
}

// step returns w after the next action of poster i, or an error.
func (p *protocol) step(w world, i int) (world, error) {
	q := &w.posters[i]
	n := p.sizes[i][q.post]
	switch q.pc {
	case atSeen:
		q.seen, q.pc = w.seen, atNext
	case atNext:
		q.was, q.pc = w.next, atReserve
		if q.was+n-q.seen > modelRing && !p.noFull {
			q.pc = atFreed
		}
	case atFreed:
		q.now, q.pc = w.freed, atSetSeen
		if q.now <= q.was && q.was+n-q.now > modelRing {
			q.pc = atSeen // ErrFull: the caller tries again
		}
	case atSetSeen:
		if w.seen == q.seen {
			w.seen = q.now
		}
		q.pc = atSeen
	case atReserve:
		q.pc = atSeen
		if w.next == q.was {
			w.next, q.first, q.pc = q.was+n, q.was, atWrite
			if p.early {
				q.pc = atCommit
			}
		}
	case atWrite:
		for b := q.first; b < q.first+n; b++ {
			if b >= w.freed+modelRing {
				return w, fmt.Errorf("block %d is written while block %d is in use", b, b-modelRing)
			}
			w.written[b%modelRing] = b + 1
		}
		q.pc = atCommit
		if p.early {
			q.pc = atDueRung
		}
	case atCommit:
		w.ends[q.first%modelRing] = q.first + n
		q.pc = atDueRung
		if p.early {
			q.pc = atWrite
		}
	case atDueRung:
		q.pos, q.pc = w.rung, atDueEnd
	case atDueEnd:
		if w.ends[q.pos%modelRing] > q.pos {
			q.pc = atBegin
		} else {
			p.next(q, i)
		}
	case atBegin:
		if w.ringing {
			p.next(q, i)
		} else {
			w.ringing, q.pc = true, atRung
		}
	case atRung:
		q.pos, q.pc = w.rung, atEnds
		if p.skipGaps {
			q.pos, q.pc = w.next, atLook
		}
	case atEnds:
		if e := w.ends[q.pos%modelRing]; e > q.pos {
			q.pos = e
		} else {
			q.pc = atSetRung
			if q.pos != w.rung {
				q.pc = atLook
				if p.lateLook {
					q.pc = atPublish
				}
			}
		}
	case atLook:
		if got := w.written[(q.pos-1)%modelRing]; got != q.pos && !p.skipGaps {
			return w, fmt.Errorf("the register shows block %d in place of %d", int(got)-1, q.pos-1)
		}
		q.pc = atPublish
		if p.lateLook {
			q.pc = atSetRung
		}
	case atPublish:
		if q.pos <= w.record {
			return w, fmt.Errorf("the record goes from %d to %d", w.record, q.pos)
		}
		w.record, q.pc = q.pos, atSetRung
		if p.lateLook {
			q.pc = atLook
		}
	case atSetRung:
		w.rung, q.pc = q.pos, atRelease
	case atRelease:
		w.ringing, q.pc = false, atDueRung
		if p.noLookback {
			p.next(q, i)
		}
	}
	return w, nil
}

// next begins the poster's next reservation, if there is one.
func (p *protocol) next(q *modelPoster, i int) {
	*q = modelPoster{post: q.post + 1}
	if int(q.post) == len(p.sizes[i]) {
		*q = modelPoster{pc: atDone}
	}
}

// device executes the next block that the record announces.
func (w world) device() (world, error) {
	if got := w.written[w.executed%modelRing]; got != w.executed+1 {
		return w, fmt.Errorf("block %d is executed, and block %d lies there", w.executed, int(got)-1)
	}
	w.executed++
	return w, nil
}

// explore goes through every world that can be reached. It returns their number, or an error
// found in one of them.
func (p *protocol) explore() (int, error) {
	index := map[world]int32{{}: 0}
	queue := []world{{}}
	var from [][]int32 // by world: the worlds from which it is reached in one step
	from = append(from, nil)
	var finished []int32
	for i := 0; i < len(queue); i++ {
		w := queue[i]
		reach := func(to world) {
			k, ok := index[to]
			if !ok {
				k = int32(len(queue))
				index[to] = k
				queue, from = append(queue, to), append(from, nil)
			}
			from[k] = append(from[k], int32(i))
		}
		done := 0
		for k := range w.posters {
			if w.posters[k].pc == atDone {
				done++
				continue
			}
			to, err := p.step(w, k)
			if err != nil {
				return len(queue), err
			}
			reach(to)
		}
		if done == len(w.posters) {
			if w.record != p.total() {
				return len(queue), fmt.Errorf("all posters are done, and the record is %d of %d: a doorbell is lost", w.record, p.total())
			}
			finished = append(finished, int32(i))
		}
		if w.executed != w.record {
			to, err := w.device()
			if err != nil {
				return len(queue), err
			}
			reach(to)
		}
		if w.freed != w.executed {
			to := w
			to.freed = w.executed
			reach(to)
		}
	}
	// The end must be reachable from every world. Otherwise the protocol could get stuck.
	good := make([]bool, len(queue))
	for len(finished) > 0 {
		i := finished[len(finished)-1]
		finished = finished[:len(finished)-1]
		if !good[i] {
			good[i] = true
			finished = append(finished, from[i]...)
		}
	}
	for i, ok := range good {
		if !ok {
			return len(queue), fmt.Errorf("nobody gets on from %+v", queue[i])
		}
	}
	return len(queue), nil
}

// allWorlds makes TestInterleavings explore more posts, which takes a quarter of a minute.
var allWorlds = flag.Bool("all-worlds", false, "more posts, more than a million worlds")

func TestInterleavings(t *testing.T) {
	sizes := [3][]uint8{{2}, {2}, {1}}
	if *allWorlds {
		sizes[0] = []uint8{1, 1}
	}
	n, err := (&protocol{sizes: sizes}).explore()
	require.NoError(t, err)
	t.Logf("%d worlds", n)
	require.Greater(t, n, 10_000)
}

// explore finds the faults of protocols that are nearly right.
func TestInterleavingsFindFaults(t *testing.T) {
	sizes := [3][]uint8{{1}, {2}, {2}}
	for _, c := range []struct {
		p     protocol
		fault string
	}{
		{protocol{sizes: sizes, noLookback: true}, "a doorbell is lost"},
		{protocol{sizes: sizes, early: true}, "the register shows block -1"},
		{protocol{sizes: sizes, skipGaps: true}, "is executed, and block"},
		{protocol{sizes: sizes, noFull: true}, "is written while block"},
		{protocol{sizes: sizes, lateLook: true}, "the register shows block"},
	} {
		_, err := c.p.explore()
		require.ErrorContains(t, err, c.fault, "%+v", c.p)
	}
}
