// Package loop is the life of the device's threads: it visits queues, takes turns among clients, sleeps
// while there is no work, and divides clients among threads.
//
// A Loop is a thread with all its layers. A Runner has the loops of a device.
//
// # Files
//
//   - runner.go: the loops of all threads; decides nothing
//   - new.go: makes the loops of a new device
//   - run.go: the order of a run: start, steps, orderly stop
//   - thread.go: on which cores a thread runs, and whether it shares them
//   - stop.go: what is still executed at the end, and how long that may take
//   - shard.go: the parts of one step, and their order
//   - load.go: for how long the thread had work, by an estimate
//   - commands.go: carries out what rules of faults command; decides nothing
//   - steps.go: when a batch of steps ends; how the thread goes on after a fault of memory (RecoverFault)
//   - active.go: whose turn it is, whether a queue has work (HasWork), which cold queues are polled (patrol)
//   - visit.go: what a visit to a queue does: executes, flushes, or postpones the queue
//   - prefetch.go: which lines of later visits are fetched (manyWarm, visitsAhead)
//   - watched.go: how a watched queue is visited: its blocks are copied, recorded, and executed from the copy
//   - recorded.go: copies payload through private memory, and records it for a replay
//   - planned.go: when what is planned for a time is done, between steps
//   - rung.go: until when a queue waits whose doorbell is late by a rule of faults
//   - crossing.go: when postponed visits are made, under two locks, and whether work crosses shards
//   - balance.go: which shard a client is in, and whether it may move
//   - idle.go: whether a thread without work spins, yields, naps or sleeps, for how long, and who can wake it
//   - look.go: which queues are looked at before a nap or a sleep, and whether there is work
//   - lend.go: which steps goroutines of the program run while the thread sleeps, and when they wake it
//   - late.go: which clients get events that found their socket full
//   - monitor.go: when the core rests between steps (UMWAIT), and what ends the rest
package loop
