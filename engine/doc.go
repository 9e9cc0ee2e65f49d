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
//	internal/traffic     the counters of ports
//	internal/completion  completions and their events
//	internal/execution   work requests within the device
//	internal/transport   work requests between devices: packets
//	internal/loop        the threads: visits, sleep, several shards
//	internal/survey      the state of objects, for those who look: whose they may see (sight)
//	internal/request     requests of clients and servers
//
// Below them are leaves, each of which can be understood alone. Some decide more than their names say; the
// file is named in parentheses if there are several:
//
//   - internal/announce: which blocks registers and records announce of a queue that does not go by its
//     record alone (source); whether a WQE of a guarded queue has arrived (guard, written)
//   - internal/atomics: the new value of an atomic's word
//   - internal/cgroup: how many cores and how much memory control groups leave to the process
//   - internal/closers: which goroutine closes a descriptor; whether all of a user's are stuck
//   - internal/codes: the codes of explanations; package field/known has their texts: seen, hardware, likely
//     cause, cure
//   - internal/custody: holds WQEs back for the sanitizer, and compares what belongs to the device
//   - internal/copying: whether a long copy bypasses the caches, by trials; how much pages cost (pages)
//   - internal/cores: on which cores a thread runs (cores), and whether others want them (contention); when a
//     real-time thread pauses, and the warning about one (realtime); time slices (slice)
//   - internal/eventsocket: when a full event socket is tried again (pauses); which events about objects wait
//     for room in it (late)
//   - internal/inject: which rule of faults acts on a WQE, decided once (package fault counts and draws)
//   - internal/journal: whether a user may write a line to the log now (budget); which lines are lost
//     (journal)
//   - internal/mailbox: which control requests wake the thread (effect); on which goroutine they run
//     (mailbox)
//   - internal/numbers: which number a new key or queue gets
//   - internal/order: which bytes of which WQEs may become visible before others (table), and which do, by
//     seed, where a rule of faults asks for that (window)
//   - internal/outage: whether a port that clients see is up, and the marks of connections that are cut
//   - internal/plan: what is to be done at given times, and in which order
//   - internal/pagefault: whether a panic is a fault of memory, and at which address
//   - internal/process: whether the device may use a process's memory (process); whether the pid is still of
//     that process (guard); why not (errors)
//   - internal/quota: whether a user may have more (ledger), out of how much (limits); who pays for a uid
//     (subuid); what is counted (resource)
//   - internal/recent: which explanations are kept for those who look later
//   - internal/boxes: which messages of clients wait for other clients
//   - internal/bulletin: what clients announce, who may read it, and who is notified of a change
//   - internal/congestion: how many packets a queue pair may have on the way on a long path
//   - internal/linepacket: the format of a packet that is one cache line
//   - internal/recovery: which packets are lost, which are kept that came too early, and how many may be on
//     the way; counts of losses for each path
//   - internal/rights: which access rights the device knows; their names
//   - internal/scan: when so many strays come on a path that it closes, and when the scan is over
//   - internal/sealer: whether memory of a client is sealed, by a process of its own
//   - internal/sleep: what ends the sleep of a thread
//   - internal/states: whether a transition of a queue pair is possible, and with which attributes
//   - internal/tap: where the next event of a watched queue goes, and when old ones are given up (ring);
//     which watches record an event (set)
//   - internal/ticketlock: which thread gets a lock next
//   - internal/umr: what a work request may not change of a memory key; why the key is too long for its list
//   - internal/usage: whether memory, and not the scheduler, delayed the thread
//   - internal/userns: which uid outside of a user namespace a uid is
//   - internal/wheel: in which tick a deadline comes
//   - internal/worker: copies what execution/dma has assigned; when a worker sleeps
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
//  8. A faulty WQE is explained by Explain (report/explain.go). The explanation is put where the poller finds
//     it, by Carry (report/carry.go), and the WQE is completed with its syndrome
//     by Fail (execution/flush.go). The queue pair goes to error, and its other WQEs are flushed:
//     SetError (execution/state.go), Flush (execution/flush.go).
//
// # Symptom and place
//
// Where to look first, by what a user or a maintainer sees. Each file is below internal.
//
// Completions and events:
//
//   - A CQE has the wrong byte count: Finish (execution/burst.go), completeFast (execution/fastpath.go)
//     for a send; Deliver (execution/respond.go) for a receive.
//   - Another field of a CQE is wrong, or its owner bit: Complete (completion/cq.go).
//   - Of two faults in one WQE the wrong one is reported: Check, checkTransfer (execution/check.go).
//   - An error CQE has the wrong syndrome: badLocal (execution/requester_fault.go) and the functions
//     beside it; after a NAK: Syndrome (object/request.go).
//   - A compressed session expands to wrong completions: Fits, Mini (object/compress.go), completeCompressed
//     (completion/compress.go).
//   - Short data do not come in the CQE (scatter to CQE): CarryResult, CarryMessage (object/inline.go),
//     CompleteInline (completion/inline.go).
//   - A completion queue overruns although the program polls: Room (object/consumer.go). The reason that is
//     explained: WhyNoRoom (report/failure_reason.go). The queue pairs' errors: Sweep
//     (execution/overrun_sweep.go).
//   - An event of a destroyed object comes, or another object's event is lost with it: unsend
//     (request/retract.go).
//   - No event comes after a CQ was armed, or one too many: ObserveArm (completion/arm.go), Notify
//     (completion/cq.go). An event comes late: fireDue (completion/moderate.go), Quick (object/notifier.go),
//     Rest (eventsocket/pauses.go).
//
// Work requests:
//
//   - A posted WQE is not executed: Pending (report/record.go), HasWork, patrol (loop/active.go), wait
//     (execution/stall.go). Of a queue whose doorbell is a register, or on which a GPU posts: Look
//     (announce/source.go), take (announce/guard.go).
//   - A WQE fails although its bytes seem right: Check (execution/check.go), gather (execution/requester.go).
//   - A key gives access that it should not give, or none: Find, Serves (object/key.go), admit
//     (execution/keylist.go), Translate (execution/responder.go).
//   - The responder sends a NAK, or the wrong one: Respond, Grant (execution/respond.go), RefuseRequest
//     (execution/responder_fault.go).
//   - Bytes of a message are at the wrong place of a receive: Scatter (execution/responder.go). Of a list
//     key: Seek, Bytes (object/keylist.go).
//   - A send waits for a receive for ever, or too few or too many retries are made: wait, Try
//     (execution/stall.go).
//   - A result depends on the length of a WQE, or on its neighbours: FastPath (execution/fastpath_choose.go),
//     seriesLength (execution/fastpath_series.go).
//   - A WQE is executed twice, or too early: PollBlueFlameHalf (execution/blueflame.go).
//   - WAIT, SEND_EN, DUMP or a copy within memory (MMO) does the wrong thing: checkWait, checkSendEnable,
//     checkDump, checkMMO (execution/local.go).
//   - An atomic returns a wrong value: executeAtomic (execution/atomic.go), fastAtomic
//     (execution/fastpath_atomic.go).
//   - A window or a list cannot be bound: umrTarget (execution/umr.go), Plan (umr/plan.go). A peer
//     cannot invalidate it: invalidate (execution/invalidate.go).
//   - A shared receive queue loses entries, or its limit event does not come: Take, Return, ObserveLimit
//     (object/srq.go), ReturnReceive (execution/job.go).
//   - A datagram does not arrive: takesDatagram (execution/datagram.go), addressGroup
//     (execution/multicast.go). Its GRH or service level is wrong: PutHeader (execution/datagram_header.go).
//   - A DC datagram, or another WQE of a DCI, gets to no target, or to the wrong one: TargetOf,
//     ReachesTarget, LeadsTo (object/dc.go). Its address vector is misread: addressEnd
//     (execution/address.go); the WQE waits without need: addressTarget (execution/dc.go). Why none answers:
//     whyNoTarget (report/failure_reason.go).
//
// Queue pairs and memory:
//
//   - modify_qp refuses a transition or an attribute: Transition (states/states.go), change
//     (request/modify.go).
//   - WQEs are not flushed, or not in order: Fail, Flush (execution/flush.go), SetState (execution/state.go).
//   - The event "drained" does not come: SetState (execution/state.go), EndJob (execution/job.go).
//   - Memory cannot be registered: regMR (request/mr.go). A region cannot be made: createRegion
//     (request/region.go).
//   - A limit refuses a user too early or too late: Take (quota/ledger.go). Of uids in containers
//     (/etc/subuid): parseRanges (quota/subuid.go). Of a container's memory: leastUpwards (cgroup/cgroup.go).
//   - A work request fails because a page is missing: RecoverFault (loop/steps.go), MemoryFault
//     (execution/fault.go).
//
// Time:
//
//   - A long transfer makes other queues wait: Burst (execution/burst.go), Cost (copying/pages.go). One
//     client makes others wait: visitClients (loop/active.go), TurnOf (object/roster.go).
//   - The thread uses its core although there is no work, or sleeps although there is some: wait
//     (loop/idle.go), Look (loop/look.go), setWake (request/wake.go).
//   - A control request does not wake the thread, or wakes it without need: wakes, EffectOf
//     (mailbox/effect.go); in which states callers wake it: Do, AllowCallers (mailbox/mailbox.go).
//   - A warning about real-time threads comes without need, or not at all: NewPauser, starved, reserve
//     (cores/realtime.go).
//   - Work between two shards is slow: LockPeerShard (report/lock.go), visitPostponed (loop/crossing.go),
//     BringTogether (loop/balance.go).
//   - The log says that memory held the thread up: ExplainDelay (report/delay.go),
//     slowVisit (report/progress.go). The log says that a thread is stuck at memory, or gets no core:
//     checkShards, queryKernel (report/watchdog.go). Whether memory or the scheduler was the cause of a
//     delay: Check (usage/usage.go).
//   - An explanation is missing, or comes too often: ExplainSubject (report/explain.go), DiagnoseQP
//     (report/diagnose.go).
//
// Watches:
//
//   - A watched queue behaves otherwise than an unwatched one, or an event of it is missing: visitAside,
//     burstWatched, burstOne (loop/watched.go). Of a completion: recordCQE (completion/watched.go); of a
//     packet: servePortWatched, RecordSent (transport/watched.go); of a queue or a key: recordQueue,
//     recordKey (request/watch_record.go).
//   - A user sees what is another user's: maySee (request/watch_follow.go).
//   - Events are lost: record, raise (tap/ring.go); they are counted by Next (package trace).
//
// Ports:
//
//   - A port that is down lets something through, or a queue pair does not come back: cut, mend
//     (request/outage.go), CutWire (transport/wire.go); of datagrams: carries (execution/datagram_header.go),
//     arrivesAt (transport/datagram.go).
//
// Faults on demand:
//
//   - A rule acts on the wrong queue or client: faultQueue (request/faults.go); on the wrong WQE: Decide
//     (inject/queue.go), Next (package fault), facts (execution/inject.go)
//   - A rule acts on the wrong packet: packetFacts (transport/packet_facts.go), Link.Next (inject/link.go);
//     does the wrong thing to it: injectPacket (transport/detour.go). A packet comes too late: leave
//     (transport/held.go)
//   - A rule does the wrong thing to a WQE: Inject, BurstFaulty (execution/inject.go)
//   - Bytes pass others that they must not pass: may, blocks (order/table.go). Bytes come after their
//     completion: moveInOrder (execution/inject_order.go); a WQE fails or is written too early: checkAhead,
//     leaveOrder there
//
// Links:
//
//   - A packet is not taken: receive, takeRequest (transport/receive.go). During a scan of PSNs: SetAlarm
//     (object/guard.go), Count (scan/scan.go).
//   - A NAK for a gap is sent never, or for each packet: takeRequest (transport/receive.go); for an answer
//     that is missing: requestAgain (transport/answers.go). Only its bytes: sendNAK (transport/ack.go).
//   - A CAS or fetch-and-add over links returns a wrong value, or is executed twice: putAtomic
//     (transport/send.go), serveReadOrAtomic, noteAnswer (transport/responder.go), sendAtomicAnswer,
//     keptResult (transport/reads.go), atomicResult (transport/answers.go). A masked one is sent as a
//     plain one, or not: requestOperation (transport/send.go); is refused: operandsFit
//     (transport/responder.go).
//   - Packets are sent again and again: takeAnswer, requestAgain (transport/answers.go), timedOut, notReady
//     (transport/timer.go), sendNAK (transport/ack.go).
//   - A link is slow: CanSend (object/outbound.go), Grow, Shrink (recovery/limit.go). A link is given up:
//     Fail (object/port.go).
//
// Connections are not here: see packages server and verbs.
package engine
