// Package engine is the device: it polls doorbell records in shared memory,
// executes the work requests that they announce, and writes completions.
//
// An Engine runs on one thread, or is divided into shards. Each shard has its own thread
// and its own clients. Step does a bounded amount of work and never waits, so that a
// test can drive the device one step at a time. Run repeats Step on a locked thread
// until it is stopped. Control requests arrive on any goroutine. They run between two steps, or
// while the thread sleeps.
//
// Only packages of this module attach clients: the root package for its own process,
// server and verbs for other processes. These packages reach the device through package
// nic, whose interfaces are implemented in internal/request. docs/design/0022 says why.
//
// # What is exact
//
// The bytes of WQEs, CQEs, doorbell records and UAR registers; the order of
// completions; the syndrome of each fault, the error state and the flushes that
// follow it; the states of a QP.
//
// # What is emulated
//
// Within one engine there is no wire: a work request of a reliable connection moves bytes from
// one registered region to another. Packet sequence numbers and the MTU are stored
// and returned by queries, but messages are not cut into packets. (Between engines they are: see
// internal/transport.) Each queue is executed
// strictly in order, which satisfies every fence. So a queue never has two READs
// outstanding, and the device only checks that the number of READs that a queue pair
// allows is not zero. A requester that waits for its peer to post a receive continues as
// soon as there is a receive. The RNR timer only sets how long the requester waits before
// the wait counts as one more RNR retry.
//
// # Trust
//
// Client memory is hostile. A WQE is copied once and only the copy is checked.
// Addresses are looked up in key tables, never followed. By any bytes that it writes, a client can
// put its own queues into error and do no other harm.
//
// # Packages
//
// The device is built of layers; each imports only those before it (layering_test.go):
//
//	internal/object      the state of the device and of its clients' objects
//	internal/report      what goes wrong, in words; progress of the thread
//	internal/completion  completions and their events
//	internal/execution   work requests within the device
//	internal/transport   work requests between devices: packets
//	internal/loop        the threads: visits, sleep, several shards
//	internal/request     requests of clients and servers
//
// Below them are leaves, each of which can be understood alone: internal/cgroup, internal/closers,
// internal/codes, internal/copying, internal/cores, internal/journal, internal/mailbox, internal/numbers,
// internal/process, internal/quota, internal/scan, internal/sealer, internal/sleep, internal/states,
// internal/ticketlock, internal/usage, internal/userns.
//
// This package is the public end: config.go and config_check.go (Config), engine.go (Engine), stats.go,
// device.go (package nic), and engine_other.go (New where there is no device). The doc.go of each layer
// lists its files in reading order.
//
// # One WQE
//
// An RDMA_WRITE passes through these functions, from doorbell to CQE:
//
//  1. The thread repeats Step: loop, Steps (loop/steps.go), Step (loop/shard.go). A cold
//     queue whose send record has changed is made warm: patrol, examine (loop/active.go),
//     MarkWarm (object/warm.go).
//  2. Step gives each client with warm queues a turn, and each queue a visit:
//     visitClients, visitClient (loop/active.go), Visit (loop/visit.go). The visit reads from the
//     send record how many blocks are announced: Pending (report/record.go).
//  3. The visit executes WQEs within its budget: Burst (execution/burst.go). It first tries
//     FastPath (execution/fastpath_choose.go), which executes a short WRITE entirely in fastMove
//     (execution/fastpath_move.go) and leaves everything unusual to the slow path. Several WRITEs
//     that differ in their addresses only are a series: seriesLength (execution/fastpath_series.go),
//     executeMoves (execution/fastpath_series_move.go), completeSeries (execution/fastpath_series.go).
//  4. The slow path copies the WQE and checks the copy: Snapshot (execution/flush.go), Check, checkTransfer
//     (execution/check.go), gather (execution/requester.go). A local key is looked up, and its range checked:
//     Find (object/key.go), admit (execution/keylist.go).
//  5. The requester sends the request to the responder, which checks its queue pair and the remote key:
//     request (execution/requester.go), Respond (execution/respond.go), Translate (execution/responder.go).
//     If it refuses, it chooses the NAK: badRemote (execution/responder_fault.go). The requester turns the
//     NAK into a syndrome: answered (execution/requester.go). If the peer is not ready, the queue stalls:
//     wait, Retry (execution/stall.go).
//  6. The bytes are moved: by Move (execution/burst.go), moveJob (execution/job.go), by Offload
//     (execution/burst.go) if workers copy them, or by moveUnmapped (execution/burst.go) if some of the
//     memory is not mapped by the device. A transfer that is longer than the budget is kept as a job of the
//     queue and continued in later visits: KeepJob, ResumeJob (execution/job.go).
//  7. The completion is written: Finish (execution/burst.go), Complete (completion/cq.go). If the CQ is
//     armed, its event is sent: Fire (completion/channel.go).
//  8. A faulty WQE is explained by Explain (report/explain.go) and completed with its syndrome
//     by Fail (execution/flush.go). The queue pair goes to error, and its other WQEs are flushed:
//     SetError (execution/state.go), Flush (execution/flush.go).
//
// Connections are not here: see packages server and verbs.
package engine
