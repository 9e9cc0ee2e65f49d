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
//	kill       kills each fourth engine at one time, while the others write at a steady rate
//	return     starts those again, and connects their queue pairs anew, while the others write; then all
//	           exchange data in rounds
//
// Or it connects each engine with each other, all at once, and measures that in place of the rest:
//
//	mesh       makes the queue pairs, connects them, writes once with each, and counts packets
//
// A [Path] is two engines with RoCE, on hosts between which a relay carries the IP packets of all protocols
// alike. It delays them, has a line with a rate and a queue, and loses some by chance. Data goes over it by
// RDMA and by TCP.
//
// In a round each node writes to each neighbour's memory and sends it a message. It compares all that has
// come with what the neighbours of this round have to write and to send.
//
// In the steps kill and return each node that lives writes to one neighbour after the other, at a rate that
// leaves most of the machine free: each write wakes two engines, and an engine that was woken polls for a
// while. The waits of all writes are reported for four phases of the same length: before the kill, from the
// kill on, from the return on, and after it. The last one shows how much two measurements of the same differ.
// A wait begins when the write was due, so one that was due while another one was under way counts, too.
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
//	pace.go     writes at a steady rate, and how long they wait
//	mesh.go     all with all
//	hosts.go    the hosts of engines that use RoCE, and their network
//	measure.go  what the engines take
//	path.go     two hosts, and data between them by RDMA and by TCP
//	relay.go    what is between them
//	tcp.go      the two ends of TCP
package rack
