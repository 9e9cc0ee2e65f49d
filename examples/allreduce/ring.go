//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/accel"
)

// What is under way at once is what the caches should hold; a piece is long
// enough to outweigh its request and short enough for the others to wait for.
const (
	pieceBytes = 128 << 10 // of a segment, at most
	mostLanes  = 8         // chunks under way at once
)

// A ring is accelerators of which each puts into the memory of the next.
type ring struct {
	n, elements   int
	chunks, lanes int
	slot          int // bytes of the longest segment
	nodes         []*node
}

// A node is one accelerator. Its memory begins with a signal for each lane, on a
// cache line of its own; then N-1 slots for each lane, where partial sums come
// in; then the array.
type node struct {
	*ring
	id     int
	mem    *accel.Buffer
	floats []float32 // all of mem
	dev    *accel.Device
	stream *accel.Stream
	queue  *accel.Queue // to the next
}

const signalBytes = 64 // a cache line, of which 8 are used

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
	idle, err := nic.CreateCQ(nicless.CQConfig{PollOnly: true}) // a collapsed one is one queue's alone
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
	if d.queue, err = accel.NewQueue(export); err != nil {
		return nil, err
	}
	if d.dev, err = accel.New(accel.Config{CPUs: cores}); err != nil {
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

// Where things lie in the memory of every node, in bytes.
func (r *ring) signal(lane int) int      { return lane * signalBytes }
func (r *ring) inbox(lane, step int) int { return r.lanes*signalBytes + (lane*(r.n-1)+step)*r.slot }
func (r *ring) array() int               { return r.inbox(r.lanes, 0) }

// segment returns where segment s of a chunk lies, and its bytes. There may be
// none: an array may have fewer elements than there are segments.
func (r *ring) segment(chunk, s int) (off, bytes int) {
	s = (s%r.n + r.n) % r.n
	first := chunk * r.elements / r.chunks
	size := (chunk+1)*r.elements/r.chunks - first
	from, to := first+s*size/r.n, first+(s+1)*size/r.n
	return r.array() + 4*from, 4 * (to - from)
}

// kernel is what each lane of each accelerator executes: chunk by chunk, all
// steps. It signals the next node, and counts the signals of the one before. When
// it has all of a chunk, the next node has read the lane's whole inbox, since the
// sums went through it: the next chunk may come there.
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

// numbers returns numbers of the node's memory.
func (d *node) numbers(off, bytes int) []float32 { return d.floats[off/4 : (off+bytes)/4] }

// add adds src to dst, eight at a time: one at a time takes three times as long.
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
// places, as close to each other in time as the lanes do.
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

// value is what accelerator id begins a round with in element i: an integer, so
// small that sums are exact.
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
