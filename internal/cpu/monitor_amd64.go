package cpu

import "github.com/klauspost/cpuid/v2"

// canMonitor is CPUID leaf 7, ecx bit 5, WAITPKG.
var canMonitor = cpuid.CPU.Supports(cpuid.WAITPKG)

//go:noescape
func umonitor(addr *uint32)

//go:noescape
func umwait(cycles uint32)

//go:noescape
func tpause(cycles uint32)
