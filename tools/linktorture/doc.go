// Package linktorture tests links between engines while others attack the links. It runs engines,
// correct clients and hostile processes, all real, in a user and network namespace of its own, which
// needs no privilege and has no network but its loopback device.
//
// # Processes
//
// [Run] starts the supervisor in new namespaces. The supervisor starts the rest; they all run the same
// program ([Process]), and read what they are to be from their standard input:
//
//	engine a    has a RoCE link with b, is node 0 of a pool, and listens for UCX if nicless-ucx is there
//	engine b    has a RoCE link with a
//	engine c    is node 1 of the pool
//	client      is a correct client of two engines, one of the RoCE link and one of the pool. It has a
//	            queue pair at each, and checks each byte of both memories after each batch
//	hostile     makes an attack ([Kind])
//
// # Attacks
//
// All of them know the addresses of the engines and the numbers, addresses and keys of the queue pairs
// of the RoCE client. None knows a PSN, except that the forger sees packets and sends copies of them.
// They send a bounded number of packets in each second, so that a test may run beside others.
//
// On RoCE without keys a stranger that hits the PSN is the peer. So if what a scanner writes
// arrives, that is a [Result.Findings], not a fault. It is unlikely at this rate.
//
// # Verdict
//
// Each fault has a kind and its evidence, and the worst one is the verdict (package internal/verdict,
// docs/design/0052-verdicts.md). The longest wait of the correct clients for a batch is reported and is no
// stall, because packets are lost and sent again. A batch that has not completed after hangTime, and an
// operation whose retries had no answer, count as deadlines that have passed.
//
// # What is repeatable
//
// The [Plan] is determined by the seed: the attacks, their order, lengths and seeds.
//
// # Files
//
//	plan.go        kinds of attacks, and the plan
//	run.go         the namespaces, and the result
//	supervise.go   the supervisor
//	process.go     processes and their messages
//	engine.go      an engine
//	client.go      a correct client; side.go one of its ends
//	hostile.go     the loop of hostile processes
//	packets.go     flooder, scanner and forger; replay.go copies of packets
//	scribble.go    the pool scribbler
//	stranger.go    the stranger at the UCX port
package linktorture
