// Package torture runs an engine and its clients as real processes, hurts them
// in every way it knows, and counts what must never happen: bytes that differ,
// completions that are lost, repeated or out of order, things left behind.
//
// # Processes
//
// The supervisor ([Run]) starts all others, which are the same program in a
// role ([Process]) that they read from their standard input:
//
//	engine    nicless.Serve, and answers about what it holds
//	client    one end of a pair that moves data by every operation and accounts
//	          for each byte and each completion
//	chaos     a client that does wrong what can be done wrong
//
// # How data is checked
//
// The two ends of a connection know each other's stream of operations, because
// a [Stream] follows from its seed. Each word of a payload follows from the
// stream, the number of the operation and the place in it. So the receiver of
// message n knows which operations came before, where they wrote, and every
// bit of what they wrote; what lies around it must be untouched.
//
// # What is repeatable
//
// The [Plan], which says who is started, killed and with which seed, in which
// order and with which pauses, follows from the seed alone. What the kernel
// makes of it differs, of course: that is what many runs are for.
package torture
