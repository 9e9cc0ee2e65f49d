// Package report explains in words what goes wrong: it has explanations of faults, of mistakes that
// hardware ignores, and of delays that a client's memory has caused.
//
// A Reporter is the first layer above object.Shard. The thread also measures its own progress here, and takes
// its locks here, because the time for which it waits for a lock is not a client's fault.
//
// # Files
//
//   - explain.go: which client gets an explanation, and whether it also goes to the log
//   - watched.go: records states, failures and explanations of a watched queue
//   - carry.go: which explanation the completion of a WQE or receive carries, and the flushes after it
//   - failure_reason.go: the reason why a key gives no access, a peer is not reached, or a CQ has no room
//   - announce.go: what registers announce, and what has arrived of it (Admit); decided in package announce
//   - record.go: how many blocks are announced (Pending), and whether a doorbell record cannot be right
//   - diagnose.go: whether something looks wrong that hardware ignores: byte order, register, index, and for
//     how long
//   - progress.go: whether a visit or a poll took too long, and whether its queue or client is known; only
//     then is it explained
//   - lock.go: whether a shard waits for another shard's lock, and wakes that shard afterwards
//   - delay.go: which memory of which client is named as the cause of a delay
//   - watchdog.go: whether a thread is stuck, at memory or for want of a core, and when that is logged
//   - status.go: whether a status page is old enough to be written again
package report
