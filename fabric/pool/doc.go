// Package pool links engines through memory that all of them map: a CXL or PCIe memory pool of
// several hosts, or a file of one host. The other end of each ring is the other engine itself.
//
// Terms: a node is an engine that uses the pool; it has a number, and node 0 formats the pool. A
// life of a node is from one start of the engine to its end. A session is one use of the two rings
// between two nodes, from empty rings on.
//
// Memory that hosts share may have no atomic operations, no wake-ups and, with coherence=none,
// no coherent caches. So every cache line in the pool is written by one node only, no word is read
// and then modified by different nodes, and the unit of publication is 8 bytes. The pool contains
// offsets, no addresses. It is never assumed to be blank.
//
// # Layout, version 2
//
// All numbers are big-endian.
//
//	offset                 bytes   written by
//	0                      64      node 0: the header (layout.go, header.put)
//	4096 + 8192 n          8192    node n: its node block
//	135168 + 8192 n        8192    node n: its board, its clients' announcements (board.go, view.post)
//	266240 + stride k      stride  ring k of package packetring; stride is its size, rounded up to 4096
//
// A node block:
//
//	0      heartbeat, 8 bytes: counts up every 20 ms
//	8      epoch, 8 bytes: of this life; random, the low 32 bits are 0
//	16     identity of the pool that the node has joined, from the header
//	24     state, 8 bytes: 0 absent, 1 present, 2 left
//	128    for each of 16 nodes a line of 64 bytes: what this node says to that one (link.go)
//	4096   description (node.go, description.put): GUID, host, MTU, name, addresses
//
// There is a ring for each ordered pair of nodes: those of node 0 to nodes 1, 2 and so on, then those
// of node 1 to nodes 0, 2 and so on. The sender is its producer, the receiver its consumer.
//
// # Life and death
//
// A goroutine of the node moves its heartbeat, also while it waits for the engine. Another node takes it for
// alive when it has seen the heartbeat move, and for dead when it has not moved for Config.Dead (2 s), in
// which only time counts that the observer itself ran (silence.go). A node that is started again has another
// epoch, which the others see with the next look, 20 ms later. A link that was up goes down then
// (nic.Port.SetUp), and its port is closed if the peer has another epoch: the peer's queue pairs are gone
// (peer_life.go). session.go says how a link comes up.
//
// # Trust
//
// A program that may write the pool can write every byte of it. A node copies what it reads, then checks the
// copy. Wrong contents keep links down, or end them, and have no other effect; a wrong board has no
// announcements. A node writes its own block again where others have overwritten it (repair.go), and a ring
// that others have brought to a stand begins anew (flow.go). A link whose peer writes what cannot be rests
// for a second before it is made anew, then for two, up to a minute. The
// descriptions of other nodes are believed, their addresses too. They announce only in the name of the GUID
// in their description. A file that becomes shorter is lost, which memfds prevent (the pool seals them).
//
// # Files
//
// The memory:
//
//   - layout.go: whether a header is possible; where everything is
//   - map.go: where everything is, for tests and tools; decides nothing
//   - plan.go: how node 0 divides the memory, and whether a formatted pool suits (suits)
//   - node.go: the bytes of life and description; whether a description is right
//   - board.go: whether another node's board is right, and has changed; publishes the own one
//   - memory.go: how words are loaded and stored, with and without coherence
//   - file_linux.go: whether the file or device can be made, grown and mapped
//   - file_other.go: refuses on other systems
//
// A node:
//
//   - options.go: what --link says, and whether it is possible
//   - pool.go: which node an address leads to (Route); Open, Peers, Close
//   - join.go: whether node 0 formats or others wait; whether the own number is taken (claim)
//   - wait.go: how long a node waits for node 0, and what it says meanwhile
//   - run.go: when the heartbeat moves and the others are looked at; when this node leaves
//   - repair.go: whether others have overwritten this node's block, which is then written again
//   - rival.go: whether the engine that has become this node has ended
//
// A link:
//
//   - link.go: whether the link is up, down or at rest (step, suspect)
//   - peer_life.go: whether the other node lives, has left, or has restarted
//   - silence.go: how long others were silent while this node ran
//   - session.go: whether both nodes agree on empty rings (handshake)
//   - flow.go: whether a ring stands still, so that the link begins anew
//   - wake.go: whether the other engine sleeps and has to be woken
package pool
