// Package object has the state of the device and of everything that clients make: protection domains,
// memory, keys, queues, channels, and the queue pairs' halves of connections over links. Its methods change
// only the object that they belong to. All that follows from that in other objects is the work of the
// packages above: report, completion, execution, transport, loop, request.
//
// A Device is what all threads share, a Shard the part of it that one thread serves. Everything above a
// Shard is built by embedding it, layer by layer; a pointer to a Shard, as a Client has it, says to which
// thread something belongs.
//
// # Concurrency
//
// The tables of a Device change only while no shard works. Objects of a client are touched only by
// the thread of its shard, or under the ticket lock of its shard (crossing.go). Names are exported for the
// packages above; they are no interface to users.
//
// # Files
//
// The types, which name each other:
//
//   - device.go: Device and Shard, and their parts
//   - client.go: Client, and what belongs to it: regions, keys, completion queues, shared receive queues
//   - qp.go: QP and its parts; Job, a WQE that has been checked
//   - wire.go: Port, Wire and its halves: the state of links
//
// Threads:
//
//   - new.go, settings.go: a new device; what it keeps of engine.Config
//   - shard.go, crossing.go: what one thread serves; the locks of several shards
//   - mailbox.go: functions that run between two steps
//   - roster.go, warm.go: clients that take turns; warm and cold queues
//   - pass.go, fault.go, timer.go: a pass of looks; the address of a fault of memory; a wheel of timers
//
// Objects of clients:
//
//   - status.go: the status page
//   - board.go: announcements, and which clients may read them
//   - peer.go: the peer of a queue pair as its client has set it; paths that users hold
//   - region.go, uar.go, unmapped.go: memory: mapped, UAR pages, and of a process
//   - access.go, key.go, keylist.go: rights; keys and their table; keys that are lists
//   - cq.go, compress.go, inline.go, arm.go: completion queues, sessions, short data, arming
//   - event.go, notifier.go: events, and the threads that send them
//   - blueflame.go: a BlueFlame register
//   - srq.go, xrc.go, dc.go: shared receive queues and their limit event, XRC, DC
//   - datagram.go, multicast.go: UD, and its groups
//   - head.go, wqe_place.go: a control segment; whether it has the index and the QPN of its place in the ring
//   - request.go: what passes between requester and responder: answers, verdicts, syndromes
//   - vendor_syndrome.go: the vendor's error syndromes in error CQEs
//   - job.go: the pieces of memory of a WQE, and how far it has come
//   - fastpath.go: what a queue pair allows on the fast path
//
// Links:
//
//   - port.go, outbound.go, inbound.go, guard.go: ports; the halves of a wire; the guard of a path
//
// Explanations and shares of the process's resources:
//
//   - explain.go, watchdog.go, log.go: reasons and how often they are given; threads that are stuck; the log
//   - heap.go, discard.go: what objects cost; closing descriptors in the background
package object
