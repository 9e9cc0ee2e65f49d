// Package roce is the carrier that connects an engine to IP networks: RoCEv2 over UDP sockets,
// without privileges. Its peers are other engines, Linux's software RoCE (rdma_rxe), and
// RoCE NICs.
//
// A [Carrier] is one port of an engine. It takes packets from the engine's ring Send, adds pad
// bytes and the ICRC, and sends them from UDP sockets. It receives datagrams on port 4791,
// checks them, and puts good packets into the engine's ring Receive.
//
//	engine -> ring Send -> sender: pad, ICRC, UDP_SEGMENT, sendmmsg -> UDP, port 4791
//	engine <- ring Receive <- receiver: recvmmsg, UDP_GRO, check, ICRC <- UDP, port 4791
//
// Terms: a local address is an IP address of this host on which the carrier has sockets. A path
// is a local address, a remote address, a traffic class and a hop limit. A stranger is a
// remote address to which no path was requested. An address to which a path was requested is known.
//
// # Packets in the rings
//
// The headers are the BTH and the extension headers, the payload has no pad bytes, and there is
// no ICRC. The sender sets the pad count of the BTH. A packet received with a mark of
// congestion (ECN CE) has the FECN bit in its BTH. The payload of a received UD packet begins
// with the 40 bytes of the global routing header (GRH); one that is sent has no GRH.
//
// # Links with keys
//
// With Config.Auth, packets go to a remote address only in a session, which package fabric/auth makes by a
// handshake, and packets without a tag of a session are dropped. A third goroutine does the handshakes.
//
// # Threads
//
// Two goroutines, the sender and the receiver, or one that does the work of both if there are
// few processors. They allocate no memory for packets. A goroutine without work looks for work
// for some microseconds and then sleeps in epoll_wait; see loop.go, and docs/ORDERING.md for
// how the engine wakes it.
//
// # Files
//
//	config.go    what can be chosen
//	carrier.go   making, starting and closing a carrier
//	address.go   local addresses: adding and removing
//	sockets.go   the sockets of a local address, and those made by another program
//	options.go   socket options
//	group.go     sockets for peers, for strangers, and for datagrams that are no packets
//	screen.go    the kernel's program that chooses the socket of a datagram
//	known.go     which addresses the kernel's program knows, and when it gets a new program
//	device.go    network devices: which has an address, and its MTU
//	maintain.go  what changes while the carrier works: devices, addresses, MTUs
//	table.go     the table of paths; strangers.go the part of it that strangers may use
//	path.go      one path
//	route.go     from GIDs to paths
//	send.go      the sender: from the ring to datagrams; seal.go the bytes of one packet
//	trouble.go   what to do when sending fails
//	receive.go   the receiver: from datagrams to packets
//	packet_check.go  why a datagram is dropped, or how it gets into the ring
//	limits.go    what strangers may cost the receiver
//	grh.go       the GRH of received UD packets
//	loop.go      the goroutines: when they look, sleep and wake
//	stats.go     counts and states; notes.go the same in words, and floods in the log
//
// On links with keys:
//
//	sealed.go    packets with a tag: sealing, opening, the layout of datagrams
//	guard.go     sessions and their remotes, and the queues of handshakes
//	handshake.go the goroutine that makes sessions; a handshake at the end that begins it
//	handshake_answer.go  a handshake at the other end: cookies, message 2, the verdict
//	handshake_limits.go  times of handshakes and sessions, and budgets
//	handshake_timers.go  messages that are sent again; when sessions are renewed and end
//	held.go      packets that wait for a session
//	authreport.go  reports of keys
//
// Source: InfiniBand Architecture Specification, volume 1, annex A17 (RoCEv2).
package roce
