// Package object has the state of the device and of everything that clients make: protection domains,
// memory, keys, queues, channels, and the queue pairs' halves of connections over links. Its methods change only
// the object that they belong to. Whatever follows from that in other objects is the work of the packages
// above: report, completion, execution, transport, loop, request.
//
// A Device is what all threads share, a Shard the part of it that one thread serves. Everything above a
// Shard is built by embedding it, layer by layer; a pointer to a Shard, as a Client has it, says to which thread
// something belongs.
//
// # Concurrency
//
// The tables of a Device change only while no shard works. Objects of a client are touched only by
// the thread of its shard, or under the ticket lock of its shard (crossing.go). Names are exported for the
// packages above; none of them is an interface to users.
//
// # Files
//
// The device and its threads:
//
//   - device.go, settings.go: the state that all threads share; what it keeps of engine.Config
//   - shard.go: what one thread serves, and its notes of what it is doing
//   - crossing.go: the locks of several shards
//   - mailbox.go, bringing.go: functions that run between two steps; whether they wake a thread
//   - roster.go: clients that have objects of one kind, and take turns
//   - warm.go: warm and cold queues; the lists of both
//   - pass.go, progress.go: how far a look has come; what the watchdog reads
//   - fault.go: the address of a fault of memory
//   - timer.go: a wheel of timers
//
// Objects of clients:
//
//   - client.go, status.go: a client, and its status page
//   - board.go, audience.go: announcements, and which clients may read them
//   - peer.go: what a client has said of a queue pair's peer; paths that users hold
//   - region.go, uar.go, process.go, process_guard.go, process_errors.go: memory
//   - unmapped.go: stretches of memory of a process that is not mapped
//   - access.go, key.go, keylist.go: rights; keys and their table; keys that are lists
//   - cq.go, compress.go, inline.go: completion queues, sessions of compressed completions, short data
//   - arm.go: arming and moderation
//   - event.go, notifier.go: channels, events, and who sends them
//   - qp.go, states.go: queue pairs; the table of their states
//   - blueflame.go, stall.go, suspicion.go: a BlueFlame register; why a queue waits; what was suspected of it
//   - srq.go, xrc.go, dc.go: shared receive queues, XRC, DC
//   - datagram.go, multicast.go: UD, and its groups
//   - request.go, job.go: a request and its answer; a WQE that has been judged
//   - fastpath.go: what a queue pair allows on the fast path
//
// Links:
//
//   - port.go: a port, which is a pair of rings
//   - wire.go, outbound.go, inbound.go: a queue pair on a wire, and its two halves
//   - guard.go: the guard of a path
//
// Explanations and shares of the process's resources:
//
//   - explain.go, watchdog.go, log.go: reasons and how often they are given; threads that are stuck; the log
//   - heap.go, discard.go: what objects cost; closing descriptors in the background
package object
