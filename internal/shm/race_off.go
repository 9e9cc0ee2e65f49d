//go:build !race

package shm

// RaceEnabled reports whether the race detector watches this program.
const RaceEnabled = false
