//go:build !linux

package cpu

import "runtime"

// Uniprocessor reports whether only one goroutine of this program runs at a time, because
// the program has one core or one P.
func Uniprocessor() bool { return runtime.NumCPU() == 1 || runtime.GOMAXPROCS(0) == 1 }

// Yield lets other goroutines of this program run.
func Yield() { runtime.Gosched() }
