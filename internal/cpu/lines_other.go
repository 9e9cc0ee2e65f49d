//go:build !amd64 && !arm64

package cpu

// LineSize is the size of a cache line in bytes.
const LineSize = 64

// CanFlushLines reports whether WriteBackLines and InvalidateLines work on this machine.
func CanFlushLines() bool { return false }

// WriteBackLines does nothing on this processor.
func WriteBackLines([]byte) {}

// InvalidateLines does nothing on this processor.
func InvalidateLines([]byte) {}
