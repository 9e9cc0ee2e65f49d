// Package procmem is the memory of other processes: what is mapped at an address of one
// (vma_linux_unsafe.go), and copying to and from it by system call, where it is not mapped
// here (copy_linux_unsafe.go).
package procmem
