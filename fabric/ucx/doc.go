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
// Each side sends a hello (hello.go): GUID, life, MTU, addresses, and what the
// engine's clients announce. Then it accepts the other side or
// refuses it. Packets follow when both have accepted. Each message has a token that the receiver has
// chosen for this connection, so messages of earlier connections are dropped. A peer that has
// said nothing for Config.Dead (1 s) is dead; a peer that lives says something five times in that time.
// The side that connects tries again after a pause. If two engines connect to each other,
// both connections work, and each side sends on its newest.
//
// When a connection is lost, packets on the way are lost with it. Queue pairs repeat them over the next
// connection, as over any network: the engine's protocol has packet sequence numbers.
//
// # Credits
//
// A peer may send 256 packets and 4 MiB of payload more than the process has put into the
// engine's ring. What the ring has no room for waits in the process, so a connection never takes
// more memory than this, and UCX keeps nothing. A peer that sends more is disconnected.
//
// # Trust
//
// What peers say is judged here: the process checks lengths and credits, and passes hellos on as
// they are. A peer's GUID and addresses are believed. UCX does not authenticate: everybody who reaches
// the listening port can be a peer. Messages of the process are parsed strictly, too; the process is a
// child of this one and ends with it.
//
// # Files
//
//	options.go   Config, and the options of --link
//	carrier.go   Carrier: Open, Route, Peers, Close
//	peers.go     who the peers are; what follows from messages of the process
//	hello.go     what peers tell each other
//	process.go   starting the process, and starting it again
//	interfaces.go whether there is a network interface that UCX does not know
//	program.go   finding the program; inside.go, embedded.go: the one inside this command
//	message.go   messages from and to the process
//	memory.go    the shared memory: rings, and words for waking
//	carrier/     the program, in C
package ucx
