// Package report explains in words what goes wrong: it has explanations of faults, of mistakes that
// hardware ignores, and of delays that a client's memory has caused.
//
// A Reporter is the first layer above object.Shard. The thread also measures its own progress here, and takes
// its locks here, because the time for which it waits for a lock is not a client's fault.
//
// # Files
//
//   - explain.go: explanations: the clients that get them, and how many
//   - failure_reason.go: why a key gives no access, a peer does not answer, or a completion queue has no room
//   - record.go: doorbell records: what they announce, values that cannot be right
//   - diagnose.go: mistakes that hardware ignores: a wrong record, a register without a record, a wrong index
//   - progress.go: whether a visit or a poll has taken too long
//   - lock.go: ticket locks of shards, whose waits do not count as delays
//   - delay.go: explanations of delays: which memory of which client
//   - watchdog.go: a goroutine that reports threads that are stuck
//   - status.go: when status pages are written
package report
