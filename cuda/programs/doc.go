// Package programs has tests only: CUDA programs, compiled by clang without NVIDIA's tools, run with the
// libraries of this module, without a GPU.
package programs
