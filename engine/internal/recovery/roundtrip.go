//go:build linux && (amd64 || arm64)

package recovery

import (
	"time"

	"github.com/nicless/nicless/internal/clock"
)

// unknown is the silence while no round trip was measured: many of those within a rack. On a path across an
// ocean, of 300 ms, it costs five packets before the first answer.
const unknown = 10 * time.Millisecond

// A RoundTrip estimates the round-trip time of a path, from the first send of a packet to the answer that
// acknowledges it (RFC 6298, with the same weights). All times are in cycles of the device clock. The zero
// value knows nothing.
type RoundTrip struct {
	mean, deviation uint64
}

// shortest is the shortest silence: four ticks of the engine's timers, which are not more exact.
const shortest = 64 * time.Microsecond

// longest is the longest silence: more than that of a path through a geostationary satellite, whose round
// trip takes 600 ms. A measured time that is longer is that of a thread at one of the ends that had no
// processor, or of an end that was suspended. Without the limit, a packet that is lost after 30 s of that
// waits for longer still.
const longest = time.Second

// Add takes a measured time.
func (r *RoundTrip) Add(d uint64) {
	d = max(d, 1)
	if r.mean == 0 {
		r.mean, r.deviation = d, d/2
		return
	}
	off := max(d, r.mean) - min(d, r.mean)
	r.deviation += off/4 - r.deviation/4
	r.mean = max(r.mean+d/8-r.mean/8, 1)
}

// Mean returns the estimated round-trip time: 0 if none was measured.
func (r *RoundTrip) Mean() uint64 { return r.mean }

// Silence returns after which time without an answer a queue pair probes: the mean and four deviations, and
// at least one and a half times the mean. On a path whose times differ little, that is within two round
// trips. It is not longer than longest.
func (r *RoundTrip) Silence() uint64 {
	if r.mean == 0 {
		return clock.Cycles(unknown)
	}
	silence := r.mean + max(4*r.deviation, r.mean/2)
	return min(max(silence, clock.Cycles(shortest)), clock.Cycles(longest))
}
