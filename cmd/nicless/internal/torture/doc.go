// Package torture runs an engine and its clients as real processes, hurts them
// in every way it knows, and counts what must never happen: bytes that differ,
// completions that are lost, repeated or out of order, things left behind, correct
// clients that wait.
//
// # Processes
//
// The supervisor ([Run]) starts all others, which are the same program in a
// role ([Process]) that they read from their standard input:
//
//	engine    nicless.Serve, and answers about what it holds
//	client    one end of a pair that moves data by every operation and accounts
//	          for each byte and each completion
//	visitor   connects, moves a little and leaves, again and again; keeps orphans,
//	          queue pairs whose peers are gone
//	chaos     a client that does wrong what can be done wrong ([Chaos])
//
// Where the supervisor is root, the engine is of a user without privilege, and chaos
// clients that use up what one user may have are of another user than correct clients.
//
// # What is done to them
//
// All are killed, the engine too, and others take their place; clients of both kinds
// are stopped by SIGSTOP and go on 50 ms to 2 s later, still with all that they hold.
// Each kind of chaos client is in a file of its name, more or less; the later ones
// each try to open one hole that an engine had:
//
//	punch.go      pages are taken away from under the engine's thread
//	hoard.go      descriptors in flight, that nobody reads
//	impostor.go   a number that somebody still names as its peer's
//	linger.go     descriptors that do not close
//	chatter.go    connections, to fill the log
//
// What a process keeps after exec, and process ids that are used again, concern verbs
// programs only, whose memory the engine reaches by process id. No engine of this
// package serves verbs programs: package verbs has the tests of that.
//
// # How data is checked
//
// The two ends of a connection know each other's stream of operations, because
// a [Stream] follows from its seed. Each word of a payload follows from the
// stream, the number of the operation and the place in it. So the receiver of
// message n knows which operations came before, where they wrote, and every
// bit of what they wrote; what lies around it must be untouched.
//
// # How stalls are told apart
//
// A stall is a wait of a correct client or of the visitor, for a completion or for the
// answer to a request, of more than 100 ms. (With no completion for 20 ms, a client
// posts something that needs no peer; so somebody else's pause is no reason.) On a
// loaded machine the scheduler makes such waits too. It counts for each thread for how
// long it was ready to run and had no core: the second field of
// /proc/PID/task/TID/schedstat. Three things are subtracted: what that field grew by
// during the wait, for the client's most delayed thread and for the most delayed threads
// of the engine, as many as poll (one, or one for each of --cores) and one that serves a
// request; what the hypervisor stole; and the time for which the supervisor had stopped
// the client. An engine that waits in the kernel, for a page or a lock, is not ready to
// run, and one that works for somebody else runs: both remain. If more than 100 ms
// remain, the stall is unexplained, and the verdict is NOT OK. What is subtracted may
// be too much, since these delays can overlap, and the readings are up to 20 ms older
// than the wait.
//
// Waits end with the engine: where its end cuts a wait short, the time until the client
// knows is judged elsewhere. Where the kernel has no schedstat, stalls are counted and
// not judged, and the result says so.
//
// # What is repeatable
//
// The [Plan], which says who is started, stopped, killed and with which seed, in which
// order and with which pauses, follows from the seed alone. What the kernel
// makes of it differs, of course: that is what many runs are for.
package torture
