//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/accel"
)

// The bytes that are under way at once should fit into the caches. A piece should be
// long enough to outweigh the cost of its request, and short enough that the other
// pieces need not wait long for it.
const (
	pieceBytes = 128 << 10 // most bytes of a segment
	mostLanes  = 8         // most chunks under way at once
)

// A ring is a number of accelerators. Each of them puts data into the memory of the next.
type ring struct {
	n, elements   int
	chunks, lanes int
	slot          int // bytes of the longest segment
	nodes         []*node
}

// A node is one accelerator. Its memory begins with a signal for each lane, each on a
// separate cache line. The inbox follows: N-1 slots for each lane, to which the
// previous node writes partial sums. The array is last.
type node struct {
	*ring
	id     int
	mem    *accel.Buffer
	floats []float32 // all of mem
	dev    *accel.Device
	stream *accel.Stream
	queue  *accel.Queue // posts to the next node
}

const signalBytes = 64 // a cache line, of which 8 bytes are used

func newRing(nic *nicless.Context, n, elements int, cores []int) (*ring, error) {
	r := &ring{n: n, elements: elements}
	r.chunks = max(1, (4*elements+n*pieceBytes-1)/(n*pieceBytes))
	r.lanes = min(mostLanes, r.chunks)
	perChunk := (elements + r.chunks - 1) / r.chunks
	r.slot = 4 * ((perChunk + n - 1) / n)
	pd, err := nic.AllocPD()
	if err != nil {
		return nil, err
	}
	for id := range n {
		d, err := newNode(nic, pd, r, id, cores)
		if err != nil {
			r.close()
			return nil, err
		}
		r.nodes = append(r.nodes, d)
	}
	return r, nil
}

func newNode(nic *nicless.Context, pd *nicless.PD, r *ring, id int, cores []int) (*node, error) {
	mr, err := pd.RegisterMemory(r.array()+4*r.elements, nicless.FullAccess)
	if err != nil {
		return nil, err
	}
	cq, err := nic.CreateCQ(nicless.CQConfig{Collapsed: true})
	if err != nil {
		return nil, err
	}
	qp, err := pd.CreateQP(nicless.QPConfig{SendCQ: cq, Concurrent: true})
	if err != nil {
		return nil, err
	}
	idle, err := nic.CreateCQ(nicless.CQConfig{PollOnly: true}) // an exported collapsed CQ cannot be shared
	if err != nil {
		return nil, err
	}
	peer, err := pd.CreateQP(nicless.QPConfig{SendCQ: idle})
	if err != nil {
		return nil, err
	}
	if err := nicless.Pair(qp, peer, nicless.Connection{}); err != nil {
		return nil, err
	}
	export, err := qp.Export()
	if err != nil {
		return nil, err
	}
	d := &node{ring: r, id: id, mem: accel.NewBuffer(mr)}
	d.floats = accel.Slice[float32](d.mem)
	d.queue, err = accel.NewQueue(export)
	if err != nil {
		return nil, err
	}
	d.dev, err = accel.New(accel.Config{CPUs: cores})
	if err != nil {
		return nil, err
	}
	d.stream, err = d.dev.NewStream()
	return d, err
}

func (r *ring) close() {
	for _, d := range r.nodes {
		_ = d.dev.Close()
	}
}

// Offsets in the memory of every node, in bytes.
func (r *ring) signal(lane int) int      { return lane * signalBytes }
func (r *ring) inbox(lane, step int) int { return r.lanes*signalBytes + (lane*(r.n-1)+step)*r.slot }
func (r *ring) array() int               { return r.inbox(r.lanes, 0) }

// segment returns the offset of segment s of a chunk, and its size in bytes. The size
// can be 0, because an array may have fewer elements than there are segments.
func (r *ring) segment(chunk, s int) (off, bytes int) {
	s = (s%r.n + r.n) % r.n
	first := chunk * r.elements / r.chunks
	size := (chunk+1)*r.elements/r.chunks - first
	from, to := first+s*size/r.n, first+(s+1)*size/r.n
	return r.array() + 4*from, 4 * (to - from)
}

