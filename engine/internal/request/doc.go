// Package request serves the requests of clients and servers: control requests, and the methods of
// package nic.
//
// A Client is an object.Client with what its requests need. They run between two steps (object.Device.Do),
// while no shard works.
//
// # Files
//
// Devices and clients:
//
//   - device.go: the device for servers: which calls make memory off the thread; whether entries are unpolled
//   - hosted.go: what a hosted client's memory and pages cost, and whether they are unmapped (sealed) or stay
//   - helpers.go: starts the processes that seal and hold memory
//   - probe.go: what tests may ask and hold up
//   - stepper.go: drives a device without a thread, on a clock that the caller sets
//   - request.go: whether a client may have one more object of a kind
//   - client.go: the pages of a new client; in which order its objects are destroyed
//   - call.go: which function serves a request, and what a hello grants; a fault in a request becomes its
//     refusal
//   - watch.go: whether a client may have a watch, and its memory
//   - watch_follow.go: which clients a watch is for (follows, maySee); puts it on their objects
//   - watch_replay.go: what a replay needs of queues and keys
//   - watch_record.go: the events of clients, queues and keys
//   - faults.go: which queue pairs a client's rules of faults are for; begin and end of rules
//   - commands.go: which process a rule kills, and how it is known to be the client's and its user's
//   - faults_client.go: the rules that a client sets by requests: pieces, limits, counts
//   - refuse.go: which requests rules refuse, and which clients have no such rules
//   - wake.go: which features a client gets, and whether its posters wake the device (setWake)
//
// Memory:
//
//   - region.go: whether a region may be made, placed or dropped
//   - uar.go: whether a bank of UAR pages is added, and its first page
//   - process.go: which process the client's unmapped memory is of
//   - mr.go: whether memory may be registered, changed or deregistered; which key a request means
//
// Completion queues and events:
//
//   - cq.go: whether a CQ may be made or destroyed
//   - resize.go: whether a CQ may move to another buffer
//   - moderate.go: sets how events are held back; when one is sent is decided in completion/moderate
//   - channel.go: whether a completion channel may be made or destroyed
//   - event.go: the descriptor for a client's events
//   - retract.go: which unread events of a destroyed CQ are taken back, and how many the program has read
//
// Queue pairs:
//
//   - announced.go: by what the work of a new queue pair is announced
//   - qp.go: whether a queue pair may be made or destroyed; which peer it is bound to at RTR (bind)
//   - modify.go: whether modify_qp is refused, and which attributes it sets; the path at RTR
//   - peer.go: whether a peer elsewhere is accepted, and the path to it
//   - drain.go: which announced work is executed before a request goes on
//   - srq.go: whether an SRQ may be made or destroyed, or its limit set
//   - xrc.go: which clients share an XRC domain and its targets, which of them moves to the other's shard,
//     and who pays
//   - dc.go: whether a DCT may be made, and a failed stream reset
//   - datagram.go: the addresses and GIDs that a client may use
//   - multicast.go: whether a queue pair may join or leave a group
//
// Announcements and ports:
//
//   - message.go: messages between clients; what is in their boxes: engine/internal/boxes
//   - board.go: passes announcements between clients, server and links; who may read them: object/board
//   - audience.go: for which users a client announces
//   - port.go: adds ports, router and path; finds no path itself
//   - faults_ring.go: which queue pairs go to error when a rule makes a ring unreadable
//   - faults_port.go: which rules of faults act on which ports, and when; whether their owner may set them
//   - outage.go: takes a port that clients see down and up, or changes its GID: which connections are cut
package request
