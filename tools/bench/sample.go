//go:build linux && (amd64 || arm64)

package bench

// A sample is a figure, and the part of the measurement's time that was disturbed.
type sample struct {
	value float64
	lost  float64
}

// pairOf is a sample of the device, and the sample of the floor that was taken just before.
type pairOf struct {
	floor, device sample
	percentiles   [len(percentiles)]float64 // percentiles of Latency

	// slowdown is how many times as long additions took, before or after the samples, as
	// beside quiet siblings. It is 0 if that was not measured.
	slowdown float64
}

// lost returns the largest of three parts: the part of the floor's time, and the part of the
// device's time, for which a thread had to wait for a core, and the part of the cores' speed
// that busy siblings took.
func (p pairOf) lost() float64 {
	taken := 0.0
	if p.beside() {
		taken = 1 - 1/p.slowdown
	}
	return max(p.floor.lost, p.device.lost, taken)
}

// beside reports whether the samples were taken beside a busy sibling.
func (p pairOf) beside() bool { return p.slowdown >= busySibling }

// mostLost returns the largest disturbance of the pairs.
func mostLost(pairs []pairOf) (most float64) {
	for _, p := range pairs {
		most = max(most, p.lost())
	}
	return most
}
