package accel

import "github.com/nicless/nicless/hostpath"

// A Ref is a place in registered memory of this side or of a peer. It consists of an
// address and the key for that address.
type Ref struct {
	Addr uint64
	Key  uint32
}

// At returns the place n bytes after r.
func (r Ref) At(n int) Ref { return Ref{r.Addr + uint64(n), r.Key} }

func (r Ref) sge(n int) hostpath.SGE {
	length := uint32(n)
	if n < 0 || uint64(n) > 1<<31 {
		length = 1<<32 - 1 // posting refuses this length, and the error contains it
	}
	return hostpath.SGE{Addr: r.Addr, Length: length, LKey: r.Key}
}

// Put writes n bytes at src to dst, which is in memory of the peer (RDMA WRITE). Put and the
// methods for other requests return as soon as the request is posted. Quiet waits until the
// requests are complete, and returns an error if one of them has failed.
func (t *Thread) Put(q *Queue, dst, src Ref, n int) {
	t.drainPuts()
	sge := [1]hostpath.SGE{src.sge(n)}
	t.post("Put", q, []hostpath.SendWR{{
		Op: hostpath.OpWrite, SGE: sge[:], RemoteAddr: dst.Addr, RKey: dst.Key,
	}})
}

// PutInline writes data to dst, which is in memory of the peer. The data is copied into the
// request, and may be changed as soon as PutInline returns. The data must not be longer than
// the queue pair's MaxInline.
func (t *Thread) PutInline(q *Queue, dst Ref, data []byte) {
	t.drainPuts()
	t.post("PutInline", q, []hostpath.SendWR{{
		Op: hostpath.OpWrite, Data: data, RemoteAddr: dst.Addr, RKey: dst.Key,
	}})
}

// Get reads n bytes at src, which is in memory of the peer, into dst (RDMA READ).
func (t *Thread) Get(q *Queue, dst, src Ref, n int) {
	t.drainPuts()
	sge := [1]hostpath.SGE{dst.sge(n)}
	t.post("Get", q, []hostpath.SendWR{{
		Op: hostpath.OpRead, SGE: sge[:], RemoteAddr: src.Addr, RKey: src.Key,
	}})
}

// Send sends n bytes at src as a message, which takes a receive that the peer has posted.
func (t *Thread) Send(q *Queue, src Ref, n int) {
	t.drainPuts()
	sge := [1]hostpath.SGE{src.sge(n)}
	t.post("Send", q, []hostpath.SendWR{{Op: hostpath.OpSend, SGE: sge[:]}})
}

// PutSignal writes n bytes at src to dst, and then atomically adds v to the 8 bytes at the
// place signal (nvshmem_put_signal with NVSHMEM_SIGNAL_ADD). Both dst and signal are in memory
// of the peer. A reader that sees the sum also sees the bytes. No other request of the queue
// comes between the write and the addition.
func (t *Thread) PutSignal(q *Queue, dst, src Ref, n int, signal Ref, v uint64) {
	t.drainPuts()
	sge := [2]hostpath.SGE{src.sge(n), q.x.Sink}
	t.post("PutSignal", q, []hostpath.SendWR{
		{Op: hostpath.OpWrite, SGE: sge[:1], RemoteAddr: dst.Addr, RKey: dst.Key},
		{Op: hostpath.OpFetchAdd, SGE: sge[1:], RemoteAddr: signal.Addr, RKey: signal.Key, SwapAdd: v},
	})
}

// AtomicAdd adds v to the 8 bytes at dst, which is in memory of the peer.
func (t *Thread) AtomicAdd(q *Queue, dst Ref, v uint64) {
	t.fetchAdd("AtomicAdd", q, dst, v, q.x.Sink)
}

// FetchAdd adds v to the 8 bytes at dst, which is in memory of the peer, and writes their old
// value to the 8 bytes at the local place result.
func (t *Thread) FetchAdd(q *Queue, dst Ref, v uint64, result Ref) {
	t.fetchAdd("FetchAdd", q, dst, v, result.sge(8))
}

func (t *Thread) fetchAdd(what string, q *Queue, dst Ref, v uint64, result hostpath.SGE) {
	t.drainPuts()
	sge := [1]hostpath.SGE{result}
	t.post(what, q, []hostpath.SendWR{{
		Op: hostpath.OpFetchAdd, SGE: sge[:], RemoteAddr: dst.Addr, RKey: dst.Key, SwapAdd: v,
	}})
}

// CompareSwap stores the value swap in the 8 bytes at dst, which is in memory of the peer, if
// their value is equal to the argument compare. It writes their old value to the 8 bytes at
// the local place result.
func (t *Thread) CompareSwap(q *Queue, dst Ref, compare, swap uint64, result Ref) {
	t.drainPuts()
	sge := [1]hostpath.SGE{result.sge(8)}
	t.post("CompareSwap", q, []hostpath.SendWR{{
		Op: hostpath.OpCompareSwap, SGE: sge[:], RemoteAddr: dst.Addr, RKey: dst.Key,
		Compare: compare, SwapAdd: swap,
	}})
}
