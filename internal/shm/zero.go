package shm

import (
	"errors"
	"runtime"
	"runtime/debug"
)

// errNoPages says why zeros could not be stored.
var errNoPages = errors.New("shm: pages of the memory are not there: the file was made shorter, or its file system is full")

// Zero fills b with zeros, and so allocates its pages. It returns an error if the memory has no
// such pages: a plain store would end the program (SIGBUS).
func Zero(b []byte) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		fault, ok := r.(runtime.Error)
		var at interface{ Addr() uintptr }
		if !ok || !errors.As(fault, &at) {
			panic(r)
		}
		err = errNoPages
	}()
	clear(b)
	return nil
}
