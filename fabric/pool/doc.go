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
// alive when it has seen the heartbeat move, and for dead when it has not moved for Config.Dead (2 s). A
// node that is started again has another epoch, which the others see with the next look, 20 ms later. A link
// that was up goes down then (nic.Port.SetUp), and its port is closed if the peer has another epoch: the
// peer's queue pairs are gone (peer_life.go). session.go says how a link comes up.
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
//	layout.go    the header, and where everything is
//	map.go       Map: where everything is, for tests and tools
//	plan.go      how node 0 divides the memory
//	node.go      node blocks: life and description
//	board.go     boards: what clients of the engines announce
//	memory.go    loads and stores, with and without coherence
//	options.go   Config, and the options of --link
//	file_*.go    the memory: files and devices
//	pool.go      Pool: Open, Route, Peers, Close
//	join.go      formatting, waiting for that, and becoming a node
//	wait.go      how long a node waits for node 0, and what it says meanwhile
//	run.go       the loop: heartbeat, and looking at the others
//	link.go      a link with another node: its port, and when the link is up, down or at rest
//	peer_life.go whether the other node lives, has left, or has restarted
//	repair.go    this node's block, when others write it
//	rival.go     another engine that has become this node
//	flow.go      rings that stand still
//	session.go   how two nodes agree on empty rings, after a restart or when a ring stands still
//	wake.go      ending the sleep of an engine on the same host
package pool
