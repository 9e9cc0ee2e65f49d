// Package gpu is what CUDA's runtime and driver do for a program, without a GPU: devices, memory, streams,
// events, modules and launches. Kernels are executed by package ptx on threads of the program. The C
// functions of CUDA are thin over it (package main of cuda/lib), so everything here is called by Go and can
// be tested so.
//
// # Terms
//
// Addresses are numbers: those of the process, for host and device alike. A Code is an error as CUDA's
// runtime numbers it. A task is something that a stream does, and waits for the tasks before it.
//
// # Errors
//
// As on a GPU, an error of a kernel is one of its device: every later call returns it. The mistake of
// the kernel is written to standard error, with kernel, block, thread and line.
//
// # Files, in reading order
//
//	code.go      error codes
//	system.go    the devices of a program, and its functions and variables
//	device.go    a device and what it says of itself
//	memory.go    memory of devices, and host memory that they reach
//	ordered.go   memory that is freed and allocated in the order of a stream
//	copy.go      copies, and values that are stored
//	stream.go    streams, events and their order
//	module.go    fat binaries become programs
//	launch.go    kernels are executed
package gpu
