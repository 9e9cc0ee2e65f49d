// Package cm is the kernel's connection manager (rdma_cm): what librdmacm asks for by writing
// commands to /dev/infiniband/rdma_cm. It gives out addresses, ports and service numbers, and
// carries the messages by which two programs agree on a connection. It does not touch queue
// pairs: librdmacm changes their states itself, with attributes that it asks for here.
//
// # Terms
//
// A channel is one open of rdma_cm: it has ids and a queue of events. An id
// (struct rdma_cm_id) is one end of a connection, or a listener. A port belongs to a port
// space of a network namespace. A message is what connection managers send to each other on
// a fabric, as a management datagram (MAD): REQ, REP, RTU, REJ, DREQ, DREP, and for datagram
// queue pairs SIDR_REQ and SIDR_REP.
//
// # Files, in reading order
//
// For all commands:
//
//   - manager.go: what is shared, under one lock; runs what is due later
//   - call.go: whether a command needs something of the program's process first; the answer's size
//   - command.go: which function serves a command
//   - channel.go: which event a program reads next, and which unread events are taken back
//   - event.go: whether an id's event is sent (notify); what is in it
//   - user_event.go: which events a program may write into its own channel; services of a subnet manager
//   - id.go: whether an id is in the state for a command; CREATE_ID, DESTROY_ID and its count of events,
//     MIGRATE_ID
//   - address.go: whether a socket address is right, and which IP, port and service it means
//   - network.go: under which name a port is looked up; who has it is decided by Owner of package verbs
//   - port.go: whether an id may have a port (rival), and which free one it gets
//   - holders.go: which ids have a port, as an index; whether they are rivals: port.go
//   - bind.go: whether an id gets a source address, and which device it is then attached to
//   - resolve.go: which source and device lead to a destination, and whether there is a path elsewhere
//
// The passive end:
//
//   - listen.go: which listener a request is for, and whether the backlog has room
//   - request.go: whether a request is offered, waits for a listener, or is rejected
//   - request_queue.go: whose request is offered next, one at a time, of those from elsewhere
//   - request_limits.go: how many requests and half-open connections one address may have
//   - accept.go: whether ACCEPT and REJECT are right in this state, and what they answer
//
// The active end, and connections:
//
//   - connect.go: whether the other end can be reached at all (reach: otherwise UNREACHABLE at once); the
//     request
//   - link_state.go: in which state a link begins and ends; which numbers it has
//   - link_messages.go: which message does what in which state
//   - disconnect.go: when a program is told that the connection has ended; the wait after it (timewait)
//   - detached.go: whether a link outlives its id, because it still has a message to send
//   - timeouts.go: how long connections wait; UNREACHABLE after that is decided in resend.go
//   - datagram.go: where a UD service is, its qkey, and the address handle that leads there
//
// Messages:
//
//   - message.go: the messages as values; decides nothing
//   - ipheader.go: which IP addresses a request names
//   - carry.go: carries a message to its link, here or to the wire; whether it gets there: connect.go
//   - wire.go: whether an address is elsewhere; sends and counts datagrams
//   - wire_receive.go: whether a datagram from elsewhere is believed, and whether a listener can have it
//     (misfit)
//   - resend.go: when a message is sent again, when it is given up, and what one that comes again gets
//   - mad.go: the header of a management datagram, and whether it is one
//   - mad_request.go: the bytes of the messages that ask
//   - mad_answer.go: the bytes of the messages that answer
//
// Other commands, and the end:
//
//   - attributes.go: which attributes the program's queue pair gets for a state (INIT_QP_ATTR)
//   - query.go: which addresses, path, MTU and rate a program is told
//   - option.go: which options are taken (SET_OPTION)
//   - multicast.go: whether an id joins or leaves a group
//   - mgid.go: the GID and the LID of a group
//   - remove.go: what the end of a channel, or of the device, does to its ids
//
// # Messages are values
//
// The two ends of a connection know each other only by messages (Packet), even if both are
// here. A Carrier takes a message to the node that owns an address: to the same Manager as a
// value, and over a Wire as a management datagram.
//
// A message within the engine arrives, once, before the command that sent it is over. On a wire
// it can be lost, doubled or overtaken, and its sender can be a stranger. So a link whose other
// end is elsewhere sends again what is not answered, answers again what comes again, and
// believes a message only if the numbers of both links are right.
//
// # Concurrency
//
// A Manager is safe for concurrent use. One lock guards everything in it. Nothing waits under
// the lock: a message that is sent is put in a queue, and is delivered at the end of the
// command that sent it.
//
// Sources: Linux include/uapi/rdma/rdma_user_cm.h for the commands,
// drivers/infiniband/core/ucma.c, cma.c and cm.c for rules and error numbers, and
// include/rdma/ib_cm.h for the sizes of private data. The numbers of the events are those of
// rdma/rdma_cma.h.
package cm
