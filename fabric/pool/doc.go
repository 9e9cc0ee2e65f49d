// Package pool links engines through memory that all of them map: a CXL or PCIe memory pool of
// several hosts, or a file of one host. The other end of each ring is the other engine itself.
//
// Terms: a node is an engine that uses the pool; it has a number, and a part of the pool in which it alone
// writes. A life of a node is from one start of the engine to its end. A pair is the two rings between two
// nodes, and a session one use of them, from empty rings on.
//
// Memory that hosts share may have no atomic operations, no wake-ups and, with coherence=none,
// no coherent caches. So every cache line in the pool is written by one node only, no word is read
// and then modified by different nodes, and the unit of publication is 8 bytes. The pool contains
// offsets, no addresses. It is never assumed to be blank.
//
// # Layout, version 3, or 4 with check sums
//
// All numbers are big-endian.
//
//	offset          bytes   written by
//	0               64      the node that formats the pool: the header (layout.go, header.put)
//	4096 + part n   part    node n: its part; all have the same size, whole pages
//
// A part:
//
//	0      the first line, which says that the node lives and what of it has changed (node_life.go)
//	64     bid for the number of the node; several nodes may write it (number.go)
//	128    description (node.go, description.put): GUID, host, MTU, name, addresses
//	3328   summary of what the node's engine does (summary.go)
//	4096   board: its clients' announcements (board.go, view.post)
//	12160  which nodes the table of pairs names (names.go)
//	12288  table of pairs, 128 bytes each (entry.go): what this node says to another one, where the
//	       ring to that node is, and how many packets it has taken from the other ring
//	...    rings that this node sends into (package packetring), from a whole page on
//
// # By need
//
// Each node looks at the first lines of all others, 128 of them in each tick, so it knows them all. Rings
// are opened when a queue pair needs a path to another node (Route): this node takes memory from its own
// part (share.go), and writes a pair into its table. The other node sees that its table has changed, finds
// itself in it, and does the same. A ring that is full grows while it is used (grow.go). Rings that no
// queue pair of either node uses are given back after a quiet time (pair.go). A node cannot take memory of
// another's part: one that has no room says so, and whoever wants rings with it reads that. No lock and no
// agreement is needed for any of it.
//
// # Life and death
//
// A goroutine of the node moves its heartbeat, also while it waits for the engine. Another node takes it
// for alive when it has seen the heartbeat move, and for dead when it has not moved for Config.Dead (2 s),
// in which only time counts that the observer itself ran (silence.go). A node that is started again has
// another epoch, which the others see with the next look, after 20 ms if there are rings. A link that was
// up goes down then (nic.Port.SetUp), and its port is closed if the peer has another epoch: the peer's
// queue pairs are gone (peer_life.go). session.go says how a link comes up, and fence.go when memory of a
// pair that has ended is used again: not while the other node may still look at it.
//
// # Trust
//
// A program that may write the pool can write every byte of it. A node copies what it reads, then checks the
// copy. Wrong contents keep links down, or end them, and have no other effect; a wrong board has no
// announcements. A node writes its own part again where others have overwritten it (repair.go, strays.go),
// and a ring that others have brought to a stand begins anew (flow.go). A link whose peer writes what cannot
// be rests for a second before it is made anew, then for two, up to a minute. The descriptions of other nodes
// are believed, their addresses too. They announce only in the name of the GUID in their description.
//
// # Lost memory
//
// Memory can be lost while it is used: the file becomes shorter, which memfds prevent (the pool seals them),
// its file system is full, or the memory fails. That costs the links whose rings were there, and the pages
// are set aside (lost.go). A node whose own first pages are lost leaves, and comes back when they are there
// again, or with another number (absent.go).
//
// # Files
//
// The memory:
//
//   - layout.go: whether a header is possible; where everything is
//   - map.go: where everything is, for tests and tools; decides nothing
//   - plan.go: how the memory is divided, and whether a formatted pool suits (suits)
//   - node_life.go: the first line of a part
//   - node.go: the bytes of a description; whether it is right
//   - board.go: whether another node's board is right, and has changed; publishes the own one
//   - entry.go: the bytes of a pair; whether its ring is where a ring can be
//   - memory.go: how words are loaded and stored, with and without coherence
//   - file_linux.go: whether the file or device can be made, grown and mapped
//   - file_other.go: refuses on other systems
//
// A node:
//
//   - options.go: what --link says, and whether it is possible
//   - pool.go: Open, Route, Peers, Close
//   - state.go: what others see of the nodes; which node an address leads to
//   - index.go: which nodes have an address
//   - format.go: whether this node formats the pool or waits
//   - join.go: whether the own number is taken (claim); what a new life begins with
//   - number.go: which number a node takes that was given none
//   - wait.go: how long a node waits until the pool is formatted, and what it says meanwhile
//   - pace.go: how often this node beats and looks
//   - alarm.go: how a pause between two looks ends
//   - alarm_linux.go: waits for a timer of the kernel; decides nothing
//   - alarm_other.go: there is none on other systems
//   - run.go: when the heartbeat moves and the others are looked at; when this node leaves
//   - own.go: what this node says in its first line
//   - summary.go: who has looked at what the engines do, and what they have answered
//   - repair.go: whether others have overwritten this node's part, which is then written again
//   - lost.go: what is at an address that cannot be touched; which pages are set aside (lose, sound)
//   - absent.go: how a node whose own pages are lost leaves and comes back
//   - rival.go: whether the engine that has become this node has ended
//   - share.go: which memory of the own part is free for rings
//   - fence.go: whether the memory of a pair that has ended can be used again
//   - names.go: which nodes need not search this node's table
//   - strays.go: whether others have written pairs into this node's table
//   - inherit.go: which memory of an earlier life of this node others may still read
//
// A link:
//
//   - link.go: whether the rings are open, and the link up, down or at rest (step, suspect)
//   - peer_life.go: whether the other node lives, has left, or has restarted
//   - silence.go: how long others were silent while this node ran
//   - pair.go: how rings are opened and closed; whether anybody uses them (quiet)
//   - session.go: whether both nodes agree on empty rings (handshake)
//   - grow.go: whether a ring becomes larger
//   - flow.go: whether a ring stands still, so that the link begins anew
//   - wake.go: whether the other engine sleeps and has to be woken
package pool
