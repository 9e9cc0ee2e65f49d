// Package ucx is the carrier that links engines over UCX: TCP, shared memory, or real RDMA devices,
// whatever UCX finds. The library is loaded at run time, by a process of its own: libucp may end
// its process or take its signals, and no foreign code runs in the engine's.
//
//	engine -> ring Send -> process nicless-ucx -> libucp, active messages -> the other process
//	engine <- ring Receive <- process nicless-ucx <- libucp
//
// A [Carrier] is one port of an engine. Its process maps the two rings and moves packets; the Go
// side starts the process, decides with whom it speaks, and starts it again if it dies. A peer is
// an engine at the other end of one or more connections. Its path number is given here, and belongs to
// one life of that engine: packets of its queue pairs never reach the queue pairs of its next life.
//
// # Connections
//
// Engines meet over a TCP connection of their own (meet.go), which the Go side accepts and makes. Both send
// the version of the protocol first, and an engine refuses another version (version.go). Then each offers
// the worker address of its process, a token, and a hello: GUID, life, MTU, addresses, and what the engine's
// clients announce. Each accepts the other or refuses it. Then the side that has connected makes an endpoint
// of UCX with the worker address, and the other one when the first message has come. Each message has a
// token that the receiver has chosen for this connection, so messages of earlier connections are dropped. A
// peer that has sent no message for Config.Dead (1 s) is dead; a peer that lives sends five in that time.
// The connection of their meeting stays: over it they get changed hellos, and the news that the other has
// gone. The side that connects tries again after a pause. If two engines connect to each other, both
// connections work, and each side sends on its newest.
//
// When a connection is lost, packets on the way are lost with it. Queue pairs repeat them over the next
// connection, as over any network: the engine's protocol has packet sequence numbers.
//
// # Ports
//
// There is one TCP port, the Go side's. libucx listens nowhere: the program leads its TCP connections through
// this port, where each needs a ticket of an engine whose meeting is over (carrier/gate.c). A socket at which
// libucx means to listen is called a door. A carrier that only connects has a port, too, at the address from
// which it has connected; no meeting can begin there.
//
// # Credits
//
// A peer may send 256 packets and 4 MiB of payload more than the process has put into the
// engine's ring. Packets for which the ring has no room wait in the process, so a connection never
// takes more memory than this, and UCX keeps no packet. A peer that sends more is disconnected.
//
// # Trust
//
// Input from peers is checked here: lengths, deadlines, numbers of connections, budgets for each address.
// With keys (Config.Auth) peers prove who they are, and the process seals each packet. Without them, every
// engine at an allowed address (Config.Peers) is believed. A peer's GUID and addresses are believed; with
// keys, a GUID belongs to one key. A worker address can crash libucp: then the process starts again, and the
// peer is refused for a while (restarts.go). Messages of the process are parsed strictly, too; the process is
// a child of this one and ends with it.
//
// # Files
//
// The link:
//
//   - options.go: what --link says, and whether it is possible
//   - ports.go: the InfiniBand ports that peers state
//   - carrier.go: which peer an address leads to (Route); Open, Close; how long leaving waits
//   - memory.go: whether the process or the engine sleeps and has to be woken; the rings
//
// Meeting another engine:
//
//   - listen.go: whether a connection is a meeting or one of libucx, and whether it is admitted
//   - strangers.go: which connection is closed to make room; how many meetings an address has
//   - version.go: whether the other side has the same version of the protocol
//   - door.go: the names of the sockets at which no connection arrives without a ticket
//   - meet.go: the steps of a meeting at both sides, and what its failure is called
//   - wire.go: how long a frame may take and be; why a wire was closed
//   - keys.go: whether a connection has keys, and when they are renewed
//   - offer.go: whether the bytes of an offer are right
//   - hello.go: whether the bytes of a hello are right: addresses, announcements
//   - targets.go: when the engines that --link names are tried again
//   - peers.go: whether a peer is accepted (admitPeer), is up, and which MTU it has; whether the link is up
//     (changed)
//
// The process:
//
//   - process.go: when the process is started, started again, or taken for dead
//   - restarts.go: which peer is to blame for its end, and is refused for a while
//   - interfaces.go: whether there is a network interface that UCX does not know
//   - program.go: which program is started (findProgram)
//   - inside.go: the variable with the program inside this command: empty unless embedded.go is built
//   - embedded.go: sets it, in a build with -tags shim
//   - message.go: whether the bytes of a message of the process are right; what follows is decided in
//     peers.go
//   - carrier/: the program, in C
package ucx
