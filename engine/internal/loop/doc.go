// Package loop is the life of the device's threads: it visits queues, takes turns among clients, sleeps
// while there is no work, and divides clients among threads.
//
// A Loop is a thread with all its layers, a Runner has the loops of a device.
//
// # Files
//
//   - runner.go, new.go, shard.go: the loops of all threads; a new device; one step
//   - active.go, visit.go: turns of clients, the patrol of cold queues; a visit to a queue
//   - crossing.go, balance.go: work between two shards; assignment of clients to shards
//   - run.go, steps.go: Run; batches of steps, and faults of memory that end them
//   - thread.go, stop.go: threads; an orderly stop
//   - idle.go, look.go, monitor.go: spin, yield, nap or sleep; the looks before that; UMWAIT
package loop
