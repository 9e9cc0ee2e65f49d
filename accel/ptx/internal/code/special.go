package code

import "github.com/nicless/nicless/accel/ptx/internal/syntax"

// SpecialRegister is the number of a special register.
type SpecialRegister int

// The special registers. X, Y and Z follow each other.
const (
	Tid SpecialRegister = 3 * iota
	NTid
	CTAID
	NCTAID
	ClusterID
	NClusterID
	ClusterCTAID
	ClusterNCTAID
	afterVectors
)

// Those that are no vectors.
const (
	LaneID SpecialRegister = afterVectors + iota
	WarpID
	NWarpID
	SMID
	NSMID
	GridID
	ClusterCTARank
	ClusterNCTARank
	IsExplicitCluster
	LaneMaskEq
	LaneMaskLe
	LaneMaskLt
	LaneMaskGe
	LaneMaskGt
	Clock
	ClockHigh
	Clock64
	GlobalTimer
	GlobalTimerLow
	GlobalTimerHigh
	TotalSharedSize
	AggregatedSharedSize
	DynamicSharedSize
	EnvReg0             // to EnvReg0 + 31
	NumSpecialRegisters = EnvReg0 + 32
)

var vectors = map[string]SpecialRegister{
	"%tid": Tid, "%ntid": NTid, "%ctaid": CTAID, "%nctaid": NCTAID, "%clusterid": ClusterID,
	"%nclusterid": NClusterID, "%cluster_ctaid": ClusterCTAID, "%cluster_nctaid": ClusterNCTAID,
}

var scalars = map[string]SpecialRegister{
	"%laneid": LaneID, "%warpid": WarpID, "%nwarpid": NWarpID, "%smid": SMID, "%nsmid": NSMID,
	"%gridid":          GridID,
	"%cluster_ctarank": ClusterCTARank, "%cluster_nctarank": ClusterNCTARank,
	"%is_explicit_cluster": IsExplicitCluster,
	"%lanemask_eq":         LaneMaskEq, "%lanemask_le": LaneMaskLe, "%lanemask_lt": LaneMaskLt,
	"%lanemask_ge": LaneMaskGe, "%lanemask_gt": LaneMaskGt,
	"%clock": Clock, "%clock_hi": ClockHigh, "%clock64": Clock64,
	"%globaltimer": GlobalTimer, "%globaltimer_lo": GlobalTimerLow, "%globaltimer_hi": GlobalTimerHigh,
	"%total_smem_size": TotalSharedSize, "%aggr_smem_size": AggregatedSharedSize,
	"%dynamic_smem_size": DynamicSharedSize,
}

// wide are those that have 64 bits.
var wide = map[SpecialRegister]bool{GridID: true, Clock64: true, GlobalTimer: true}

// special returns the special register that an operand names, and its bits.
func special(o syntax.Operand) (s SpecialRegister, width int, ok bool) {
	if first, isVector := vectors[o.Name]; isVector {
		switch o.Part {
		case "x":
			return first, 32, true
		case "y":
			return first + 1, 32, true
		case "z":
			return first + 2, 32, true
		}
		return 0, 0, false
	}
	if o.Part != "" {
		return 0, 0, false
	}
	if s, ok = scalars[o.Name]; !ok {
		var n int
		n, ok = environment(o.Name)
		s = EnvReg0 + SpecialRegister(n)
	}
	if wide[s] {
		return s, 64, ok
	}
	return s, 32, ok
}

// environment returns the number of %envreg0 to %envreg31.
func environment(name string) (int, bool) {
	for n := range 32 {
		if name == envNames[n] {
			return n, true
		}
	}
	return 0, false
}

var envNames = func() (names [32]string) {
	for n := range names {
		names[n] = "%envreg" + string(rune('0'+n/10)) + string(rune('0'+n%10))
		if n < 10 {
			names[n] = "%envreg" + string(rune('0'+n))
		}
	}
	return names
}()
