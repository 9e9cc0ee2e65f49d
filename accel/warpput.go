package accel

import (
	"errors"

	"github.com/nicless/nicless/hostpath"
)

// ahead is how many puts a lane may be ahead of the slowest lane of its warp before it has
// to wait.
//
// The puts of a warp are gathered: each lane stores its request and continues. The last lane
// that arrives reserves room for all requests, writes them and rings once. Lanes may be
// ahead because a switch between lanes costs more than a request.
const ahead = 16

// batches are the PutWarps of a warp that are not posted yet.
type batches struct {
	first   uint64         // number of the oldest PutWarp
	of      *[ahead]gather // indexed by the PutWarp's number modulo ahead; nil until the first PutWarp
	posting bool           // a lane is posting, and perhaps waits for room
}

// A gather contains the requests of the lanes for one PutWarp.
type gather struct {
	queue *Queue
	who   uint32 // lanes that have stored their request, by bit
	fence hostpath.Flags
	n     int
	put   [WarpSize]hostpath.WriteWR
}

// PutWarp is Put by all lanes of the warp together: one reservation, one request of each
// lane, one doorbell. It can return before the other lanes have called PutWarp, but waits if
// this lane is too many puts ahead of the slowest lane. No later request of this lane
// overtakes the put, and SyncWarp waits until the put is posted. But a store to memory that
// the lane makes after PutWarp can take effect before the put is posted. All lanes must use
// the same queue. Lanes that have ended take no part.
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

// postPuts posts the oldest PutWarps for which all lanes have stored their requests.
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

// drainPuts waits until the puts of this lane are posted, so that its next request cannot overtake them.
func (t *Thread) drainPuts() {
	if t.puts > t.lane.warp().puts.first {
		t.lane.round = t.puts - 1
		t.lane.pause(forBatch)
	}
}

// leavePuts removes a lane that ends from later PutWarps. It then posts the PutWarps for
// which only that lane was missing.
func (t *Thread) leavePuts() {
	t.drainPuts()
	t.lane.warp().live &^= 1 << t.Lane()
	t.postPuts()
}
