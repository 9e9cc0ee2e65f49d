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
// The types, which name each other; they decide nothing:
//
//   - device.go: Device and Shard, and their parts; the limits of the formats and of this device
//   - client.go: Client, and its regions, keys, CQs and SRQs; the texts that refuse a missing or a busy
//     object
//   - consumer.go: what the record of a CQ says that the client has taken (Room)
//   - qp.go: QP and its parts; whether a queue pair takes messages (Listens) and may send to its peer
//     (Connected)
//   - wire.go: Wire and its halves; why a peer elsewhere may not answer (WhyNoAnswer); writes BTHs
//
// Threads:
//
//   - new.go: how a new device is made; decides nothing later
//   - settings.go: the values that a device keeps of engine.Config
//   - shard.go: which shard has the least load; which time a shard works by (Clock)
//   - crossing.go: whether a shard may touch another shard's objects (Holds), and which visits are postponed
//   - mailbox.go: runs functions between two steps; which requests wake the thread is decided in
//     mailbox/effect
//   - roster.go: whose turn it is among clients, and how many objects a turn has
//   - warm.go: which queues are warm, so that each step visits them; whether a queue flushes (Flushes)
//   - pass.go: how far a round through the queues of all clients is
//   - fault.go: whether a recovered value is a fault of memory, and its address
//
// Announcements and status:
//
//   - watch.go: which queues are visited aside because they are watched or on a wire
//   - board.go: sends the events that announcements have changed; who gets them is decided in
//     bulletin/readers
//   - status.go: writes the status page and adds up counts; when it is written is decided in report/status
//
// Peers and memory:
//
//   - peer.go: whether holding a path charges the user: the first hold of it does, and the last one refunds
//     it
//   - region.go: which region has an address of the client; refuses memory that could never be filled
//   - uar.go: whether a UAR page may be used: not in a bank that can still lose pages
//   - unmapped.go: which stretch of memory, mapped or of a process, comes next; why an access to it failed
//   - key.go: whether a key may serve a queue pair: PD, window type (Serves); which key a number means (Find)
//   - keylist.go: which bytes of a list key an offset means; which rights make no sense together
//
// Completions:
//
//   - cq.go: whether a CQ has room (Room, Free), by the consumer index; which entry is written next
//   - compress.go: whether a completion fits into a session (Fits), and what its mini is
//   - inline.go: whether data go into the CQE, for how many bytes; only the writing is in completion/inline
//   - arm.go: which CQs share an arm register; until when an event is held; the arm is seen in completion/arm
//   - event.go: whether an event about an object is sent or waits, and an explanation is sent or lost
//   - notifier.go: whether the device's thread sends an event itself (Quick) or a closer does
//
// Queue pairs:
//
//   - blueflame.go: whether the record need not be read (SkipRecord) or lags behind the register (Lags)
//   - srq.go: which SRQ entry is taken next; whether the limit event is due
//   - xrc.go: which client, PD and CQ an XRC message is for; whether a target goes on without a client
//   - dc.go: whether an address vector leads to a DC target: number, key, LID or GID; whether only a stream
//     fails
//   - datagram.go: whether a client may send from, or take datagrams at, an address on a link
//   - multicast.go: takes queue pairs out of groups, and refunds them; members are found in
//     execution/multicast
//   - head.go: reads the fields of a control segment; checks nothing
//   - wqe_place.go: whether a control segment has the index and the QPN of its place in the ring
//   - request.go: which syndrome a NAK becomes (Syndrome), and whether a transport sends NAKs (Nak)
//   - job.go: which bytes of a WQE are moved next, and when all are (Over)
//   - fastpath.go: whether a control segment, a right and a receive are ordinary enough for the fast path
//
// Links:
//
//   - port.go: whether packets of a port may be for a queue pair; when a port is hot, or is given up (Fail)
//   - outbound.go: whether packets may be sent (CanSend), how the window changes, which WQE may follow
//     (fences)
//   - early.go: who pays for packets that come early
//   - inbound.go: which PSN is expected next, and how many answers may be due; notes ACKs, sends none
//   - guard.go: which queue pairs a path's guard has; during an alarm, keeps their packets from the fast path
//
// Explanations and shares of the process's resources:
//
//   - explain.go: a reason in words (Because); how often one is given is decided in codes/limiter
//   - watchdog.go: which client a queue belongs to, for reports; whether a thread is stuck is in
//     report/watchdog
//   - log.go: how many lines about connections and explanations the log gets
//   - heap.go: what an object costs its user in memory of the device
//   - discard.go: on which goroutine descriptors are closed; whether a user has too many that wait (Clogged)
package object
