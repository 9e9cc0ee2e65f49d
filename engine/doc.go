// Package engine is the device: it polls doorbell records in shared memory,
// executes the work requests that they announce, and writes completions.
//
// An Engine runs on one thread, or is divided into shards. Each shard has its own thread
// and its own clients. Step does a bounded amount of work and never waits, so that a
// test can drive the device one step at a time. Run repeats Step on a locked thread
// until told to stop. Control requests arrive on any goroutine. They run between two
// steps, or while the thread sleeps.
//
// Only packages of this module attach clients: the root package for its own process,
// server and verbs for other processes. These packages reach the device through package
// nic, whose interfaces are implemented in device.go. docs/design/0022 says why.
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
// wire.go.) Each queue is executed
// strictly in order, which satisfies every fence. So a queue never has two READs
// outstanding, and the device only checks that the number of READs that a queue pair
// allows is not zero. A requester that waits for its peer to post a receive continues as
// soon as there is a receive. The RNR timer only sets how long the requester waits before
// the wait counts as one more RNR retry.
//
// # Trust
//
// Client memory is hostile. A WQE is copied once and only the copy is judged.
// Addresses are looked up in key tables, never followed. Whatever a client writes,
// it can put its own queues into error and do no other harm.
//
// # One WQE
//
// An RDMA_WRITE passes through these functions, from doorbell to CQE:
//
//  1. The shard's thread repeats Step: loop, steps (run.go), Step (shard.go). A cold
//     queue whose send record has changed is made warm: patrol, examine, markWarm
//     (active.go).
//  2. Step gives each client with warm queues a turn, and each queue a visit:
//     visitClients, visitClient (active.go), visit (burst.go). The visit reads from the
//     send record how many blocks are announced: pending (record.go).
//  3. The visit executes WQEs within its budget: burst (burst.go). It first tries
//     fastPath (fastpath.go), which executes a short WRITE entirely in fastMove
//     (fastpath_move.go) and leaves everything unusual to the slow path. Several WRITEs
//     that differ in their addresses only are a series: seriesLength (fastpath_series.go),
//     executeMoves (fastpath_series_move.go), completeSeries (fastpath_series.go).
//  4. The slow path copies the WQE and judges the copy: snapshot, judge, judgeTransfer,
//     gather (requester.go). A local key is looked up, and its range checked: find
//     (key.go), admit (keylist.go).
//  5. The requester asks the responder, which checks its queue pair and the remote key:
//     ask (requester.go), respond, translate (responder.go). If it refuses, it
//     chooses the NAK: badRemote (responder_fault.go). The requester turns the NAK into a
//     syndrome: answered (requester.go). If the peer is not ready, the queue stalls: wait,
//     retry (stall.go).
//  6. The bytes are moved: by move (burst.go), moveJob (job.go), by offload (dma.go) if workers copy
//     them, or by moveUnmapped (unmapped.go) if some of the memory is not mapped by the
//     device. A transfer that is longer than the budget is kept as a job of the queue and
//     continued in later visits: keepJob, resumeJob (job.go).
//  7. The completion is written: finish (burst.go), complete (cq.go). If the CQ is armed,
//     its event is sent: fire (channel.go).
//  8. A faulty WQE is explained by explain (explain.go) and completed with its syndrome
//     by fail (requester.go). The queue pair goes to error, and its other WQEs are flushed:
//     setError (qpstate.go), flush (flush.go).
//
// # Files
//
// The files are listed in reading order.
//
// The device and its threads:
//
//   - config.go, config_check.go, engine.go: Config and Limits; Engine, New, Step
//   - settings.go, device_state.go: what the device keeps of its configuration; its state
//   - runner.go: the loops of all threads
//   - engine_other.go: New where there is no device
//   - shard.go: a shard, which is one thread of the device and its clients; its Step
//   - run.go: Run, batches of steps, recovery from faults of memory
//   - cut.go: a step that a fault ends early: in which part, and where the next step continues
//   - thread.go: start and end of the shards' threads
//   - roster.go: clients that have objects of one kind, and take turns
//   - active.go: warm and cold queues, the patrol, budgets of clients
//   - crossing.go: several shards: their ticket locks, work requests between two shards
//   - balance.go: assignment of clients to shards
//   - idle.go: spin, yield, nap or sleep while there is no work
//   - look.go: the bounded looks before a nap or sleep
//   - monitor.go: waiting by UMWAIT, which lets the core rest
//   - internal/sleep: what a thread sleeps on
//   - mailbox.go: functions that run between two steps: Do
//   - bringing.go: whether such a function wakes the engine
//   - stop.go: an orderly stop
//   - internal/ticketlock: the locks of shards
//   - internal/cores, internal/cgroup: cores and contention for them; limits of control groups
//
// Objects of clients:
//
//   - client.go: a client: attachLocal, Close
//   - call.go: requests of a client: request
//   - peer.go: requests that may wait for links: the device's address, the path to a peer
//   - board.go: what clients announce to each other
//   - audience.go: which of them may read it
//   - limit.go: the limits of one client: take
//   - pd.go: protection domains
//   - access.go: names of access rights
//   - region.go: memory that client and device share
//   - mr.go: registered memory, windows and lists: the requests that make keys
//   - key.go: keys and their table
//   - keylist.go: keys that are lists of other keys
//   - process.go, process_guard.go, process_errors.go: memory of a process that is not mapped
//   - uar.go: UAR pages
//   - cq.go: completion queues; complete writes a CQE
//   - compress.go: compressed completions
//   - unpolled.go: whether a client has completions that it has not polled
//   - inline.go: short data in completions
//   - overrun.go, resize.go: full completion queues; changing the size of a completion queue
//   - moderate.go: events that are held back (completion moderation)
//   - channel.go: completion channels and their events
//   - arm.go: arming: which CQs the device polls for arms, and when
//   - notifier.go: who sends events: the thread itself, or a closer if many wait for the socket
//   - event.go: asynchronous events
//   - qp.go: queue pairs
//   - record.go: doorbell records: what they announce, byte order, values that cannot be right
//   - states.go: the table of their states
//   - qpstate.go: what follows from a new state; attributes
//   - transport.go: RC, UC and UD
//   - srq.go: shared receive queues
//   - xrc.go: XRC domains, their shared receive queues and targets
//   - dc.go: queue pairs that receive by the dynamically connected transport
//   - internal/numbers: numbers of queues
//   - status.go: the status page, Stats
//   - wake.go: how clients wake the device
//   - device.go: what servers can ask of the device (package nic)
//   - probe.go: what tests of servers can ask of the device
//   - hosted.go: clients that a server makes for programs in other processes
//   - settle.go: executing what is announced before a request of a hosted client ends a queue
//   - retract.go: taking back events of hosted clients
//
// Execution of work requests:
//
//   - burst.go: a visit to a queue, its budget, completion of WQEs that succeed
//   - request.go: what requester and responder exchange: a request, an answer; verdicts
//   - requester.go: snapshot, judging, local memory, the syndrome that a NAK causes
//   - requester_fault.go: what is wrong with a WQE or its local memory
//   - responder.go: remote keys, receives, completion of receives
//   - responder_fault.go: what the responder refuses, and with which NAK
//   - xrc_respond.go: requests that name a shared receive queue
//   - dc_request.go, dc_stream.go: WQEs that name the queue pair that receives; their streams
//   - job.go: a WQE that has been judged, and the pieces of memory that it moves
//   - cost.go: what pieces of memory cost of the budget of a visit
//   - stall.go: queues that wait: retries and timers
//   - local.go: NOP, DUMP, MMO, WAIT, SEND_EN
//   - atomic.go: atomics
//   - datagram.go, datagram_header.go: UD; the header before a datagram, and GID tables
//   - multicast.go: datagrams to multicast groups
//   - umr.go, plan.go: UMR: binding windows, filling lists
//   - null.go: the null key, a place without memory
//   - flush.go: error completions, flushes
//   - fastpath.go, fastpath_move.go, fastpath_send.go, fastpath_atomic.go: the fast path
//   - fastpath_series.go, fastpath_series_move.go, fastpath_series_send.go: WQEs that differ in
//     their addresses only, and are executed together
//   - port.go, port_serve.go: ports to other devices; packets that come and go there
//   - port_fault.go: ports whose rings lose their memory
//   - wire.go: queue pairs whose peer is on another device
//   - wire_requester.go, wire_send.go, wire_answers.go: WQEs become messages, and these packets;
//     the answers to them
//   - wire_fast.go, wire_line.go: short WRITEs and READs of these queue pairs
//   - wire_timer.go: timers of these queue pairs
//   - wire_responder.go, wire_request.go, wire_message.go, wire_reads.go: packets become requests; the answers
//   - wire_guard.go, internal/scan: packets of somebody who tries PSNs; how many are looked at
//   - wire_datagram.go: datagrams to and from other devices
//   - blueflame.go: WQEs in BlueFlame registers
//   - unmapped.go: transfers of memory of a process
//   - dma.go, worker.go, internal/copying: workers that copy long transfers; copies past the caches
//
// What goes wrong, in words:
//
//   - explain.go: explanations and their limits
//   - why.go: the reason of a fault
//   - internal/codes: the codes of explanations
//   - suspicion.go: when the device looks for mistakes that hardware ignores, and reports them
//   - progress.go, internal/usage, delay.go: time for which memory of clients delays the thread
//   - watchdog.go: threads that are stuck
//   - log.go, internal/journal: writing to the log, and how much each client may write
//
// Shares of the process's resources:
//
//   - internal/quota, heap.go: how much each user may take
//   - internal/userns: which user a uid is outside of a user namespace
//   - discard.go, engine/internal/closers: closing descriptors in the background
//   - helpers.go, engine/internal/sealer: helper processes that seal memory
//
// Connections are not here: see packages server and verbs.
package engine
