//go:build linux && (amd64 || arm64)

package bench

import "github.com/HdrHistogram/hdrhistogram-go"

// A sample is a figure, and the part of the measurement's time that was disturbed.
type sample struct {
	value float64
	lost  float64
}

// unsteady is the largest ratio of two measurements of the floor, before and after a sample of
// the device, at which the sample counts as undisturbed.
const unsteady = 1.25

// steady returns the mean of two measurements of the floor, before and after the device. If they
// differ by more than unsteady, the distance of the cores has changed, which can happen in
// virtual machines. All of the time then counts as disturbed.
func (s sample) steady(again sample) sample {
	a, b := s.value, again.value
	mean := sample{(a + b) / 2, max(s.lost, again.lost)}
	if max(a, b) > unsteady*min(a, b) {
		mean.lost = 1
	}
	return mean
}

// pairOf is a sample of the device, and the sample of the floor that was taken just before, or the mean
// of one before and one after.
type pairOf struct {
	floor, device sample
	times         *hdrhistogram.Histogram // of Latency: times of single operations in ns; nil: not measured

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
