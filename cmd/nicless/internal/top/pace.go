//go:build linux && (amd64 || arm64)

package top

import "time"

// A share of the processor that the screen may take of its own core: one part in dilution.
const dilution = 100

// mostPause bounds the time between two questions, so that a moment in which the machine was slow is not paid
// for long.
const mostPause = time.Minute

// pauseAfter returns how long to wait after a refresh that has taken this processor time.
func pauseAfter(cost, interval time.Duration) time.Duration {
	return max(interval, min(dilution*cost, mostPause))
}
