//go:build linux && (amd64 || arm64)

// Package pagefault recognises faults of memory: a page of a mapping has nothing behind it.
// debug.SetPanicOnFault makes panics of them.
package pagefault

import (
	"errors"
	"runtime"
)

// Of returns the address of a fault of memory, given the value that was recovered.
func Of(r any) (addr uintptr, ok bool) {
	err, ok := r.(runtime.Error)
	var fault interface{ Addr() uintptr }
	if !ok || !errors.As(err, &fault) {
		return 0, false
	}
	return fault.Addr(), true
}
