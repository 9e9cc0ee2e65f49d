package machine

import (
	"math/bits"
	"time"

	"github.com/nicless/nicless/accel/ptx/internal/code"
)

var begun = time.Now()

// special returns the value of a special register.
func (w *warp) special(s code.SpecialRegister, l int) uint64 {
	b := w.block
	launch := &b.grid.launch
	switch {
	case s < code.NTid:
		thread := uint32(w.index*Lanes + l)
		x, y := launch.Block[0], launch.Block[1]
		switch s - code.Tid {
		case 0:
			return uint64(thread % x)
		case 1:
			return uint64(thread / x % y)
		}
		return uint64(thread / x / y)
	case s < code.CTAID:
		return uint64(launch.Block[s-code.NTid])
	case s < code.NCTAID:
		return uint64(b.index[s-code.CTAID])
	case s < code.ClusterID:
		return uint64(launch.Grid[s-code.NCTAID])
	case s < code.NClusterID:
		return uint64(b.index[s-code.ClusterID])
	case s < code.ClusterCTAID:
		return uint64(launch.Grid[s-code.NClusterID])
	case s < code.ClusterNCTAID:
		return 0
	case s < code.LaneID:
		return 1
	}
	switch s {
	case code.LaneID:
		return uint64(l)
	case code.WarpID:
		return uint64(w.index)
	case code.NWarpID, code.NSMID:
		return uint64(len(b.warps))
	case code.ClusterNCTARank:
		return 1
	case code.LaneMaskEq:
		return 1 << l
	case code.LaneMaskLe:
		return 2<<l - 1
	case code.LaneMaskLt:
		return 1<<l - 1
	case code.LaneMaskGe:
		return -(uint64(1) << l) & full
	case code.LaneMaskGt:
		return -(uint64(2) << l) & full
	case code.GlobalTimer:
		return uint64(time.Now().UnixNano())
	case code.GlobalTimerLow:
		return uint64(uint32(time.Now().UnixNano()))
	case code.GlobalTimerHigh:
		return uint64(time.Now().UnixNano()) >> 32
	case code.Clock64:
		return uint64(time.Since(begun))
	case code.Clock:
		return uint64(uint32(time.Since(begun)))
	case code.ClockHigh:
		return uint64(time.Since(begun)) >> 32
	case code.TotalSharedSize, code.AggregatedSharedSize:
		return b.sharedBytes
	case code.DynamicSharedSize:
		return launch.Shared
	case code.EnvReg0 + 1:
		return b.grid.workspace >> 32
	case code.EnvReg0 + 2:
		return uint64(uint32(b.grid.workspace))
	}
	return 0
}

// longestSleep is the longest that nanosleep sleeps.
const longestSleep = time.Millisecond

// sleep lets lanes wait for some time; those that need not wait go on in the next turn of the warp.
func (w *warp) sleep(i *code.Inst, mask uint32, base int32) bool {
	a, now := w.source(i.A, base), time.Since(begun)
	for m := mask; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m)
		w.wake[l] = now + min(time.Duration(a[l]), longestSleep)
	}
	w.asleep |= mask
	next := w.party.pc + 1
	w.split(mask, next)
	w.party.pc = next
	return false
}
