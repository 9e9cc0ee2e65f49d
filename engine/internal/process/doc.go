// Package process reads and writes memory of another process that the device has not mapped, as long as
// the process is the one that it was when its client named it.
//
// # Files
//
//   - process.go: begin and end of the use of a process; ranges that may be registered
//   - guard.go: each copy checks that the pid still belongs to the same program
//   - errors.go: why the kernel refused access to the memory, and the cure
package process
