//go:build linux && (amd64 || arm64)

package object

import (
	"errors"
	"runtime"
)

// NoPage is the explanation of a fault of memory; its argument is the address.
const NoPage = "memory at %#x of the device's mapping has no page behind it"

// FaultOf returns the address of a fault of memory, given the value that was recovered.
func FaultOf(r any) (addr uintptr, ok bool) {
	err, ok := r.(runtime.Error)
	var fault interface{ Addr() uintptr }
	if !ok || !errors.As(err, &fault) {
		return 0, false
	}
	return fault.Addr(), true
}
