// Package ptx executes kernels that compilers have made for NVIDIA's GPUs: PTX, versions 6.0 to 9.x. Threads
// of the host execute them on the memory of the process, so they post to the device as they do on a GPU.
//
// # Terms
//
// A module is a PTX text, as nvcc -ptx or clang write it. A program is modules that are linked. Its kernels
// are launched as a grid of blocks of lanes; 32 lanes of a block are a warp. A space is the memory that the
// kernels of a GPU reach, besides what belongs to the grid: what was allocated for them, and host memory
// that was registered.
//
// # Execution
//
// All blocks of a grid are resident together, and all lanes make progress by themselves, so lanes may wait
// for each other in every way. A worker is a thread that executes some of the blocks, one warp after the
// other; lanes of a warp that are at the same instruction are executed together. A worker whose lanes only
// look for something yields its core.
//
// # Errors
//
// A module that is no PTX is refused with the line and the column. A form that is not known is an error of
// the kernels that may reach it, when they are asked for. A lane that cannot go on ends the grid: Run
// returns a *Fault. Memory outside the space, and outside the grid's own, is not reached. Threads of a
// block that all wait for each other end the grid with a *Deadlock. A kernel that does not end goes on
// until its context ends.
//
// # Files, in reading order
//
//	program.go   modules become a program
//	kernel.go    kernels and their parameters
//	run.go       a grid is executed
//	fault.go     why it ended early
//	space.go     the memory that kernels reach
//
// Package internal/syntax reads PTX, internal/code makes it the machine's instructions, internal/alu
// computes, and internal/machine executes.
package ptx