// kernel is the program of each lane of each accelerator. It executes all steps of one
// chunk after another. It signals the next node and counts the signals of the previous
// node. When a lane has all sums of a chunk, the next node has read everything that the
// lane has put into the next node's inbox, because the sums went through the next node.
// The lane can then put its next chunk into the same inbox.
func (d *node) kernel(t *accel.Thread) {
	lane, next := t.Index(), d.nodes[(d.id+1)%d.n].mem
	seen := uint64(0)
	for chunk := lane; chunk < d.chunks; chunk += t.Threads() {
		for step := range 2 * (d.n - 1) {
			off, bytes := d.segment(chunk, d.id-step)
			to := off
			if step < d.n-1 {
				to = d.inbox(lane, step)
			}
			t.PutSignal(d.queue, next.Ref(to), d.mem.Ref(off), bytes, next.Ref(d.signal(lane)), 1)
			seen++
			t.WaitUntil(d.mem, d.signal(lane), accel.GE, seen)
			if step < d.n-1 {
				off, bytes := d.segment(chunk, d.id-step-1)
				add(d.numbers(off, bytes), d.numbers(d.inbox(lane, step), bytes))
			}
		}
	}
	if err := t.Quiet(d.queue); err != nil {
		panic(err)
	}
}

// numbers returns the numbers in a part of the node's memory. The part begins at offset off.
func (d *node) numbers(off, bytes int) []float32 { return d.floats[off/4 : (off+bytes)/4] }

// add adds src to dst. A loop over eight numbers at a time is three times as fast as a loop
// over single numbers.
func add(dst, src []float32) {
	for len(dst) >= 8 && len(src) >= 8 {
		d, s := (*[8]float32)(dst), (*[8]float32)(src)
		d[0] += s[0]
		d[1] += s[1]
		d[2] += s[2]
		d[3] += s[3]
		d[4] += s[4]
		d[5] += s[5]
		d[6] += s[6]
		d[7] += s[7]
		dst, src = dst[8:], src[8:]
	}
	for i := range dst {
		dst[i] += src[i]
	}
}

// reduce runs the kernel on all accelerators, and returns when it has ended.
func (r *ring) reduce() error {
	for _, d := range r.nodes {
		for lane := range r.lanes {
			d.mem.Store(r.signal(lane), 0)
		}
	}
	for _, d := range r.nodes {
		if err := d.stream.Launch(accel.Grid{Blocks: 1, Threads: r.lanes}, d.kernel); err != nil {
			return err
		}
	}
	for _, d := range r.nodes {
		if err := d.stream.Sync(); err != nil {
			return fmt.Errorf("accelerator %d: %w", d.id, err)
		}
	}
	return nil
}

// copies moves the bytes of an all-reduce by plain copies, from and to the same
// places. It copies chunk by chunk and step by step, so that copies of the same bytes
// are as close to each other in time as those of the lanes.
func (r *ring) copies() {
	for chunk := range r.chunks {
		for step := range 2 * (r.n - 1) {
			for id, d := range r.nodes {
				off, bytes := r.segment(chunk, id-step)
				to := off
				if step < r.n-1 {
					to = r.inbox(chunk%r.lanes, step)
				}
				copy(r.nodes[(id+1)%r.n].mem.Bytes()[to:to+bytes], d.mem.Bytes()[off:])
			}
		}
	}
}

// value returns element i of accelerator id at the beginning of a round. It is an
// integer, and small enough that sums are exact.
func value(round, id, i int) float32 { return float32((i*(id+1) + 31*id + round) % 4096) }

func (r *ring) fill(round int) {
	for id, d := range r.nodes {
		for i := range r.elements {
			d.floats[r.array()/4+i] = value(round, id, i)
		}
	}
}

// check compares all arrays with the serial sum.
func (r *ring) check(round int) error {
	for i := range r.elements {
		sum := float32(0)
		for id := range r.nodes {
			sum += value(round, id, i)
		}
		for id, d := range r.nodes {
			if got := d.floats[r.array()/4+i]; got != sum {
				return fmt.Errorf("element %d of accelerator %d is %v; the serial sum is %v", i, id, got, sum)
			}
		}
	}
	return nil
}
