package machine

import (
	"fmt"
	"math/bits"

	"github.com/nicless/nicless/accel/ptx/internal/code"
	"github.com/nicless/nicless/accel/ptx/internal/order"
)

// An mbarrier is a word: its phase in bit 63, how many arrivals it needs in each phase in bits 42 to 61,
// how many are missing in bits 22 to 41, and how many bytes are missing, as a number with a sign, in bits 0
// to 21.
const (
	barrierCount  = 1<<20 - 1 // the most arrivals
	expectedShift = 42
	pendingShift  = 22
	bytesBits     = 22
)

// mbarrier executes an operation of an mbarrier. Only the worker of the block reaches its shared memory.
func (w *warp) mbarrier(i *code.Inst, mask uint32, base, pbase int32) {
	w.drain(order.System, true, mask) // it has proxies of its own, which see memory
	b, c := w.source(i.B, base), w.source(i.C, base)
	d := &w.regs[base+i.D]
	if i.More.Kind == code.MBarrierPending {
		a := w.source(i.A, base)
		for _, l := range lanesOf(mask) {
			d[l] = a[l] >> pendingShift & barrierCount
		}
		return
	}
	from := w.source(i.A, base)
	for m := mask; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m)
		at := w.reach(i, l, from[l], &i.More.Access)
		switch i.More.Kind {
		case code.MBarrierInit:
			if b[l] == 0 || b[l] > barrierCount {
				w.fail(l, fmt.Sprintf("mbarrier for %d arrivals; 1 to %d are possible", b[l], barrierCount))
			}
			store(at, 8, b[l]<<expectedShift|b[l]<<pendingShift)
		case code.MBarrierInvalidate:
			store(at, 8, 0)
		case code.MBarrierExpect:
			w.arriveAt(l, at, 0, int64(int32(b[l])), false)
		case code.MBarrierComplete:
			w.arriveAt(l, at, 0, -int64(int32(b[l])), false)
		case code.MBarrierArrive:
			d[l] = w.arriveAt(l, at, b[l], int64(int32(c[l])), i.More.Distinct)
		default:
			w.debt = pollCost
			phase, want := load(at, 8)>>63, b[l]&1
			if !i.More.Distinct {
				want = b[l] >> 63
			}
			p := &w.preds[pbase+int32(i.P)]
			*p = *p&^(1<<l) | bit(phase != want)<<l
		}
	}
}

// arriveAt counts arrivals and bytes at an mbarrier, and returns what it was before. If nothing is missing
// then, the next phase begins.
func (w *warp) arriveAt(l int, at, arrivals uint64, bytes int64, drop bool) uint64 {
	old := load(at, 8)
	expected, pending := old>>expectedShift&barrierCount, old>>pendingShift&barrierCount
	if arrivals > pending {
		w.fail(l, fmt.Sprintf("%d arrivals at an mbarrier at which %d are missing", arrivals, pending))
	}
	pending -= arrivals
	if drop {
		expected -= arrivals
	}
	missing := int64(old<<(64-bytesBits))>>(64-bytesBits) + bytes
	phase := old >> 63
	if pending == 0 && missing == 0 {
		phase ^= 1
		pending = expected
	}
	store(at, 8, phase<<63|expected<<expectedShift|pending<<pendingShift|uint64(missing)&(1<<bytesBits-1))
	return old
}

// bulkCopy copies, and counts the bytes at an mbarrier.
func (w *warp) bulkCopy(i *code.Inst, mask uint32, base int32) {
	w.drain(order.System, true, mask)
	k := i.More.Bulk
	to, from, size := w.source(i.A, base), w.source(i.B, base), w.source(i.C, base)
	barrier := w.source(i.More.Slots[0], base)
	for _, l := range lanesOf(mask) {
		n := size[l]
		whole := max(n, k.Fill)
		if k.Fill > 0 && n > k.Fill {
			w.fail(l, fmt.Sprintf("a copy to %d bytes reads %d", k.Fill, n))
		}
		for _, v := range [...]uint64{to[l], from[l], whole} {
			if v%k.Align != 0 {
				w.misaligned(l, v, k.Align)
			}
		}
		d, s := w.span(l, to[l], whole, k.To), uint64(0)
		if n > 0 {
			s = w.span(l, from[l], n, k.From)
		}
		if k.Reduce {
			a := &i.More.Access
			for at := uint64(0); at < n; at += uint64(a.Size) {
				w.block.exchange(a, d+at, load(s+at, a.Size), 0)
			}
		} else {
			copyBytes(d, s, int64(n))
			for ; n < k.Fill; n++ {
				store(d+n, 1, 0)
			}
		}
		if k.Barrier {
			a := code.Access{Space: code.Shared, Size: 8, Count: 1}
			w.arriveAt(l, w.reach(&code.Inst{}, l, barrier[l], &a), 0, -int64(n), false)
		}
	}
}
