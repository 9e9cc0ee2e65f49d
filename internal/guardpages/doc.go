// Package guardpages finds the first access of this process to a page of memory that it has handed over, such
// as a page of a receive buffer while the receive is posted. Such a page is protected (PROT_NONE). An access
// raises SIGSEGV. The handler of this package opens the page, sends a record to a goroutine, and returns, so
// that the instruction is executed again and the program goes on.
//
// The handler is assembly and runs on the thread that has made the access. It needs no goroutine, lock or
// memory of the Go runtime, because the access can be where Go cannot be preempted: in copy (memmove), or
// while all goroutines are being stopped. docs/design/0088-guard-pages.md says why userfaultfd cannot
// do that. Signals that are not about a protected page go to the handler that was there before, which is
// that of the Go runtime.
//
// Only accesses by instructions of this process through the protected mapping are found. Another process, or
// another mapping of the same memory in this process, is not affected. A system call that gets an address in
// a protected page returns EFAULT and is not found.
//
// # Files
//
//   - fault.go: Fault, an access that was found
//   - pages.go: Pages, the memory of which parts can be protected
//   - record.go: the records of the handler, and the goroutine that reads them
//   - stack.go: the calls that have led to an access
//   - signal_unsafe.go: installs the handler, and keeps the table in which it looks
//   - signal_linux_amd64.s: the handler
//   - guardpages_other.go: systems without all that
package guardpages
