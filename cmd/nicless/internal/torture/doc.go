// Package torture tests an engine under attack. It runs the engine and its clients as real
// processes, attacks, stops and kills them, and counts errors: bytes that differ,
// completions that are lost, repeated or out of order, resources that leak, correct clients
// that have to wait.
//
// # Processes
//
// The supervisor ([Run]) starts all others. They are the same program in a role
// ([Process]) that they read from their standard input:
//
//	engine    nicless.Serve; it also reports its resources
//	client    one end of a pair that moves data by every operation and accounts
//	          for each byte and each completion
//	visitor   connects, moves a little and disconnects, again and again; it keeps
//	          orphans, which are queue pairs whose peers are gone
//	hostile   a client that makes an attack ([Attack])
//
// A pair has one connection at a time, and a connection has four flows: a queue pair at each
// end, of a transport and with operations of its own.
//
// If the supervisor is root, the engine runs as a user without privilege, and hostile clients
// that use up what one user may have run as another user than correct clients.
//
// # What is done to them
//
// Any process but the supervisor is killed at some time, the engine too, and replaced.
// Clients of all kinds are stopped by SIGSTOP and continued 50 ms to 2 s later, while they
// hold whatever they hold. Each of these files has an attack that once succeeded against an
// engine:
//
//	punch.go      removes pages that a thread of the engine touches
//	hoard.go      leaves descriptors in flight and does not read them
//	impostor.go   takes a number that another queue pair still names as its peer
//	linger.go     sends descriptors whose close blocks
//	logflood.go   connects and disconnects to fill the log
//
// Two kinds of attack concern verbs programs only, whose memory the engine reaches by process
// id: what a process keeps after exec, and process ids that are reused. Package verbs has
// tests of these; no engine here serves verbs programs.
//
// # How data is checked
//
// The two ends of a flow know each other's operations, because a [Stream] follows from its
// seed. Each word of a payload follows from the stream, the number of the operation and the
// offset. So the receiver of message n knows which operations came before, where they wrote,
// and every bit of what they wrote. The bytes around these must be unchanged.
//
// # How stalls are told from delays by the scheduler
//
// A stall is a wait of more than 100 ms by a correct client or the visitor, for a completion
// or for the answer to a request. (After 20 ms without a completion a client posts work that
// needs no peer, so a paused peer causes no stall.) On a loaded machine the scheduler causes
// such waits too. The kernel counts for each thread how long it was ready to run and had no
// core: the second field of /proc/PID/task/TID/schedstat. Three times are subtracted from a
// wait:
//
//   - the growth of that field during the wait, for the most delayed thread of the client and
//     for the most delayed threads of the engine: as many as poll (one, or one for each of
//     --cores) and one more that serves requests;
//   - the time that the hypervisor stole;
//   - the time for which the supervisor had stopped the client.
//
// A thread that waits in the kernel, for a page or a lock, is not ready to run, and a thread
// that works for another client runs. So neither is subtracted. If more than 100 ms are left,
// the stall is unexplained and the verdict is NOT OK. The subtracted time may be too long,
// since these delays can overlap and the readings are up to 20 ms older than the wait.
//
// A wait ends with the engine. How soon clients notice the end of an engine is checked
// separately. If the kernel has no schedstat, stalls are counted but not judged, and the
// result says so.
//
// # What is repeatable
//
// The [Plan] follows from the seed alone. It has all starts, stops and kills, with their
// order, pauses and seeds. How the kernel schedules the processes differs each time; that is
// why one runs it often.
//
// # Files
//
//	run.go, plan.go, pair.go, events.go, stop.go, finish.go   the supervisor
//	process.go, wire.go, board.go, user.go                    its processes, and how they talk
//	client.go, traffic.go, flow.go, send.go, check.go,
//	ending.go, stream.go, memory.go, shared.go, ledger.go     correct clients
//	visit.go                                                  the visitor
//	engine.go, logs.go, resources.go                          the engine
//	hostile.go, raw.go, scribble.go, fuzz.go and those above  hostile clients
//	stall.go, delay.go                                        waits, and what explains them
//	result.go                                                 the result
package torture
