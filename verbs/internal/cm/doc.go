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
//	manager.go         Manager: what is shared; one lock
//	call.go            one command and its answer; what the program's process has to do for it
//	command.go         the table of commands
//	channel.go         channels, and the events that wait in them
//	event.go           numbers and records of events
//	id.go              ids, and the table of their states; CREATE_ID, DESTROY_ID, MIGRATE_ID
//	address.go         socket addresses
//	network.go         who has which address
//	port.go            ports: which port an id gets, and which ids may share one
//	holders.go         the index of the ids that have a port
//	bind.go            BIND
//	resolve.go         RESOLVE_ADDR and RESOLVE_ROUTE
//
// The passive end:
//
//	listen.go          LISTEN, the backlog, finding the listener of a request, the new id for a request
//	request.go         a request that has arrived: its listener, its wait for a listener, its rejection
//	request_queue.go   requests from elsewhere are given to a listener one at a time
//	request_limits.go  how many requests and half-open connections one address may have
//	accept.go          ACCEPT, REJECT, NOTIFY
//
// The active end, and connections:
//
//	connect.go         CONNECT, and the request that it sends
//	link_state.go      a link, which is one end of a connection: its states, its start and its end
//	link_messages.go   a link's messages: which message does what in which state
//	disconnect.go      DISCONNECT, the end of a connection, and the wait after it (timewait)
//	detached.go        links that outlive their ids
//	timeouts.go        how long connections wait
//	datagram.go        links of datagram queue pairs
//
// Messages:
//
//	message.go         the messages
//	ipheader.go        the IP addresses in a request
//	carry.go           how messages get to the other end
//	wire.go            to other engines and hosts: the interface, sending, counts
//	wire_receive.go    from other engines and hosts: datagrams, requests, strangers
//	resend.go          what is sent again, and what has come again
//	mad.go             management datagrams: the header
//	mad_request.go     the messages that ask, as bytes
//	mad_answer.go      the messages that answer, as bytes
//
// Other commands, and the end:
//
//	attributes.go      INIT_QP_ATTR
//	query.go           QUERY and QUERY_ROUTE
//	option.go          SET_OPTION
//	multicast.go       joining and leaving multicast groups
//	mgid.go            the addresses of multicast groups
//	remove.go          the end of a channel, and of the device
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
