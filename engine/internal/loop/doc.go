// Package loop is the life of the device's threads: it visits queues, takes turns among clients, sleeps
// while there is no work, and divides clients among threads.
//
// A Loop is a thread with all its layers. A Runner has the loops of a device.
//
// # Files
//
//   - runner.go, new.go: the loops of all threads; a new device
//   - run.go, thread.go, stop.go: Run; threads and their cores; an orderly stop
//   - shard.go, steps.go: one step; batches of steps, and faults of memory that end them
//   - active.go, visit.go: turns of clients, the patrol of cold queues; a visit to a queue
//   - crossing.go, balance.go: work that needs two shards' locks; assignment of clients to shards
//   - idle.go, look.go, monitor.go: spin, yield, nap or sleep; looks for work before a nap or a sleep; UMWAIT
package loop
