// Package rack tests many engines over one pool or over RoCE, as a rack of hosts has them: each is a process,
// over RoCE in a network namespace of its own, and each has queue pairs with 16 others. All data is checked,
// engines are killed and come back while the others go on, and what the engines take of the processor and of
// the memory while nobody uses them is measured.
//
// # Steps
//
// [Run] starts the engines, those of a pool without a number of a node, so that each takes one, and does
// this:
//
//	all        connects the queue pairs of all neighbours, and exchanges data in rounds
//	idle       measures the engines while the queue pairs rest, and again after they are closed and the pool
//	           has its rings back
//	new        starts one engine more; over a pool, waits until all others know it
//	kill       kills each fourth engine at one time, in the middle of the rounds of the others
//	return     starts those again, connects their queue pairs anew, and exchanges data between all
//
// Or it connects each engine with each other, all at once, and measures that in place of the rest:
//
//	mesh       makes the queue pairs, connects them, writes once with each, and counts packets
//
// In a round each node writes to each neighbour's memory and sends it a message. It compares all that has
// come with what the neighbours of this round have to write and to send.
//
// # Verdict
//
// An error is wrong or missing data, a queue pair of two engines that live which fails, or an engine that
// ends by itself. Times and sizes are reported, and decide about nothing: other programs may use the
// machine. A step that takes longer than patience is an error.
//
// # Files
//
//	run.go      the steps
//	engine.go   an engine, a process
//	node.go     the client of an engine: its memory and its queue pairs
//	round.go    a round of data
//	mesh.go     all with all
//	hosts.go    the hosts of engines that use RoCE, and their network
//	measure.go  what the engines take
package rack
