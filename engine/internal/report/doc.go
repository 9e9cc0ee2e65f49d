// Package report explains in words what goes wrong: it has explanations of faults, of mistakes that
// hardware ignores, and of delays that a client's memory has caused.
//
// A Reporter is the first layer above object.Shard. The thread also measures its own progress here, and takes
// its locks here, because the time for which it waits for a lock is not a client's fault.
//
// # Files
//
//   - explain.go: explanations: the clients that get them, and how many
//   - why.go: the reason of a fault
//   - record.go: doorbell records: what they announce, values that cannot be right
//   - suspicion.go: mistakes that hardware ignores
//   - progress.go, lock.go, delay.go: time for which memory of clients delays the thread
//   - watchdog.go: a goroutine that reports threads that are stuck
//   - status.go: when status pages are written
package report
