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
// The carrier and its sockets:
//
//   - config.go: what can be chosen, and what is chosen by default
//   - carrier.go: whether the link is up (updateUp); starts and closes a carrier
//   - address.go: which local addresses there are and are usable (up), and which socket sends to a remote one
//   - sockets.go: whether port 4791 can be bound, and why not; from which ports packets are sent
//   - options.go: what the kernel gives a socket: buffers, joining (GRO), cutting (GSO)
//   - group.go: whether strangers have a socket of their own, or the first one has a filter; what the kernel
//     has dropped (countDropped)
//   - screen.go: which datagram the kernel gives to which socket, or drops
//   - known.go: which addresses the kernel's program knows
//   - screening.go: when the kernel gets a new program
//   - device.go: which network device has an address, and its MTU
//   - changes.go: which notifications of the kernel concern a local address; whether an address that could
//     not send can again (probe)
//   - maintain.go: whether devices and addresses are still there; opens again; reports to updateUp
//     (carrier.go)
//
// Paths:
//
//   - table.go: which path a number means, and which path ends to make room
//   - strangers.go: which paths are strangers' (isStranger); the list of paths in the order of their use;
//     which of them ends is decided in table.go
//   - path.go: the header, the MTU and the state of one path
//   - route.go: whether a GID leads to a path, from which local address, and who holds it
//
// Packets:
//
//   - send.go: which packets become one message (extend), and when the sender is blocked
//   - seal.go: the bytes of a plain packet: pad and ICRC
//   - trouble.go: whether an error of sending drops packets, shrinks the MTU or takes the address down
//   - receive.go: which sockets are read, for how long; the sender, the path and the division of a message
//   - looks.go: looks at the sockets that the engine has requested
//   - packet_check.go: whether a packet gets into the ring, or the reason why it is dropped
//   - limits.go: how often strangers are served, and what they may cost the receiver
//   - grh.go: the GRH of received UD packets
//   - loop.go: when a goroutine looks, sleeps and wakes
//   - stats.go: counts and states; decides nothing
//   - neighbours.go: whether the kernel has room for neighbours, and what the log and reports say of it
//   - notes.go: what reports say of dropped packets, and when the log warns of a flood
//
// On links with keys:
//
//   - sealed.go: whether a packet is sent in a session, held, or plain; whether a sealed one is good
//   - guard.go: which session a number means; whether plain packets are accepted (plainFrom)
//   - handshake.go: when a handshake begins here, and what follows its messages; which session is used
//   - handshake_answer.go: whether message 1 is answered by a cookie or by message 2, and message 3 accepted
//   - handshake_limits.go: the times of handshakes and sessions, and the budgets
//   - handshake_timers.go: when a message is sent again; when a session is renewed and ends
//   - held.go: whether a packet that waits for a session is kept
//   - authreport.go: what reports say of keys
//
// Source: InfiniBand Architecture Specification, volume 1, annex A17 (RoCEv2).
package roce
