//go:build !amd64 && !arm64

package cpu

// Relax does nothing on this processor.
func Relax(uint32) {}
