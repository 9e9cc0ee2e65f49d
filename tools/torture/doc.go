// Package torture tests an engine while clients attack it. It runs the engine and its clients
// as real processes, and stops and kills them. It reports faults by their kind: wrong bytes; completions that
// are lost, repeated or out of order; resources that leak; and correct clients that have to
// wait.
//
// # Processes
//
// The supervisor ([Run]) starts all other processes. They run the same program ([Process]).
// Each reads its role from its standard input:
//
//	engine    runs nicless.Serve and reports its resources
//	client    is one end of a pair that moves data with every kind of operation and
//	          checks each byte and each completion
//	visitor   connects, moves a little data and disconnects, again and again; it also
//	          keeps half-open queue pairs, whose peers were destroyed
//	hostile   is a client that makes an attack ([Attack])
//
// A pair has one connection at a time. A connection has four flows. A flow is one queue pair at
// each end, with its own transport and operations.
//
// If the supervisor is root, the engine runs as a user without privilege. Hostile clients whose
// attack uses up the resources of a user then run as a different user than the correct clients.
//
// # What is done to the processes
//
// Every process except the supervisor is killed at some time and replaced, the engine too.
// Clients of all kinds are stopped by SIGSTOP and continued 50 ms to 2 s later; meanwhile they
// keep all that they hold. Each of these files has an attack that once succeeded against an
// engine:
//
//	punch.go      removes pages that a thread of the engine touches
//	hoard.go      requests descriptors and does not read them
//	impostor.go   gets a queue pair number that another queue pair still names as its peer
//	linger.go     sends descriptors whose close blocks
//	logflood.go   connects and disconnects to fill the log
//	cqhoard.go    holds very many CQs with events, which the engine polls
//
// Two kinds of attack concern only verbs programs, whose memory the engine accesses by process
// id: processes that execute another program, and process ids that are reused. Package verbs
// has tests of these, because no engine here serves verbs programs.
//
// # How data is checked
//
// A [Stream] is determined by its seed, so each end of a flow knows the operations of the
// other. Each word of a payload is determined by the stream, the number of the operation and
// the offset. So the receiver of message n knows which operations came before, where they
// wrote, and every bit that they wrote. All bytes around these must be unchanged.
//
// # Verdicts
//
// Each fault has a kind and its evidence (package internal/verdict, docs/design/0052-verdicts.md). The worst
// one is the verdict.
//
// A stall is a wait of more than 100 ms by a correct client or the visitor, for a completion
// or for the answer to a request. (After 20 ms without a completion a client posts work that
// needs no peer, so a paused peer causes no stall.) On a loaded machine the scheduler causes
// such waits too. These times are subtracted from a wait:
//
//   - the time for which threads were ready to run and had no core: of the most delayed thread of the client,
//     and of the most delayed threads of the engine. The number of these threads of the engine is the number
//     of threads that poll (one, or one for each of --cores), plus one for the thread that serves requests;
//   - the time for which these threads were seen blocked in the kernel, up to 1 s;
//   - the time for which the hypervisor gave this machine's cores to others;
//   - the time for which the supervisor had stopped the client.
//
// A thread that works for another client is running, so that is not subtracted. If more than 100 ms are
// left, the wait is a stall. A wait of which engine or client had a core for less than a twentieth is not
// judged. The subtracted time may be too long, because the delays can overlap and the first reading can be up
// to 20 ms older than the wait.
//
// When the engine ends, a wait ends too. How soon clients notice the end of an engine is
// checked separately. If the kernel has no schedstat, waits of more than 100 ms are undecided.
//
// Deadlines are decided in the same way. One that cannot be decided does not end the run.
//
// # What is repeatable
//
// The [Plan] is determined by the seed alone. It has all starts, stops and kills, with their
// order, pauses and seeds. The kernel schedules the processes differently in each run, so it
// is worth repeating a run.
//
// # Files
//
//	run.go, plan.go, pair.go, events.go, stop.go, finish.go   the supervisor
//	process.go, wire.go, board.go, user.go, cores.go          its processes and their messages
//	client.go, traffic.go, flow.go, send.go, check.go,
//	ending.go, stream.go, memory.go, shared.go, ledger.go     correct clients
//	visit.go                                                  the visitor
//	engine.go, logs.go, resources.go                          the engine
//	hostile.go, raw.go, objects.go, scribble.go, fuzz.go
//	and those above                                           hostile clients
//	stall.go                                                  waits
//	result.go                                                 the result
package torture
