// Package procmem accesses the memory of other processes. It finds what is mapped at an
// address of another process (vma_linux_unsafe.go). It copies to and from memory that is not
// mapped in this process, by system calls (copy_linux_unsafe.go).
package procmem
