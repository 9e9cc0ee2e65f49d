//go:build !amd64 && !arm64

package cpu

// CanPrefetchWrite reports whether PrefetchWrite has an effect.
const CanPrefetchWrite = false

// PrefetchWrite does nothing on this processor.
func PrefetchWrite(*[4 * 64]byte) {}

// PrefetchLines does nothing on this processor.
func PrefetchLines(*byte, uint64) {}
