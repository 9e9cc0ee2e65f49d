// Package alu computes PTX instructions of arithmetic: it has a function of at most three operands for each
// form. It knows nothing of registers, lanes or memory.
//
// Results are those of a GPU, bit for bit: the tests compare them with golden vectors of an H200
// (accel/ptx/testdata). Approximations (.approx, .full) are the exact results rounded once, and GPUs are at
// most as far away from these as the manual allows.
//
// # Files, in reading order
//
//	type.go         types, and how a form is found
//	integer.go      arithmetic of integers
//	bits.go         logic, shifts and fields
//	soft.go         floating-point numbers of all formats, exactly, and how they are rounded
//	float.go        arithmetic of floating-point numbers
//	approximate.go  the functions that GPUs approximate
//	compare.go      comparisons and selections
//	convert.go      conversions
//
// Source: PTX ISA 9.0, section 9.7; where it leaves results open, the vectors.
package alu
