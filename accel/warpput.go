package accel

import (
	"errors"

	"github.com/nicless/nicless/hostpath"
)

// The puts of a warp are gathered. Each lane leaves its request and goes on; the last lane
// to come reserves room for all, writes them and rings once. A switch between lanes costs
// more than a request, so a lane may be up to this many puts ahead of the slowest before it
// has to wait.
const ahead = 16

// batches are the puts of a warp that are not posted yet.
type batches struct {
	first   uint64         // number of the oldest
	of      *[ahead]gather // by number, in turn; nil until the first PutWarp
	posting bool           // a lane is posting them, and perhaps waits for room
}

// A gather is what the lanes bring to one PutWarp.
type gather struct {
	queue *Queue
	who   uint32 // lanes that have come, by bit
	fence hostpath.Flags
	n     int
	put   [WarpSize]hostpath.WriteWR
}

// PutWarp is Put by all lanes of the warp together: one reservation, one request
// of each lane, one doorbell. It returns at once, perhaps before the others have
// come; no request that this lane makes later overtakes it, and SyncWarp waits
// until it is posted. What the lane stores in memory is not held back. All lanes
// must use the same queue; those that have ended have no part.
func (t *Thread) PutWarp(q *Queue, dst, src Ref, n int) {
	p := &t.lane.warp().puts
	if p.of == nil {
		p.of = new([ahead]gather)
	}
	if t.puts >= p.first+ahead {
		t.lane.round = t.puts - ahead
		t.lane.pause(forBatch)
	}
	g := &p.of[t.puts%ahead]
	if g.n == 0 {
		g.queue = q
	} else if g.queue != q {
		panic(&refused{"PutWarp", errors.New("the lanes of a warp use different queues; Put is for that")})
	}
	g.put[g.n] = hostpath.WriteWR{SGE: src.sge(n), RemoteAddr: dst.Addr, RKey: dst.Key}
	g.n++
	g.who |= 1 << t.Lane()
	g.fence |= t.fence
	t.fence = 0
	t.puts++
	t.postPuts()
}

// postPuts posts the oldest puts for which all lanes have come.
func (t *Thread) postPuts() {
	w := t.lane.warp()
	p := &w.puts
	if p.of == nil || p.posting {
		return
	}
	for {
		g := &p.of[p.first%ahead]
		if g.n == 0 || w.live&^g.who != 0 {
			return
		}
		p.posting = true
		t.postWrites(g.queue, g.put[:g.n], g.fence)
		p.posting = false
		g.n, g.who, g.fence = 0, 0, 0
		p.first++
	}
}

// settle waits until the puts of this lane are posted, so that its next request cannot
// overtake them.
func (t *Thread) settle() {
	if t.puts > t.lane.warp().puts.first {
		t.lane.round = t.puts - 1
		t.lane.pause(forBatch)
	}
}

// leavePuts takes a lane that ends out of the puts to come. The other lanes may have waited
// for it alone.
func (t *Thread) leavePuts() {
	t.settle()
	t.lane.warp().live &^= 1 << t.Lane()
	t.postPuts()
}
