//go:build !linux

package clock

// systemMonotonic is not known. So the monotonic clock begins with the process.
func systemMonotonic() uint64 { return 0 }
